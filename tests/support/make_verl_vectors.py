"""Writes verl_vectors.json: what verl 0.9.1's loss functions make of random input, in float64.

For formulas that TRL lacks (dual clip, GSPO-token, a lower bound in CISPO, k1 and k2). To make the file again:

    python -m venv peers && peers/bin/pip install trl==1.16.0 verl==0.9.1
    peers/bin/python tests/support/make_verl_vectors.py
"""

import json
from pathlib import Path

from make_trl_vectors import LENGTHS, MAX_LENGTH, tensors
from verl.trainer.ppo.core_algos import (  # pyright: ignore[reportMissingImports]
    agg_loss,
    get_policy_loss_fn,
    kl_penalty,
)
from verl.workers.config import ActorConfig  # pyright: ignore[reportMissingImports]


def case(seed: int, *, loss: str, average: str, low: float, high: float, dual: float = 1e9, kl: str = "") -> dict:
    data = tensors(seed)
    logprobs, mask = data["logprobs"].requires_grad_(), data["mask"]
    config = ActorConfig(
        strategy="fsdp", rollout_n=1, use_dynamic_bsz=True, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=dual
    )
    config.global_batch_info["loss_scale_factor"] = MAX_LENGTH
    value, _ = get_policy_loss_fn(loss)(
        data["old"], logprobs, data["advantages"][:, None].expand_as(mask), mask, average, config
    )
    if kl:
        value = value + 0.04 * agg_loss(kl_penalty(logprobs, data["ref"], kl), mask, average)
    value.backward()
    assert logprobs.grad is not None
    chosen = mask.bool()
    flat = {name: data[name].detach()[chosen].tolist() for name in ("logprobs", "old", "ref", "sampler", "entropy")}
    return flat | {
        "lengths": LENGTHS,
        "advantages": data["advantages"].tolist(),
        "with_old": True,
        "max_length": MAX_LENGTH,
        "loss": value.item(),
        "gradient": logprobs.grad[chosen].tolist(),
    }


def main() -> None:
    sums = "seq-mean-token-sum-norm"
    losses = {
        "dual clip": case(11, loss="vanilla", average="token-mean", low=0.2, high=0.28, dual=1.2),
        "dr_grpo": case(12, loss="vanilla", average=sums, low=0.2, high=0.2),
        "gspo_token": case(13, loss="gspo", average="seq-mean-token-mean", low=0.05, high=0.08),
        "gspo_token, by token": case(14, loss="gspo", average="token-mean", low=0.05, high=0.08),
        "cispo": case(15, loss="cispo", average="token-mean", low=0.2, high=0.3),
        "k1": case(16, loss="vanilla", average="token-mean", low=0.2, high=0.28, kl="k1"),
        "k2": case(17, loss="vanilla", average="token-mean", low=0.2, high=0.28, kl="k2"),
        "k3": case(18, loss="vanilla", average="token-mean", low=0.2, high=0.28, kl="k3"),
    }
    (Path(__file__).parents[1] / "algo" / "verl_vectors.json").write_text(json.dumps({"losses": losses}) + "\n")


if __name__ == "__main__":
    main()
