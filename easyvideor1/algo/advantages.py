"""How much better each response is than what the policy could expect, from rewards alone.

Shapes: G responses of one prompt, B responses of a whole batch. A reward of NaN is an unscored response: it enters no
mean and its advantage is 0. Where no response stands out (all scored rewards equal, or fewer than two of them) every
advantage is exactly 0, not a rounding error divided by a tiny deviation.

Standard deviations are those of a sample (divisor G - 1) plus `STD_EPSILON`, as in the libraries that people compare
with (TRL, verl); the papers leave both open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

STD_EPSILON = 1e-4
EMA_EPSILON = 1e-6


def grpo(rewards_G: Sequence[float]) -> list[float]:
    """[G] rewards centered and divided by their deviation (arXiv:2402.03300).

    >>> [round(value, 3) for value in grpo([1.0, 0.0, 0.0, 1.0])]
    [0.866, -0.866, -0.866, 0.866]
    """
    return _standardized(rewards_G)


def ema_grpo(rewards_G: Sequence[float], *, task_std: float, guard: float | None = 5.0) -> list[float]:
    """[G] rewards centered and divided by the deviation of their task over time: EMA-GRPO of OneThinker
    (arXiv:2512.03043).

    Args:
        task_std: see `carried.Carried.std_of`; this step's rewards count in it.
        guard: where an advantage would be beyond it, the group's own deviation divides instead (population's, as in its
            authors' code); None: never.

    >>> [[round(value, 3) for value in ema_grpo([1.0, 0.0], task_std=std)] for std in (0.25, 0.05)]
    [[2.0, -2.0], [1.0, -1.0]]
    """
    values = centered(rewards_G)
    scaled = [value / (task_std + EMA_EPSILON) for value in values]
    if guard is None or max(map(abs, scaled), default=0.0) <= guard:
        return scaled
    scored = _scored(rewards_G)
    mean = math.fsum(scored) / len(scored)
    own_std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / len(scored))
    return [value / (own_std + EMA_EPSILON) for value in values]


def centered(rewards_G: Sequence[float]) -> list[float]:
    """[G] rewards less their mean: Dr. GRPO (arXiv:2503.20783).

    >>> centered([1.0, 0.0])
    [0.5, -0.5]
    """
    scored = _scored(rewards_G)
    if not _differ(scored):
        return [0.0] * len(rewards_G)
    mean = math.fsum(scored) / len(scored)
    return [_or_zero(reward - mean) for reward in rewards_G]


def rloo(rewards_G: Sequence[float]) -> list[float]:
    """[G] rewards less the mean of the other responses (arXiv:2402.14740).

    >>> rloo([1.0, 0.0, 0.5])
    [0.75, -0.75, 0.0]
    """
    scored = _scored(rewards_G)
    if not _differ(scored):
        return [0.0] * len(rewards_G)
    total = math.fsum(scored)
    return [_or_zero(reward - (total - reward) / (len(scored) - 1)) for reward in rewards_G]


def remax(rewards_G: Sequence[float], *, greedy_reward: float) -> list[float]:
    """[G] rewards less that of the greedy response to the same prompt (arXiv:2310.10505).

    An unscored (NaN) greedy response makes every advantage 0: there is nothing to compare with.

    >>> remax([1.0, 0.25], greedy_reward=0.25)
    [0.75, 0.0]
    """
    return [_or_zero(reward - greedy_reward) for reward in rewards_G]


def pass_at_k(passed_G: Sequence[float], *, k: int) -> list[float]:
    """[G] advantages of the reward "at least one of k responses passes", in closed form (arXiv:2508.10751).

    Over all ways to choose k of the n scored responses, the reward of a choice is 1 if one of them passed. With m
    failures its mean is p = 1 - C(m, k) / C(n, k) and its deviation sqrt(p (1 - p)); a response gets the mean
    standardized reward of the choices that hold it. A group without failures, without passes, or with fewer than k
    failures has no signal.

    Args:
        passed_G: [G] 1.0 passed, 0.0 failed, NaN unscored.
        k: size of a choice, at least 1.

    >>> [round(value, 4) for value in pass_at_k([1.0, 0.0, 0.0, 0.0], k=2)]
    [1.0, -0.3333, -0.3333, -0.3333]
    """
    scored = _scored(passed_G)
    if any(value not in (0.0, 1.0) for value in scored):
        raise ValueError(f"pass_at_k takes 1.0, 0.0 or NaN, got {list(passed_G)}")
    num_failed = scored.count(0.0)
    fail = math.comb(num_failed, k) / math.comb(len(scored), k) if len(scored) >= k else 0.0
    if fail in (0.0, 1.0):
        return [0.0] * len(passed_G)
    std = math.sqrt(fail * (1 - fail))
    # Of the choices that hold a given failed response, the share that fails as a whole.
    fail_given_failed = math.comb(num_failed - 1, k - 1) / math.comb(len(scored) - 1, k - 1)
    value = {1.0: fail / std, 0.0: (fail - fail_given_failed) / std}
    return [value.get(passed, 0.0) for passed in passed_G]


def gdpo_sums(parts_G: Mapping[str, Sequence[float]], *, weights: Mapping[str, float]) -> list[float]:
    """[G] weighted sums of the reward parts, each standardized by itself within the group (arXiv:2601.05242).

    Standardizing before summing keeps apart responses whose parts differ but whose sums agree. The paper's second
    step, over the batch, is `scaled_over_batch`.

    Args:
        parts_G: part name -> [G] values.
        weights: part name -> weight; parts without one do not count.
    """
    columns = [[weight * value for value in _standardized(parts_G[name])] for name, weight in weights.items()]
    return [math.fsum(row) for row in zip(*columns, strict=True)]


def standardized_over_batch(values: Sequence[float], *, batch_B: Sequence[float]) -> list[float]:
    """Values centered and divided by their deviation over the whole batch: REINFORCE++ (arXiv:2501.03262).

    Every response counts once, however long it is, so that length does not shift the baseline.

    Args:
        values: some of the batch's values.
        batch_B: [B] all of them, of every rank.
    """
    return _standardized(values, among=batch_B)


def scaled_over_batch(values: Sequence[float], *, batch_B: Sequence[float]) -> list[float]:
    """Values divided by their deviation over the whole batch: REINFORCE++ with group baseline, GDPO's last step.

    Both papers center once more, but their values sum to 0 within each group; leaving that out keeps the zeros of
    groups without signal exact.
    """
    scored = _scored(batch_B)
    if not _differ(scored):
        return [0.0] * len(values)
    scale = _std(scored) + STD_EPSILON
    return [_or_zero(value / scale) for value in values]


def _standardized(values: Sequence[float], *, among: Sequence[float] | None = None) -> list[float]:
    scored = _scored(values if among is None else among)
    if not _differ(scored):
        return [0.0] * len(values)
    mean, std = math.fsum(scored) / len(scored), _std(scored)
    return [_or_zero((value - mean) / (std + STD_EPSILON)) for value in values]


def _std(scored: Sequence[float]) -> float:
    mean = math.fsum(scored) / len(scored)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in scored) / (len(scored) - 1))


def _scored(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _differ(scored: Sequence[float]) -> bool:
    # Not by way of the mean: that of three times 0.1 is not 0.1.
    return len(scored) > 1 and min(scored) != max(scored)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
