"""Writes trl_vectors.json: random inputs and what TRL 1.16.0's own code makes of them, in float64.

TRL is not installed for the tests; to make the file again:

    python -m venv trl && trl/bin/pip install trl==1.16.0 && trl/bin/python tests/support/make_trl_vectors.py

Losses call TRL's `_compute_loss` on a stand-in for the trainer that returns given log-probabilities. Advantages and
sampler weights stand in the middle of a long method, so the lines from one marker to another are run by themselves.
"""

import inspect
import json
import math
import textwrap
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from trl.trainer.grpo_trainer import GRPOTrainer  # pyright: ignore[reportMissingImports]
from trl.trainer.rloo_trainer import RLOOTrainer  # pyright: ignore[reportMissingImports]
from trl.trainer.utils import nanstd  # pyright: ignore[reportMissingImports]

LENGTHS = [5, 3, 7, 1, 4, 6]
GROUP = 3
MAX_LENGTH = 9


def tensors(seed: int) -> dict[str, torch.Tensor]:
    """Padded [B, L] inputs; current and old policies are far enough apart for clips to bite."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shape = (len(LENGTHS), max(LENGTHS))
    logprobs = -normal(*shape).abs() - 0.05
    return {
        "logprobs": logprobs,
        "old": logprobs + 0.3 * normal(*shape),
        "ref": logprobs + 0.3 * normal(*shape),
        "sampler": logprobs + 0.3 * normal(*shape),
        "entropy": normal(*shape).abs(),
        "advantages": normal(len(LENGTHS)),
        "mask": (torch.arange(shape[1]) < torch.tensor(LENGTHS)[:, None]).double(),
    }


def stand_in(logprobs: torch.Tensor, entropy: torch.Tensor, **settings: object) -> SimpleNamespace:
    """What `_compute_loss` reads of a trainer, with every feature off that `settings` does not turn on."""
    accelerator = SimpleNamespace(
        num_processes=1, sync_gradients=True, gather=lambda x: x, reduce=lambda x, reduction: x
    )
    defaults = {
        "_get_per_token_logps_and_entropies": lambda *args, **kwargs: (logprobs, entropy, None),
        "accelerator": accelerator,
        "args": SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
        "model": SimpleNamespace(training=True),
        "_metrics": {"train": defaultdict(list)},
        "aux_loss_enabled": False,
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "importance_sampling_level": "token",
        "beta": 0.0,
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "use_vllm": False,
        "vllm_importance_sampling_correction": False,
        "current_gradient_accumulation_steps": 1,
        "max_completion_length": MAX_LENGTH,
        "_entropy_bonus_enabled": "entropy_coef" in settings,
        "use_adaptive_entropy": False,
        "entropy_coef": 0.0,
    }
    return SimpleNamespace(**(defaults | settings))


def loss_case(seed: int, *, trainer: type = GRPOTrainer, with_old: bool = True, **settings: object) -> dict:
    data = tensors(seed)
    logprobs, mask = data["logprobs"].requires_grad_(), data["mask"]
    inputs = {
        "prompt_ids": torch.zeros(len(LENGTHS), 0, dtype=torch.long),
        "prompt_mask": torch.zeros(len(LENGTHS), 0),
        "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
        "completion_mask": mask,
        "advantages": data["advantages"],
        "ref_per_token_logps": data["ref"],
        "num_items_in_batch": mask.sum(),
    }
    if with_old:
        inputs |= {"old_per_token_logps": data["old"], "old_logps": (data["old"] * mask).sum(1)}
    if settings.get("use_vllm"):
        inputs["importance_sampling_ratio"] = sampler_ratio(data["old"], data["sampler"], mask)
    loss = trainer._compute_loss(stand_in(logprobs, data["entropy"], **settings), None, inputs)
    loss.backward()
    assert logprobs.grad is not None
    chosen = mask.bool()
    flat = {name: data[name].detach()[chosen].tolist() for name in ("logprobs", "old", "ref", "sampler", "entropy")}
    return flat | {
        "lengths": LENGTHS,
        "advantages": data["advantages"].tolist(),
        "with_old": with_old,
        "max_length": MAX_LENGTH,
        "loss": loss.item(),
        "gradient": logprobs.grad[chosen].tolist(),
    }


def run_lines(method: Callable[..., object], first: str, end: str, names: dict) -> dict:
    """Runs the method's lines from the one that starts with `first` to the one before that which starts with `end`."""
    lines = inspect.getsource(method).splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith(first))
    stop = next(i for i, line in enumerate(lines) if i > start and line.strip().startswith(end))
    exec(textwrap.dedent("\n".join(lines[start:stop])), names)
    return names


def sampler_ratio(old: torch.Tensor, sampler: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    settings = {"mode": "token_truncate", "clip_min": None, "clip_max": 1.3}
    names = {
        "self": SimpleNamespace(**{f"vllm_importance_sampling_{name}": value for name, value in settings.items()}),
        "torch": torch,
        "math": math,
        "mask": mask,
        "old_per_token_logps": old,
        "sampling_per_token_logps": sampler,
    }
    method = GRPOTrainer._generate_and_score_completions
    lines = run_lines(method, "per_token_logps_diff = (old", "elif self.vllm_importance_sampling_mode", names)
    return lines["vllm_importance_sampling_ratio"]


def advantage_case(seed: int, *, trainer: type = GRPOTrainer, unscored: bool = False, **settings: object) -> dict:
    generator = torch.Generator().manual_seed(seed)
    parts = torch.rand(4 * GROUP, 2, generator=generator, dtype=torch.float64)
    if unscored:
        parts[4] = torch.nan
    weights = torch.tensor([0.9, 0.1], dtype=torch.float64)
    names = {
        "self": SimpleNamespace(reward_weights=weights, reward_funcs=[0, 1], reward_clip_range=None, **settings),
        "torch": torch,
        "nanstd": nanstd,
        "device": "cpu",
        "num_generations": GROUP,
        "rewards_per_func": parts.clone(),
    }
    method = trainer._generate_and_score_completions
    result = run_lines(method, "unscorable_mask = ", "process_slice = ", names)["advantages"]
    # JSON has no NaN: an unscored row is null.
    rows = [None if any(map(math.isnan, row)) else row for row in parts.tolist()]
    return {"group": GROUP, "parts": rows, "weights": weights.tolist(), "advantages": result.tolist()}


def main() -> None:
    summed: dict[str, Any] = {"multi_objective_aggregation": "sum_then_normalize"}
    vllm: dict[str, Any] = {"use_vllm": True, "vllm_importance_sampling_correction": True}
    vectors = {
        "losses": {
            "grpo": loss_case(1, loss_type="grpo"),
            "grpo, one update": loss_case(2, loss_type="grpo", with_old=False),
            "grpo, kl": loss_case(3, loss_type="grpo", beta=0.04),
            "dapo": loss_case(4, loss_type="dapo", epsilon_high=0.28),
            "dapo, entropy": loss_case(5, loss_type="dapo", epsilon_high=0.28, entropy_coef=0.01),
            "dapo, sampler": loss_case(6, loss_type="dapo", epsilon_high=0.28, **vllm),
            "dr_grpo": loss_case(7, loss_type="dr_grpo"),
            "gspo": loss_case(
                8, loss_type="grpo", importance_sampling_level="sequence", epsilon_low=0.05, epsilon_high=0.08
            ),
            "cispo": loss_case(9, loss_type="cispo", epsilon_high=1.2),
            "rloo": loss_case(10, trainer=RLOOTrainer),
        },
        "advantages": {
            "grpo": advantage_case(1, scale_rewards="group", **summed),
            "grpo, unscored": advantage_case(2, scale_rewards="group", unscored=True, **summed),
            "dr_grpo": advantage_case(3, scale_rewards="none", **summed),
            "gdpo": advantage_case(4, multi_objective_aggregation="normalize_then_sum"),
            "gdpo, unscored": advantage_case(5, multi_objective_aggregation="normalize_then_sum", unscored=True),
            "rloo": advantage_case(6, trainer=RLOOTrainer, beta=0.0, normalize_advantages=False),
            "rloo, unscored": advantage_case(
                7, trainer=RLOOTrainer, beta=0.0, normalize_advantages=False, unscored=True
            ),
        },
    }
    (Path(__file__).parents[1] / "algo" / "trl_vectors.json").write_text(json.dumps(vectors) + "\n")


if __name__ == "__main__":
    main()
