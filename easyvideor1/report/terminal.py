"""What a person at the terminal sees of a run: a live panel, or one line per step where output is not a terminal."""

from __future__ import annotations

import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from easyvideor1.records.progress import Progress
from easyvideor1.records.stopwatch import PARTS, Part

PART_COLOURS = dict(
    zip(
        PARTS,
        ("cyan", "blue", "magenta", "yellow", "green", "red", "bright_blue", "white", "bright_magenta", "grey50"),
        strict=True,
    )
)
STEPS_FOR_ETA = 20
INSIDE_LINE_S = 30.0
"""A log file gets a line of what goes on inside a step this often at most."""
INSIDE_REDRAW_S = 0.2
log = logging.getLogger(__name__)


class LastingConsole(Console):
    """A console that hours of work outlast: where its reader is gone (`| head`, a killed `tee`) nothing more is shown,
    and what is written to the same stream later, by whomever, is dropped. Rich would end the program."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        log.warning("nobody reads the output any more; the work goes on")
        with suppress(OSError, ValueError):  # a stream without a file: nothing is left to be written
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)


def open_progress(*, title: str, total_steps: int, start_step: int = 0, console: Console | None = None) -> Progress:
    """The display that fits the console: live on a terminal, lines elsewhere.

    Args:
        title: name of the run.
        total_steps: last step of the run.
        start_step: steps done before this process (a resumed run).
        console: where to; None: standard output.
    """
    console = console or LastingConsole()
    pace = Pace(total_steps=total_steps, start_step=start_step)
    if console.is_terminal:
        return LiveProgress(title=title, pace=pace, console=console)
    return LineProgress(title=title, pace=pace, console=console)


class Pace:
    """How far a run is and when it will end, from the time its last steps took."""

    def __init__(self, *, total_steps: int, start_step: int, now: Callable[[], float] = time.monotonic) -> None:
        self.total_steps = total_steps
        self.done_steps = start_step
        self._now = now
        self._start = self._last = now()
        self._recent_s: deque[float] = deque(maxlen=STEPS_FOR_ETA)

    def finish(self, step: int) -> None:
        """Note the end of a step; a number that was seen before (the validation after it) tells nothing of the pace."""
        now = self._now()
        if step > self.done_steps:
            self._recent_s.append(now - self._last)
        self.done_steps, self._last = step, now

    @property
    def elapsed_s(self) -> float:
        return self._now() - self._start

    @property
    def remaining_s(self) -> float | None:
        """Seconds to the last step; None before the first step is done."""
        if not self._recent_s:
            return None
        return sum(self._recent_s) / len(self._recent_s) * max(0, self.total_steps - self.done_steps)


class _Guard:
    """Runs display code; its first failure is logged and ends the display, never the run."""

    def __init__(self) -> None:
        self.is_broken = False

    def __call__(self, show: Callable[[], None]) -> None:
        if self.is_broken:
            return
        try:
            show()
        except Exception:  # whatever it was: a closed terminal or an odd value must not stop hours of training
            self.is_broken = True
            log.warning("the progress display failed and is off from here on", exc_info=True)


class LineProgress:
    """One line per step, for log files and pipes."""

    def __init__(self, *, title: str, pace: Pace, console: Console) -> None:
        self._pace, self._console, self._title = pace, console, title
        self._guard = _Guard()
        self._told = time.monotonic()

    def phase(self, name: str) -> None:
        pass

    def inside(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self._told >= INSIDE_LINE_S:
            self._told = time.monotonic()
            self._guard(lambda: self._print(f"step {self._pace.done_steps + 1}: {done} of {total} {what}"))

    def step(self, step: int, values: Mapping[str, float], *, note: str = "") -> None:
        self._pace.finish(step)
        self._told = time.monotonic()
        self._guard(lambda: self._print(step_line(self._pace, values, note=note)))

    def _print(self, line: str) -> None:
        # soft_wrap: a log line stays one line; no markup: sample ids may hold brackets.
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)

    def __enter__(self) -> Self:
        self._print(f"{self._title}: step {self._pace.done_steps}/{self._pace.total_steps}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class LiveProgress:
    """A panel that is redrawn in place. It has no thread of its own: processes may be forked while it is shown."""

    def __init__(self, *, title: str, pace: Pace, console: Console) -> None:
        self._title, self._pace = title, pace
        self._phase, self._inside, self._note = "starting", "", ""
        self._redrawn = 0.0
        self._values: dict[str, float] = {}
        self._history: dict[str, list[float]] = {}
        self._guard = _Guard()
        self._live = Live(self._panel(), console=console, auto_refresh=False)

    def phase(self, name: str) -> None:
        self._phase, self._inside = name, ""
        self._guard(self._redraw)

    def inside(self, what: str, done: int, total: int) -> None:
        self._inside = f", {done} of {total} {what}"
        if time.monotonic() - self._redrawn >= INSIDE_REDRAW_S:
            self._guard(self._redraw)

    def step(self, step: int, values: Mapping[str, float], *, note: str = "") -> None:
        self._pace.finish(step)
        self._note = note
        # A stage that this step did not have leaves no share in its bar.
        kept = {name: value for name, value in self._values.items() if not name.startswith("time/")}
        self._values = {**kept, **values}
        for name in ("reward/mean", "reward/accuracy_frac"):
            if math.isfinite(values.get(name, math.nan)):
                self._history.setdefault(name, []).append(values[name])
        self._guard(self._redraw)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._phase = "done" if kind is None else "stopped"
        self._guard(self._redraw)
        self._guard(self._live.stop)

    def _redraw(self) -> None:
        self._redrawn = time.monotonic()
        self._live.update(self._panel(), refresh=True)

    def _panel(self) -> Panel:
        pace = self._pace
        head = Table.grid(padding=(0, 1), expand=True)
        for ratio in (None, 1, None):
            head.add_column(ratio=ratio, no_wrap=True)
        share = pace.done_steps / pace.total_steps if pace.total_steps else 1.0
        head.add_row(
            Text(f"step {pace.done_steps}/{pace.total_steps}", style="bold"),
            ProgressBar(total=1.0, completed=share),
            Text(f"{clock(pace.elapsed_s)} gone, {_eta(pace)}   now: {self._phase}{self._inside}"),
        )
        lines: list[RenderableType] = [head, *self._rows()]
        if self._note:
            lines.append(Text(f"slowest    {self._note}", style="dim", no_wrap=True, overflow="ellipsis"))
        return Panel(Group(*lines), title=Text(self._title, style="bold"), border_style="dim")

    def _rows(self) -> list[RenderableType]:
        values = self._values
        rows: list[RenderableType] = []
        for label, name in (("reward", "reward/mean"), ("accuracy", "reward/accuracy_frac")):
            if name in self._history:
                spark = sparkline(self._history[name][-40:])
                rows.append(Text.assemble(f"{label:<10} ", (f"{values[name]:.3f}", "bold"), "  ", (spark, "cyan")))
        checked = [f"{way} {values[name]:.3f}" for way, name in VALIDATED if name in values]
        if checked:
            rows.append(Text(f"{'validation':<10} " + "   ".join(checked)))
        types = accuracies(values)
        if types:
            cells = [part for name, value in types for part in (f"{name} ", (f"{value:.2f}", "bold"), "   ")]
            rows.append(Text.assemble("by type    ", *cells))
        parts = time_parts(values)
        if parts:
            rows.append(Text.assemble(f"{'time':<10} ", *_time_bar(parts), f" {sum(parts.values()):.2f} s/step"))
            rows.append(Text.assemble(" " * 11, *_time_legend(parts)))
        speed = [f"{values[name]:,.0f} {unit}" for name, unit in SPEEDS if name in values]
        if speed:
            rows.append(Text(f"{'speed':<10} " + "   ".join(speed)))
        return rows


VALIDATED = (("greedy", "validation/greedy_accuracy_frac"), ("sampled", "validation/sampled_accuracy_frac"))
SPEEDS = (("rollout/tokens_per_s", "tokens/s sampled"), ("update/tokens_per_s", "tokens/s trained"))


def step_line(pace: Pace, values: Mapping[str, float], *, note: str = "") -> str:
    """The metrics of one step in one line; a metric that the step did not measure is left out."""
    words = [f"step {pace.done_steps}/{pace.total_steps}"]
    for label, name in (("reward", "reward/mean"), ("accuracy", "reward/accuracy_frac")):
        if name in values:
            words.append(f"{label} {values[name]:.3f}")
    if "reward/mean" not in values and "loss/total" in values:  # nothing was sampled
        words.append(f"loss {values['loss/total']:.4f}")
    checked = [f"{way} {values[name]:.3f}" for way, name in VALIDATED if name in values]
    words += ["validation " + ", ".join(checked)] if checked else []
    types = accuracies(values)
    if types:
        words.append("[" + ", ".join(f"{name} {value:.2f}" for name, value in types) + "]")
    words += [f"{values[name]:.0f} {unit}" for name, unit in SPEEDS[:1] if values.get(name)]
    parts = time_parts(values)
    total = sum(parts.values())
    if total > 0:
        shares = sorted(((value / total, name) for name, value in parts.items()), reverse=True)
        words.append(f"{total:.2f} s (" + ", ".join(f"{name} {share:.0%}" for share, name in shares[:3]) + ")")
    words.append(_eta(pace))
    return "  ".join(words + ([f"slowest: {note}"] if note else []))


def accuracies(values: Mapping[str, float]) -> list[tuple[str, float]]:
    """(problem type, accuracy) pairs among the metrics, by name."""
    prefix = "accuracy/"
    return [(name[len(prefix) :], values[name]) for name in sorted(values) if name.startswith(prefix)]


def time_parts(values: Mapping[str, float]) -> dict[Part, float]:
    """Seconds by part of the step, in the order of the step."""
    return {part: values[f"time/{part}_s"] for part in PARTS if f"time/{part}_s" in values}


def sparkline(values: list[float]) -> str:
    """A line of block characters from the lowest to the highest value.

    >>> sparkline([0.0, 0.5, 1.0]) == chr(0x2581) + chr(0x2585) + chr(0x2588)
    True
    """
    low, high = min(values), max(values)
    scale = 7 / (high - low) if high > low else 0.0
    return "".join(chr(0x2581 + int((value - low) * scale + 0.5)) for value in values)


def clock(seconds: float) -> str:
    """Hours, minutes, seconds.

    >>> clock(75), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _eta(pace: Pace) -> str:
    return "ETA -" if pace.remaining_s is None else f"ETA {clock(pace.remaining_s)}"


def _time_bar(parts: Mapping[Part, float], *, width: int = 40) -> list[tuple[str, str]]:
    total = sum(parts.values()) or 1.0
    edges = [0.0]
    for value in parts.values():
        edges.append(edges[-1] + value / total * width)
    return [
        (chr(0x2588) * (round(right) - round(left)), PART_COLOURS[part])
        for part, left, right in zip(parts, edges[:-1], edges[1:], strict=True)
    ]


def _time_legend(parts: Mapping[Part, float]) -> list[str | tuple[str, str]]:
    total = sum(parts.values()) or 1.0
    words: list[str | tuple[str, str]] = []
    for part, value in parts.items():
        if value / total >= 0.005:
            words += [(chr(0x25A0), PART_COLOURS[part]), f" {part} {value / total:.0%}  "]
    return words
