"""The exact divergence over all words: against a loop in float64, torch's own, and in the update of a run.

Tolerances: float64 sums in another order, 1e-12.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from support.made_trainer import made_config, made_trainer
from support.tiny_models import tiny_model
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training import shared_prefix
from easyvideor1.training.forward import PackForward
from easyvideor1.training.full_kl import Words, full_kl
from easyvideor1.training.head import CHUNK_BYTES
from easyvideor1.training.pack import blank_pack

N, D, V = 7, 5, 30
ONE_ROW, THREE_ROWS = 4 * V, 3 * 4 * V


def made(*, n: int = N, vocabulary: int = V, dtype: torch.dtype = torch.float64) -> tuple[Words, Words]:
    torch.manual_seed(0)
    policy = Words(*(torch.randn(rows, D, dtype=dtype, requires_grad=True) for rows in (n, vocabulary)))
    return policy, Words(*(torch.randn(rows, D, dtype=dtype) for rows in (n, vocabulary)))


def by_hand(policy: Words, reference: Words, *, temperature: float) -> list[float]:
    """A loop over tokens and words."""
    found = []
    for row in range(len(policy.hidden)):
        logits = [
            [
                float(words.hidden[row].detach().double() @ weight.detach().double()) / temperature
                for weight in words.weight
            ]
            for words in (policy, reference)
        ]
        totals = [math.log(math.fsum(map(math.exp, of_row))) for of_row in logits]
        p, q = ([value - total for value in of_row] for of_row, total in zip(logits, totals, strict=True))
        found.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True)))
    return found


@pytest.mark.parametrize("chunk_bytes", [1, ONE_ROW, THREE_ROWS, CHUNK_BYTES])
def test_values_and_gradients_are_those_of_the_definition(chunk_bytes: int) -> None:
    policy, reference = made()
    found = full_kl(policy, reference, temperature=0.7, chunk_bytes=chunk_bytes)
    assert found.tolist() == pytest.approx(by_hand(policy, reference, temperature=0.7), abs=1e-12)
    logits = [words.hidden @ words.weight.T / 0.7 for words in (policy, reference)]
    expected = torch.distributions.kl_divergence(*(torch.distributions.Categorical(logits=item) for item in logits))
    factors = torch.randn(N, dtype=torch.float64)
    weights = (policy.hidden, policy.weight)
    for gradient, wanted in zip(
        torch.autograd.grad((found * factors).sum(), weights),
        torch.autograd.grad((expected * factors).sum(), weights),
        strict=True,
    ):
        assert (gradient - wanted).abs().max() < 1e-12


def test_gradients_are_those_of_small_changes() -> None:
    policy, reference = made()

    def call(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return full_kl(Words(hidden, weight), reference, temperature=1.3, chunk_bytes=THREE_ROWS)

    assert gradcheck(call, (policy.hidden, policy.weight))


def test_it_is_zero_for_the_same_words_and_never_negative_beyond_rounding() -> None:
    policy, reference = made(dtype=torch.float32, vocabulary=2000)
    same = full_kl(policy, Words(policy.hidden.detach(), policy.weight.detach()), temperature=1.0)
    assert same.tolist() == [0.0] * N
    near = Words(policy.hidden.detach() + 1e-4, policy.weight.detach())
    assert full_kl(policy, near, temperature=1.0).min() > -1e-6
    # A word that the policy all but excludes adds nothing, and one that the reference excludes a finite amount.
    apart = full_kl(Words(policy.hidden * 100, policy.weight), reference, temperature=1.0)
    assert apart.isfinite().all()


def test_halves_are_compared_in_float32() -> None:
    """Small divergences of late in a run would be lost in the rounding of bfloat16 logits."""
    policy, reference = made(dtype=torch.bfloat16, vocabulary=400)
    found = full_kl(policy, reference, temperature=1.0)
    exact = torch.tensor(by_hand(policy, reference, temperature=1.0), dtype=torch.float64)
    assert found.dtype == torch.float32
    assert (found - exact).abs().max() < 1e-5 * exact.max()


class Largest(TorchDispatchMode):
    """Notes the largest tensor that an operator makes."""

    num_bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[override]
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.num_bytes = max(self.num_bytes, tensor.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("n", [50, 200])
def test_no_tensor_holds_the_logits_of_all_tokens(n: int) -> None:
    policy, reference = made(n=n, vocabulary=400, dtype=torch.float32)
    with Largest() as largest:
        full_kl(policy, reference, temperature=1.0, chunk_bytes=12_800).sum().backward()
    assert largest.num_bytes <= 12_800


class LogSumExps(TorchDispatchMode):
    """Counts them: the output layer takes one of its logits."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[override]
        self.count += "logsumexp" in str(function)
        return function(*args, **(kwargs or {}))


def test_the_states_of_the_reference_are_those_of_its_log_probs_and_need_no_logits() -> None:
    model = tiny_model("qwen3_vl")
    shared_prefix.enable(model)
    forward, pack = PackForward(model), blank_pack("shared", num_tokens=6)
    with torch.no_grad(), LogSumExps() as of_logprobs:
        expected = forward(pack, {}, temperature=1.0).words.hidden
    with LogSumExps() as of_states, forward.words(pack, {}) as words:
        assert torch.equal(words.hidden, expected)
    assert of_states.count == of_logprobs.count - 1


@pytest.mark.parametrize("place", ["loss", "reward"])
def test_a_run_measures_it_and_it_grows_from_zero(tmp_path: Path, place: str) -> None:
    options = f"algorithm.options={{kl_coef: 0.1, kl_kind: full, kl_in: {place}}}"
    config = made_config(tmp_path, options, "train.steps=2", "train.prompts_per_step=2")
    made_trainer(config).run()
    records = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    found = [record[f"{place}/kl_ref"] for record in records if f"{place}/kl_ref" in record]
    assert found[0] == 0.0
    assert 1e-4 < found[1] < 10, json.dumps(found)


def test_its_gradient_pulls_towards_the_reference(tmp_path: Path) -> None:
    """With a large coefficient the run ends nearer to where it began."""
    ends = []
    for coef in (1e-6, 3.0):
        words = (f"algorithm.options={{kl_coef: {coef}, kl_kind: full}}", "train.prompts_per_step=2")
        made_trainer(made_config(tmp_path / str(coef), *words)).run()
        records = comparable(read_metrics(tmp_path / str(coef) / "metrics.jsonl"))
        ends.append([record["loss/kl_ref"] for record in records if "loss/kl_ref" in record][-1])
    assert ends[1] < ends[0] / 2
