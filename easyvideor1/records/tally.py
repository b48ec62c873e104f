"""Sums with their counts over the groups of a step and the responses of a validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from easyvideor1.types import Group, ScoredResponse, StopReason


class Tally:
    """Sums with their counts, and maxima; parts of a batch are merged first and divided once, at the end.

    >>> tally = Tally()
    >>> tally.add("loss/kl", total=3.0, count=2)
    >>> tally.add("loss/kl", total=1.0, count=2)
    >>> tally.values()
    {'loss/kl': 1.0}
    """

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}
        self._maxima: dict[str, float] = {}

    def add(self, name: str, *, total: float, count: float = 1) -> None:
        """Add a sum over `count` things."""
        before_total, before_count = self._sums.get(name, (0.0, 0))
        self._sums[name] = (before_total + total, before_count + count)

    def add_sums(self, sums: Mapping[str, tuple[float, float]]) -> None:
        """Add many (sum, count) pairs, as a loss returns them."""
        for name, (total, count) in sums.items():
            self.add(name, total=total, count=count)

    def add_max(self, name: str, value: float) -> None:
        """Keep the largest value seen; the name ends in `_max`."""
        self._maxima[name] = max(value, self._maxima.get(name, value))

    def merge(self, other: Tally) -> None:
        self.add_sums(other._sums)
        for name, value in other._maxima.items():
            self.add_max(name, value)

    def values(self) -> dict[str, float]:
        """Means and maxima by name; a mean over nothing is left out."""
        means = {name: total / count for name, (total, count) in self._sums.items() if count > 0}
        return means | self._maxima


def merged(tallies: Iterable[Tally]) -> Tally:
    """One tally of all of them, added up in order."""
    together = Tally()
    for tally in tallies:
        together.merge(tally)
    return together


def group_tally(groups: Sequence[Group]) -> Tally:
    """Means over the scored groups of a step.

    Means of rewards are over scored responses of the policy (offline ones say nothing about it); the unscored share
    stands beside them. A group "without signal" has equal rewards throughout, so it moves nothing.
    """
    tally = Tally()
    for group in groups:
        sample = group.prompt.sample
        rewards = [score.value for score in group.scores if score.is_scored]
        tally.add("reward/no_signal_groups_frac", total=float(len(set(rewards)) < 2))
        for rollout, score in zip(group.rollouts, group.scores, strict=True):
            tally.add("rollout/offline_frac", total=float(rollout.source == "offline"))
            if rollout.source == "offline":
                if score.is_scored:
                    tally.add("reward/offline_mean", total=score.value)
                continue
            tally.add("rollout/response_tokens_mean", total=len(rollout.token_ids))
            tally.add("rollout/truncated_frac", total=float(rollout.stop_reason is StopReason.LENGTH))
            tally.add("reward/unscored_frac", total=float(not score.is_scored))
            if not score.is_scored:
                continue
            tally.add("reward/mean", total=score.value)
            for part, value in score.parts.items():
                tally.add(f"reward/{part}_frac", total=value)
            if "accuracy" in score.parts:
                tally.add(f"accuracy/{sample.problem_type}", total=score.parts["accuracy"])
                tally.add(f"accuracy_modality/{sample.modality}", total=score.parts["accuracy"])
                if sample.source:
                    tally.add(f"accuracy_source/{sample.source}", total=score.parts["accuracy"])
    return tally


def response_tally(responses: Sequence[ScoredResponse]) -> Tally:
    """Validation accuracy in all, by problem type, modality and source, greedy and sampled apart.

    Every answer is in a denominator: an unscored one counts as wrong, and its share stands beside the accuracy.
    """
    tally = Tally()
    for scored in responses:
        way = "greedy" if scored.index is None else "sampled"
        accuracy = scored.score.parts.get("accuracy", 0.0) if scored.score.is_scored else 0.0
        tally.add(f"validation/{way}_accuracy_frac", total=accuracy)
        tally.add(f"validation/{way}_accuracy/{scored.sample.problem_type}", total=accuracy)
        tally.add(f"validation/{way}_accuracy_modality/{scored.sample.modality}", total=accuracy)
        if scored.sample.source:
            tally.add(f"validation/{way}_accuracy_source/{scored.sample.source}", total=accuracy)
        tally.add(f"validation/{way}_format_frac", total=scored.score.parts.get("format", 0.0))
        tally.add("validation/unscored_frac", total=float(not scored.score.is_scored))
    return tally


def unscored_greedy_frac(responses: Sequence[ScoredResponse]) -> float:
    """Share of the greedy responses that could not be scored; their accuracy could be this much higher."""
    greedy = [scored for scored in responses if scored.index is None]
    return sum(scored.is_asked and not scored.score.is_scored for scored in greedy) / max(1, len(greedy))
