"""Changes to a group between sampling and update: an offline trajectory is put into it, or the group is dropped.

Everything here is a pure function. The order for each prompt is: `num_sampled` rollouts, their scores,
`takes_offline`, `with_offline`, and for algorithms that drop groups `has_signal` within `fill`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from easyvideor1.config import OfflineConfig
from easyvideor1.errors import UsageError
from easyvideor1.types import Group, Rollout, Score

Item = TypeVar("Item")


def num_sampled(n: int, *, has_offline: bool, offline: OfflineConfig) -> int:
    """How many rollouts the policy samples for a prompt: n, or n - 1 where the last place is an offline trajectory's.

    With a threshold all n are sampled, since whether the last is replaced depends on their scores.

    >>> num_sampled(8, has_offline=True, offline=OfflineConfig(enable=True))
    7
    """
    return n - 1 if offline.enable and has_offline and offline.accuracy_threshold is None else n


def takes_offline(scores: Sequence[Score], *, offline: OfflineConfig) -> bool:
    """Whether a group whose sampled rollouts have these scores gets an offline trajectory.

    Always without a threshold; with one, where the mean accuracy of the scored rollouts is below it. A group with
    no scored rollout is left alone: nothing says that it needs help.
    """
    if not offline.enable or offline.accuracy_threshold is None:
        return offline.enable
    accuracies = [score.parts["accuracy"] for score in scores if score.is_scored]
    return bool(accuracies) and sum(accuracies) / len(accuracies) < offline.accuracy_threshold


def with_offline(group: Group, *, trajectory: Rollout, score: Score, n: int) -> Group:
    """The group of n with an offline trajectory in the last place: beside n - 1 rollouts, or instead of the last of n.

    Raises:
        ValueError: the group is not scored, or holds neither n nor n - 1 rollouts.
    """
    if len(group.rollouts) not in (n - 1, n) or len(group.scores) != len(group.rollouts):
        raise ValueError(
            f"sample '{group.prompt.sample.id}': a group of {n} is to get an offline trajectory, but it "
            f"has {len(group.rollouts)} rollouts and {len(group.scores)} scores"
        )
    return replace(group, rollouts=(*group.rollouts[: n - 1], trajectory), scores=(*group.scores[: n - 1], score))


def has_signal(group: Group) -> bool:
    """Whether its scored rollouts differ in reward, so that some are better than others (DAPO, arXiv:2503.14476)."""
    values = [score.value for score in group.scores if score.is_scored]
    return bool(values) and min(values) != max(values)


def is_within(group: Group, *, part: str, low: float, high: float) -> bool:
    """Whether the mean of a part of its scores, or of the whole score ("overall"), is strictly between two bounds.

    A group without a scored rollout is not; the bounds are those of EasyR1's online filtering.

    Raises:
        UsageError: a score has no such part.
    """
    values = []
    for score in group.scores:
        if score.is_scored and part != "overall" and part not in score.parts:
            raise UsageError(
                f"algorithm.options.filter_part: a score has no part '{part}', only overall, {', '.join(score.parts)}"
            )
        if score.is_scored:
            values.append(score.value if part == "overall" else score.parts[part])
    return bool(values) and low < sum(values) / len(values) < high


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled(Generic[Item]):
    """The items that `fill` brought together for a step."""

    kept: list[Item]
    num_taken: int
    """Items taken in all, the dropped ones included."""
    num_rounds: int
    """Rounds after the first."""

    @property
    def dropped_frac(self) -> float:
        return 1 - len(self.kept) / self.num_taken if self.num_taken else 0.0


def fill(
    take: Callable[[int], Sequence[Item]], *, wanted: int, max_rounds: int, keeps: Callable[[Item], bool]
) -> Filled[Item]:
    """Take items until `wanted` of them are kept, or the rounds are used up.

    Each round takes exactly as many as are missing, so nothing that is kept is ever thrown away, and every prompt of
    the data's order is taken once per pass, whatever became of those before it: what a prompt's own rollouts look
    like decides whether it trains, not its place or its neighbours. The only state is how far the order was read,
    which a checkpoint of the cursor holds.

    Args:
        take: the next k items (groups, sampled and scored), in the data's order.
        wanted: items to keep.
        max_rounds: most rounds after the first.
        keeps: whether an item is kept.
    """
    kept: list[Item] = []
    num_taken, num_rounds = 0, -1
    while len(kept) < wanted and num_rounds < max_rounds:
        taken = take(wanted - len(kept))
        num_taken += len(taken)
        num_rounds += 1
        kept += [item for item in taken if keeps(item)]
    return Filled(kept=kept, num_taken=num_taken, num_rounds=num_rounds)
