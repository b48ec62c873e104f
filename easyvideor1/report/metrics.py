"""Numbers of a run: sums with their counts, a stopwatch per step, and the log that keeps them.

A metric's name is a path that ends in its unit or kind: `reward/accuracy_frac`, `rollout/tokens_per_s`. Readings of
the clock live under `time/` and in names ending in `_per_s`, nowhere else: all other metrics of a resumed run equal
those of a run that was never stopped, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from easyvideor1.report.jsonl import StepLines, read_rows
from easyvideor1.types import Answer, Group, StopReason

Part = Literal["decode", "process", "rollout", "reward", "update", "sync", "validate", "checkpoint", "other"]
"""What a step's time is spent on; "other" is what no part was measured for."""
PARTS: tuple[Part, ...] = get_args(Part)
ALWAYS_SHOWN = PARTS[:6]


class MetricsLog:
    """The metrics file of a run: one JSON line per call, `{"step": 3, "reward/mean": 0.5, ...}`."""

    def __init__(self, path: str | Path) -> None:
        self._lines = StepLines(path)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Append the numbers of one step; a number that is not finite is kept as null."""
        plain = {name: value if isinstance(value, int) else float(value) for name, value in values.items()}
        self._lines.append({"step": step, **plain})

    def truncate_after(self, step: int) -> None:
        """Forget the steps after `step`: call it once when a run goes on from a checkpoint."""
        self._lines.truncate_after(step)

    def close(self) -> None:
        self._lines.close()


def read(path: str | Path) -> list[dict[str, Any]]:
    """Rows of a metrics file, oldest first; a half-written last line is left out.

    Raises:
        DataError: no such file, or a damaged line.
    """
    return read_rows(path)


def is_wall_clock(name: str) -> bool:
    """Does the metric depend on how fast the machine was?

    >>> is_wall_clock("time/decode_s"), is_wall_clock("rollout/tokens_per_s"), is_wall_clock("reward/mean")
    (True, True, False)
    """
    return name.startswith("time/") or name.endswith("_per_s")


def comparable(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows without readings of the clock: what two equal runs must agree on. Rows of nothing else are left out."""
    plain = ({name: value for name, value in row.items() if not is_wall_clock(name)} for row in rows)
    return [row for row in plain if row.keys() != {"step"}]


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


def group_tally(groups: Sequence[Group]) -> Tally:
    """What the scored groups of a step say about the policy.

    Means of rewards are over scored responses of the policy (stored ones say nothing about it); the unscored share
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


def answer_tally(answers: Sequence[Answer]) -> Tally:
    """Validation accuracy in all, by problem type, modality and source, greedy and sampled apart.

    Every answer is in a denominator: an unscored one counts as wrong, and its share stands beside the accuracy.
    """
    tally = Tally()
    for answer in answers:
        way = "greedy" if answer.draw is None else "sampled"
        accuracy = answer.score.parts.get("accuracy", 0.0) if answer.score.is_scored else 0.0
        tally.add(f"validation/{way}_accuracy_frac", total=accuracy)
        tally.add(f"validation/{way}_accuracy/{answer.sample.problem_type}", total=accuracy)
        tally.add(f"validation/{way}_accuracy_modality/{answer.sample.modality}", total=accuracy)
        if answer.sample.source:
            tally.add(f"validation/{way}_accuracy_source/{answer.sample.source}", total=accuracy)
        tally.add(f"validation/{way}_format_frac", total=answer.score.parts.get("format", 0.0))
        tally.add("validation/unscored_frac", total=float(not answer.score.is_scored))
    return tally


class Stopwatch:
    """Splits the time of one step into parts; a part within a part stops the outer one's clock.

    Args:
        now: the clock, in seconds.
    """

    def __init__(self, *, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self.restart()

    def restart(self) -> None:
        """Begin a new step."""
        self._start = self._mark = self._now()
        self._running: list[Part] = ["other"]
        self._seconds: dict[Part, float] = dict.fromkeys(ALWAYS_SHOWN, 0.0)
        self._slowest: tuple[float, str] | None = None

    @contextmanager
    def part(self, name: Part, *, item: str = "") -> Iterator[None]:
        """Time a block as `name`; `item` says which sample or batch it worked on, for the slowest-item note."""
        self._charge()
        self._running.append(name)
        begin = self._mark
        try:
            yield
        finally:
            self._charge()
            self._running.pop()
            if item:
                self.note_item(name, item=item, seconds=self._mark - begin)

    def note_item(self, name: Part, *, item: str, seconds: float) -> None:
        """Remember an item that took long, also one that another process measured."""
        if self._slowest is None or seconds > self._slowest[0]:
            self._slowest = (seconds, f"{name} {item}: {seconds:.2f} s")

    @property
    def slowest(self) -> str:
        """The slowest item since the last restart, in words; empty if no part named one."""
        return self._slowest[1] if self._slowest else ""

    def values(self) -> dict[str, float]:
        """`time/<part>_s` in seconds, and their sum `time/step_s`, since the last restart."""
        self._charge()
        parts = {f"time/{name}_s": self._seconds[name] for name in PARTS if name in self._seconds}
        return parts | {"time/step_s": self._mark - self._start}

    def only(self, name: Part) -> dict[str, float]:
        """`time/<part>_s` of one part since the last restart, for work that is no part of a step."""
        return {f"time/{name}_s": self.values()[f"time/{name}_s"]}

    def _charge(self) -> None:
        now = self._now()
        name = self._running[-1]
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._mark
        self._mark = now
