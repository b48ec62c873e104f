"""How far a run over benchmarks is: per benchmark with its running score, and when it will be done."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from easyvideor1.evals.answers import read_answers
from easyvideor1.evals.asking import Counts
from easyvideor1.evals.schedule import Group


@dataclass(kw_only=True)
class Running:
    """The answers to a benchmark so far."""

    done: int = 0
    scored: int = 0
    worth: float = 0.0

    @property
    def score(self) -> float | None:
        """Mean of the strict values in percent; the benchmark's own metric comes at the end."""
        return 100 * self.worth / self.scored if self.scored else None


@dataclass(kw_only=True)
class Status:
    """The state of a run."""

    totals: Mapping[str, int]
    """Benchmark -> answers that are wanted."""
    counts: Counts = field(default_factory=Counts)
    running: dict[str, Running] = field(default_factory=dict)
    total_video_s: float = 0.0
    """Length of all videos that are still to be looked at, as far as it is known."""
    _started_s: float = field(default_factory=time.monotonic)

    def begin(self, groups: Sequence[Group]) -> None:
        self.total_video_s = sum(group.length_s or 0.0 for group in groups)
        self._started_s = time.monotonic()

    def note_done(self, benchmark: str, folder: Path) -> None:
        """Count the answers that an earlier run left."""
        for record in read_answers(folder):
            self.note(benchmark, record["score"])

    def note(self, benchmark: str, value: float | None) -> None:
        """Count an answer."""
        running = self.running.setdefault(benchmark, Running())
        running.done += 1
        if value is not None:
            running.scored += 1
            running.worth += value

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    @property
    def left_s(self) -> float | None:
        """Seconds until the end by the seconds of video that are left; None: too early to say."""
        if not self.counts.video_s:
            return None
        return self.elapsed_s * max(0.0, self.total_video_s / self.counts.video_s - 1)

    @property
    def idle_frac(self) -> float:
        """Share of the time in which the engine had nothing to do."""
        return min(1.0, self.counts.engine_idle_s / self.elapsed_s) if self.elapsed_s else 0.0
