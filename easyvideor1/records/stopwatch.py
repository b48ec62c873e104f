"""Where the time of a step goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

Part = Literal["decode", "process", "rollout", "reward", "update", "sync", "validate", "checkpoint", "wait", "other"]
"""What a step's time is spent on. "process" and "decode" are what it waits for its prompts and pixels, which others
make ready, "wait" for rollouts that are sampled beside an update; "other" is what no part was measured for."""
PARTS: tuple[Part, ...] = get_args(Part)
ALWAYS_SHOWN = PARTS[:6]


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
    def part(self, name: Part) -> Iterator[None]:
        """Time a block as `name`."""
        self._charge()
        self._running.append(name)
        try:
            yield
        finally:
            self._charge()
            self._running.pop()

    def note_item(self, name: Part, *, item: str, seconds: float) -> None:
        """Remember an item that took long, whoever measured it."""
        if self._slowest is None or seconds > self._slowest[0]:
            self._slowest = (seconds, f"{name} {item}: {seconds:.2f} s")

    @property
    def slowest(self) -> str:
        """The slowest item since the last restart, in words; empty if none was noted."""
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
