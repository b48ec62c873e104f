"""Advantages, returns and value losses of tokens: by hand, by a loop, and by the formulas that TRL and verl publish."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support.values import present

from easyvideor1.algo.algorithms import ALGORITHMS, Algorithm, named_algorithm
from easyvideor1.algo.credit import learning_rollouts, with_credit
from easyvideor1.algo.gae import explained_variance, gae, with_token_credit
from easyvideor1.algo.losses import Tokens, policy_loss
from easyvideor1.config import AlgorithmConfig
from easyvideor1.errors import UsageError
from easyvideor1.types import Group, Prompt, Rollout, Sample, Score, StopReason

PPO = ALGORITHMS["ppo"]
NO_IDS = np.zeros(0, dtype=np.int64)
PROMPT = Prompt(
    sample=Sample(id="q", problem_type="numerical", problem="?", gold="1"),
    text="?",
    input_ids=NO_IDS,
    token_types=NO_IDS,
    position_ids=NO_IDS,
    plans=(),
)


def group(
    scores: Sequence[float | None], lengths: Sequence[int], *, stops: Sequence[StopReason] | None = None
) -> Group:
    stops = stops or [StopReason.EOS] * len(scores)
    return Group(
        prompt=PROMPT,
        rollouts=tuple(
            Rollout(token_ids=tuple(range(length)), text="", logprobs=None, stop_reason=stop)
            for length, stop in zip(lengths, stops, strict=True)
        ),
        scores=tuple(Score.unscored("late") if value is None else Score(value=value) for value in scores),
    )


def credit(groups: Sequence[Group], values: Sequence[Sequence[Sequence[float]]], **options: Any) -> list[Group]:
    """Of an algorithm with the options; `kl` and `kl_coef` as `with_token_credit` takes them."""
    kl, kl_coef = options.pop("kl", None), options.pop("kl_coef", 0.0)
    return with_token_credit(
        groups, replace(PPO, **options), values=arrays(values), kl=None if kl is None else arrays(kl), kl_coef=kl_coef
    )


def arrays(values: Sequence[Sequence[Sequence[float]]]) -> list[list[np.ndarray]]:
    return [[np.array(item, dtype=np.float64) for item in of_group] for of_group in values]


def near(expected: Any) -> Any:
    return pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_advantages_and_returns_by_hand() -> None:
    # Discount 1/2, lambda 1/2; nothing comes after the last token.
    # delta: 0 + 0.25/2 - 0.5 = -0.375; 0 + 0.75/2 - 0.25 = 0.125; 1 - 0.75 = 0.25.
    # A: 0.25; 0.125 + 0.25/4 = 0.1875; -0.375 + 0.1875/4 = -0.328125.
    advantages, returns = gae([0.0, 0.0, 1.0], [0.5, 0.25, 0.75], gamma=0.5, lam=0.5)
    assert advantages == near([-0.328125, 0.1875, 0.25])
    assert returns == near([0.171875, 0.4375, 1.0])


def test_lambda_0_looks_at_the_next_value_and_lambda_1_to_the_end() -> None:
    rewards, values = [0.1, -0.2, 0.7], [0.3, 0.5, 0.2]
    near_sighted, _ = gae(rewards, values, gamma=0.9, lam=0.0)
    assert near_sighted == near([0.1 + 0.9 * 0.5 - 0.3, -0.2 + 0.9 * 0.2 - 0.5, 0.7 - 0.2])
    far, returns = gae(rewards, values, gamma=0.9, lam=1.0)
    assert returns == near([0.1 - 0.9 * 0.2 + 0.81 * 0.7, -0.2 + 0.9 * 0.7, 0.7])  # of the rewards alone
    assert far == near([one - value for one, value in zip(returns, values, strict=True)])


def test_of_an_empty_response_there_is_nothing() -> None:
    assert gae([], [], gamma=1.0, lam=1.0) == ([], [])


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_of_the_paper_term_by_term_is_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=37), rng.normal(size=37)
    gamma, lam = rng.uniform(0.5, 1.0, size=2)
    after = np.append(values[1:], 0.0)
    deltas = rewards + gamma * after - values
    expected = [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, 37)) for t in range(37)]
    advantages, returns = gae(rewards.tolist(), values.tolist(), gamma=gamma, lam=lam)
    assert advantages == pytest.approx(expected, rel=1e-10)
    assert returns == pytest.approx(np.array(expected) + values, rel=1e-10)


def test_the_score_comes_with_the_last_token_and_the_kl_with_each() -> None:
    # Rewards: -0.5 * (0.2, 0.4, 0.6), the last with 0.9 more; values 0; everything is one advantage up to whitening.
    made = credit([group([0.9], [3])], [[[0.0] * 3]], kl=[[[0.2, 0.4, 0.6]]], kl_coef=0.5, gae_lambda=0.0)
    [token] = made[0].tokens
    assert token.returns == near([-0.1, -0.2, 0.6])
    without = credit([group([0.9], [3])], [[[0.0] * 3]], gae_lambda=0.0)
    assert without[0].tokens[0].returns == near([0.0, 0.0, 0.9])


def test_whitening_counts_every_token_of_the_whole_batch_once() -> None:
    # Raw advantages 0.9 0.9 and 0.0, in two groups: mean 0.6, variance (0.09 + 0.09 + 0.36) / 2.
    made = credit([group([0.9], [2]), group([0.0], [1])], [[[0.0, 0.0]], [[0.0]]])
    unit = 1 / math.sqrt(0.27 + 1e-8)
    assert made[0].tokens[0].advantages == near([0.3 * unit, 0.3 * unit])
    assert made[1].tokens[0].advantages == near([-0.6 * unit])
    assert [item.advantages for item in made] == [near((0.3 * unit,)), near((-0.6 * unit,))]
    assert made[0].tokens[0].returns == near([0.9, 0.9])  # not whitened


def test_where_no_token_stands_out_every_advantage_is_0() -> None:
    made = credit([group([0.1, 0.1, 0.1], [1, 2, 1])], [[[0.0], [0.0, 0.0], [0.0]]])
    assert all((item.advantages == 0.0).all() for item in made[0].tokens)


def test_an_unscored_rollout_has_no_credit_no_weight_and_no_influence() -> None:
    values = [[[0.1, 0.2], [0.5], [0.3, 0.7]]]
    with_one, *_ = credit([group([0.9, 0.0, None], [2, 1, 2])], values)
    without, *_ = credit([group([0.9, 0.0], [2, 1])], [values[0][:2]])
    for found, expected in zip(with_one.tokens[:2], without.tokens, strict=True):
        assert np.array_equal(found.advantages, expected.advantages)
        assert np.array_equal(found.returns, expected.returns)
    assert with_one.weights == (1.0, 1.0, 0.0)
    assert with_one.advantages == (*without.advantages, 0.0)
    assert with_one.tokens[2].returns.tolist() == with_one.tokens[2].advantages.tolist() == [0.0, 0.0]


def test_nothing_is_added_after_the_last_token_of_a_response_that_the_limit_cut() -> None:
    """It was scored as it is; its last value is no reward."""
    scores, lengths, values = [0.0, 1.0], [2, 2], [[[0.4, 0.8], [0.4, 0.8]]]
    [cut] = credit([group(scores, lengths, stops=[StopReason.LENGTH, StopReason.EOS])], values)
    [ended] = credit([group(scores, lengths)], values)
    assert cut.tokens[0].returns.tolist() == ended.tokens[0].returns.tolist() == [0.0, 0.0]
    [masked] = credit([group(scores, lengths, stops=[StopReason.LENGTH, StopReason.EOS])], values, mask_truncated=True)
    assert masked.weights == (0.0, 1.0)


def test_groups_of_equal_rewards_train_and_are_not_idle() -> None:
    [made] = credit([group([1.0, 1.0], [1, 1])], [[[0.0], [0.0]]])
    assert made.advantages == (0.0, 0.0)
    assert learning_rollouts(made, PPO) == (0, 1)


def test_credit_of_whole_rollouts_is_refused() -> None:
    with pytest.raises(ValueError, match="one of tokens"):
        with_credit([group([1.0], [1])], PPO)


def test_explained_variance_by_hand() -> None:
    # Returns 0 0 3 (mean 1, variance 2); distances 0 -1 1 (mean 0, variance 2/3).
    [made] = credit([group([0.0, 0.0, 3.0], [1, 1, 1])], [[[0.0], [1.0], [2.0]]])
    assert explained_variance([made]) == near(1 - (2 / 3) / 2)
    [equal] = credit([group([1.0, 1.0], [1, 1])], [[[0.0], [1.0]]])
    assert math.isnan(explained_variance([equal]))


def value_tokens(values: Sequence[float], *, returns: Sequence[float], old: Sequence[float]) -> Tokens:
    def vector(numbers: Sequence[float]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.float64)

    zeros = vector([0.0] * len(values))
    return Tokens(
        logprobs=vector([-1.0] * len(values)).requires_grad_(),
        advantages=zeros,
        weights=zeros + 1,
        sequence=torch.arange(len(values)),
        num_sequences=len(values),
        is_offline=zeros.bool(),
        values=vector(values).requires_grad_(),
        returns=vector(returns),
        old_values=vector(old),
    )


def test_the_value_loss_and_its_gradient_by_hand() -> None:
    """Bound 0.5, old values 0. Beyond it towards the return: charged 1.5^2 / 2, no pull. Beyond it, away from the
    return: 2^2 / 2, pulled back. Within it: 0.05^2 / 2, pulled."""
    batch = value_tokens([1.0, 1.0, 0.2], returns=[2.0, -1.0, 0.25], old=[0.0, 0.0, 0.0])
    loss = policy_loss(batch, replace(PPO, value_coef=0.3, value_clip=0.5), normalizer=3)
    loss.value.backward()
    assert loss.value.item() == near(0.3 * (1.125 + 2.0 + 0.00125) / 3)
    assert present(present(batch.values).grad).tolist() == near([0.0, 0.3 * 2.0 / 3, 0.3 * -0.05 / 3])
    assert loss.metrics["loss/value"].mean() == near((1.125 + 2.0 + 0.00125) / 3)
    assert loss.metrics["loss/value_clipped_frac"].mean() == near(1 / 3)
    free = value_tokens([1.0, 1.0, 0.2], returns=[2.0, -1.0, 0.25], old=[0.0, 0.0, 0.0])
    policy_loss(free, replace(PPO, value_coef=0.3, value_clip=None), normalizer=3).value.backward()
    assert present(present(free.values).grad).tolist() == near([0.3 * d / 3 for d in (-1.0, 2.0, -0.05)])


def test_policy_and_value_gradients_of_a_response_by_hand() -> None:
    """From score to gradient: 0.5 for a response of two tokens valued 0 and 0.5; 0 for one of one token valued 0."""
    [made] = credit([group([0.5, 0.0], [2, 1])], [[[0.0, 0.5], [0.0]]])
    # Lambda 1: raw advantages 0.5 - 0, 0.5 - 0.5, 0 - 0; mean 1/6, variance (1/9 + 1/36 + 1/36) / 2 = 1/12.
    unit = 1 / math.sqrt(1 / 12 + 1e-8)
    whitened = np.concatenate([item.advantages for item in made.tokens])
    assert whitened == near([unit / 3, -unit / 6, -unit / 6])
    batch = value_tokens([0.0, 0.5, 0.0], returns=[0.5, 0.5, 0.0], old=[0.0, 0.5, 0.0])
    batch = replace(batch, advantages=torch.from_numpy(whitened))
    loss = policy_loss(batch, replace(PPO, value_coef=1.0), normalizer=3)
    loss.value.backward()
    assert loss.value.item() == near(0.0 + 0.5 * 0.25 / 3)  # whitened advantages add up to 0
    assert present(batch.logprobs.grad).tolist() == near((-whitened / 3).tolist())
    assert present(present(batch.values).grad).tolist() == near([-0.5 / 3, 0.0, 0.0])


# The published formulas on padded batches, written down anew from TRL's and verl's descriptions of them.


def padded_gae(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, gamma: float, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    last, columns = torch.zeros(len(rewards), dtype=torch.float64), []
    for t in reversed(range(rewards.shape[1])):
        after = values[:, t + 1] * mask[:, t + 1] if t + 1 < rewards.shape[1] else torch.zeros_like(last)
        delta = rewards[:, t] + gamma * after - values[:, t]
        last = torch.where(mask[:, t] > 0, delta + gamma * lam * last, last)
        columns.append(last)
    advantages = torch.stack(columns[::-1], dim=1)
    returns = advantages + values
    count = mask.sum()
    mean = (advantages * mask).sum() / count
    variance = ((advantages - mean).square() * mask).sum() / count * count / (count - 1)
    return (advantages - mean) * torch.rsqrt(variance + 1e-8), returns


def padded_value_loss(
    values: torch.Tensor, returns: torch.Tensor, old: torch.Tensor, mask: torch.Tensor, clip: float
) -> torch.Tensor:
    inside = torch.max(torch.min(values, old + clip), old - clip)
    worse = torch.max((values - returns) ** 2, (inside - returns) ** 2)
    return 0.5 * (worse * mask).sum() / mask.sum()


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (1.0, 0.95), (0.99, 0.9)])
def test_credit_and_value_loss_are_the_published_ones_of_padded_batches(gamma: float, lam: float) -> None:
    rng = np.random.default_rng(3)
    lengths, scores = [4, 1, 7, 3], [1.0, 0.0, 0.3, 0.6]
    values = [rng.normal(size=length) for length in lengths]
    kl = [np.abs(rng.normal(size=length)) for length in lengths]
    groups = [group(scores[:2], lengths[:2]), group(scores[2:], lengths[2:])]
    made = with_token_credit(
        groups,
        replace(PPO, gae_gamma=gamma, gae_lambda=lam),
        values=[values[:2], values[2:]],
        kl=[kl[:2], kl[2:]],
        kl_coef=0.05,
    )
    found = [item for of_group in made for item in of_group.tokens]

    mask, rewards, old = (torch.zeros(4, 9, dtype=torch.float64) for _ in range(3))
    old += 50.0  # what stands in the padding must not matter
    for i, length in enumerate(lengths):
        mask[i, :length] = 1
        rewards[i, :length] = -0.05 * torch.from_numpy(kl[i])
        rewards[i, length - 1] += scores[i]
        old[i, :length] = torch.from_numpy(values[i])
    advantages, returns = padded_gae(rewards, old, mask, gamma, lam)
    for i, length in enumerate(lengths):
        assert found[i].advantages == pytest.approx(advantages[i, :length].numpy(), rel=1e-10)
        assert found[i].returns == pytest.approx(returns[i, :length].numpy(), rel=1e-10)

    new = (old + 0.8 * torch.randn(4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).detach()
    theirs, ours = new.clone().requires_grad_(), new.clone().requires_grad_()
    expected = padded_value_loss(theirs, returns, old, mask, 0.5)
    expected.backward()
    chosen = mask.bool()
    batch = replace(
        value_tokens(
            new[chosen].tolist(),
            returns=np.concatenate([item.returns for item in found]).tolist(),
            old=np.concatenate([item.values for item in found]).tolist(),
        ),
        values=ours[chosen],
    )
    loss = policy_loss(batch, replace(PPO, value_coef=1.0), normalizer=sum(lengths))
    loss.value.backward()
    assert loss.value.item() == pytest.approx(expected.item(), rel=1e-10)
    assert 0 < loss.metrics["loss/value_clipped_frac"].mean() < 1
    assert torch.allclose(present(ours.grad)[chosen], present(theirs.grad)[chosen], rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratio": "sequence", "average": "sequence"}, "one of tokens; use token or sequence_token"),
        ({"drop_equal_groups": True}, "learns even where its rewards are all equal"),
        ({"gae_lambda": 1.5}, "gae_lambda must be between 0 and 1, got 1.5"),
        ({"gae_gamma": -0.1}, "gae_gamma must be between 0 and 1"),
        ({"value_clip": 0.0}, "value_clip must be above 0"),
        ({"value_warmup_steps": -1}, "value_warmup_steps must not be negative"),
        ({"own_advantage": "mine.py:a"}, "'gae' is more than that"),
    ],
)
def test_what_does_not_go_with_values_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        named_algorithm(AlgorithmConfig(name="ppo", options=options))


def test_options_of_values_are_refused_where_there_are_none() -> None:
    for name in ("gae_lambda", "value_coef", "value_learning_rate"):
        with pytest.raises(UsageError, match=f"{name} has no effect on algorithm 'grpo'.*set advantage to gae"):
            named_algorithm(AlgorithmConfig(name="grpo", options={name: 0.5}))


def test_a_loss_without_values_is_refused() -> None:
    batch = replace(value_tokens([0.0], returns=[0.0], old=[0.0]), values=None)
    with pytest.raises(ValueError, match=r"needs Tokens\.values"):
        policy_loss(batch, PPO, normalizer=1)


def test_ppo_is_the_published_clipped_policy_loss() -> None:
    assert (PPO.loss, PPO.ratio, PPO.average, PPO.clip_low, PPO.clip_high) == ("clip", "token", "token", 0.2, 0.2)
    assert isinstance(PPO, Algorithm)
