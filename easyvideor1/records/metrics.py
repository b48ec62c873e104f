"""The metrics of a run, one JSON line per step.

A metric's name is a path that ends in its unit or kind: `reward/accuracy_frac`, `rollout/tokens_per_s`. Readings of
the clock live under `time/` and in names ending in `_per_s`, nowhere else: all other metrics of a resumed run equal
those of a run that was never stopped, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from easyvideor1.records.jsonl import StepLines

Track = Callable[[int, Mapping[str, float]], None]
"""Takes the numbers of a step."""


class MetricsLog:
    """The metrics file of a run: one JSON line per call, `{"step": 3, "reward/mean": 0.5, ...}`."""

    def __init__(self, path: str | Path, *, track: Track = lambda step, values: None) -> None:
        """
        Args:
            track: is told the same numbers, those that are not finite as they are.
        """
        self._lines = StepLines(path)
        self._track = track

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Append the numbers of one step; a number that is not finite is kept as null."""
        plain = {name: value if isinstance(value, int) else float(value) for name, value in values.items()}
        self._lines.append({"step": step, **plain})
        self._track(step, plain)

    def truncate_after(self, step: int) -> None:
        """Forget the steps after `step`: call it once when a run goes on from a checkpoint."""
        self._lines.truncate_after(step)

    def close(self) -> None:
        self._lines.close()


def is_wall_clock(name: str) -> bool:
    """Does the metric depend on what the machine is, and how fast it was?

    >>> is_wall_clock("time/decode_s"), is_wall_clock("rollout/tokens_per_s"), is_wall_clock("reward/mean")
    (True, True, False)
    """
    return name.startswith(("time/", "device/")) or name.endswith(("_per_s", "mfu_frac"))
