"""What must not change a loss and its gradient, for every named algorithm with everything switched on."""

import dataclasses
import itertools
import math

import pytest
import torch

from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.algo.losses import Tokens, policy_loss


def means(loss):
    return {name: metric.mean() for name, metric in loss.metrics.items()}


def random_tokens(lengths, *, seed=0) -> Tokens:
    """Float64 tokens with everything a algorithm can ask for; sequence 1 is stored, sequence 2 does not train."""
    generator = torch.Generator().manual_seed(seed)
    num_tokens = sum(lengths)

    def normal(count: int) -> torch.Tensor:
        return torch.randn(count, generator=generator, dtype=torch.float64)

    logprobs = -normal(num_tokens).abs()
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return Tokens(
        logprobs=logprobs.requires_grad_(),
        advantages=normal(len(lengths))[sequence],
        weights=(sequence != 2).double(),
        sequence=sequence,
        num_sequences=len(lengths),
        is_offline=sequence == 1,
        old_logprobs=logprobs.detach() + 0.3 * normal(num_tokens),
        ref_logprobs=logprobs.detach() + 0.3 * normal(num_tokens),
        sampler_logprobs=logprobs.detach() + 0.3 * normal(num_tokens),
        entropy=normal(num_tokens).abs().requires_grad_(),
        values=normal(num_tokens).requires_grad_(),
        returns=normal(num_tokens),
        old_values=normal(num_tokens),
    )


def chosen(batch: Tokens, sequences: list[int]) -> tuple[Tokens, torch.Tensor]:
    """The tokens of some sequences in the given order, and where they stood."""
    index = torch.cat([torch.nonzero(batch.sequence == number).flatten() for number in sequences])
    lengths = torch.tensor([int((batch.sequence == number).sum()) for number in sequences])
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    parts = {name: value[index] for name, value in values.items() if isinstance(value, torch.Tensor)}
    parts["logprobs"] = parts["logprobs"].detach().requires_grad_()
    parts["sequence"] = torch.repeat_interleave(torch.arange(len(sequences)), lengths)
    return Tokens(**parts, num_sequences=len(sequences)), index


EVERYTHING = {"kl_coef": 0.04, "entropy_coef": 0.01, "sampler_cap": 1.2, "dual_clip": 1.5}
EACH = {
    name: dataclasses.replace(algorithm, clip_low=min(algorithm.clip_low * 100, 0.1), **EVERYTHING)
    for name, algorithm in ALGORITHMS.items()
}
over_algorithms = pytest.mark.parametrize("algorithm", EACH.values(), ids=list(EACH))
LENGTHS = [3, 5, 2, 1, 6, 4, 2, 3]


@over_algorithms
@pytest.mark.parametrize(
    "split",
    [
        [[n] for n in range(8)],
        [[0, 1, 2, 3], [4, 5, 6, 7]],
        [[7, 6, 5, 4, 3, 2, 1, 0]],
        [[5, 0], [2], [1, 7, 3], [4, 6]],
    ],
    ids=["1x8", "4x2", "reversed", "mixed"],
)
def test_splitting_and_packing_order_change_neither_loss_nor_gradient_nor_metrics(algorithm, split):
    batch = random_tokens(LENGTHS)
    whole = policy_loss(batch, algorithm, normalizer=17)
    whole.value.backward()
    assert batch.logprobs.grad is not None
    gradient = torch.zeros_like(batch.logprobs)
    losses = []
    for sequences in split:
        part, index = chosen(batch, sequences)
        losses.append(policy_loss(part, algorithm, normalizer=17))
        losses[-1].value.backward()
        assert part.logprobs.grad is not None
        gradient[index] = part.logprobs.grad
    # Only the order of float64 additions differs.
    assert torch.allclose(gradient, batch.logprobs.grad, rtol=1e-12, atol=1e-15)
    assert sum(loss.value.item() for loss in losses) == pytest.approx(whole.value.item(), rel=1e-12)
    for name, metric in whole.metrics.items():
        first, *rest = (loss.metrics[name] for loss in losses)
        assert sum(rest, start=first).mean() == pytest.approx(metric.mean(), rel=1e-12)


@pytest.mark.parametrize("name", [name for name in EACH if name != "sft"])  # imitation has no advantages
def test_a_group_without_signal_adds_nothing_to_the_policy_gradient(name):
    algorithm = dataclasses.replace(EACH[name], kl_coef=0.0, entropy_coef=0.0)
    batch = random_tokens(LENGTHS)
    batch.advantages[batch.sequence >= 4] = 0.0
    policy_loss(batch, algorithm, normalizer=17).value.backward()
    alone, index = chosen(batch, [0, 1, 2, 3])
    policy_loss(alone, algorithm, normalizer=17).value.backward()
    assert batch.logprobs.grad is not None
    assert alone.logprobs.grad is not None
    assert torch.equal(batch.logprobs.grad[index], alone.logprobs.grad)
    assert batch.logprobs.grad[batch.sequence >= 4].abs().max() == 0


@over_algorithms
def test_a_token_of_weight_zero_takes_no_part_even_if_it_is_not_a_number(algorithm):
    batch = random_tokens(LENGTHS)
    policy_loss(batch, algorithm, normalizer=17).value.backward()
    for field in dataclasses.fields(batch):
        values = getattr(batch, field.name)
        is_number = isinstance(values, torch.Tensor) and values.is_floating_point()
        if is_number and field.name not in ("logprobs", "weights"):
            values.detach()[batch.sequence == 2] = math.nan
    spoiled = dataclasses.replace(batch, logprobs=batch.logprobs.detach().clone().requires_grad_())
    with torch.no_grad():
        spoiled.logprobs[batch.sequence == 2] = -math.inf
    loss = policy_loss(spoiled, algorithm, normalizer=17)
    loss.value.backward()
    assert batch.logprobs.grad is not None
    assert spoiled.logprobs.grad is not None
    assert torch.equal(spoiled.logprobs.grad, batch.logprobs.grad)
    assert all(math.isfinite(mean) for mean in means(loss).values())


@pytest.mark.parametrize("log_ratio", [50.0, 200.0, -50.0, -200.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@over_algorithms
def test_a_policy_far_from_the_old_one_and_the_reference_gives_finite_numbers(algorithm, dtype, log_ratio):
    for advantage, offline in itertools.product((1.0, 0.0, -1.0), (False, True)):
        logprobs = torch.tensor([-60.0, -1.0, -0.5], dtype=dtype).requires_grad_()
        others = logprobs.detach() - log_ratio
        batch = Tokens(
            logprobs=logprobs,
            advantages=torch.full((3,), advantage, dtype=dtype),
            weights=torch.ones(3, dtype=dtype),
            sequence=torch.tensor([0, 0, 1]),
            num_sequences=2,
            is_offline=torch.tensor([offline] * 3),
            old_logprobs=others,
            ref_logprobs=others,
            sampler_logprobs=others,
            entropy=torch.ones(3, dtype=dtype).requires_grad_(),
            values=others.clone().requires_grad_(),
            returns=torch.zeros(3, dtype=dtype),
            old_values=others,
        )
        loss = policy_loss(batch, algorithm, normalizer=3)
        loss.value.backward()
        assert logprobs.grad is not None
        assert logprobs.grad.isfinite().all()
        assert all(math.isfinite(mean) for name, mean in means(loss).items() if loss.metrics[name].count)
