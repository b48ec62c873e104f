"""How a run ends when a scheduler asks it to: the step is finished and saved, and the exit code tells the signal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from easyvideor1.errors import Ended

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ending:
    """Whether a run was asked to end."""

    def __init__(self) -> None:
        self.is_stepping = False
        """There are steps to finish; until then a signal ends the run at once, because there is nothing to save."""
        self.asked: signal.Signals | None = None

    def is_asked(self) -> bool:
        return self.asked is not None

    def settle(self, step: int) -> None:
        """Raise Ended where the run was asked to end; `step` is saved."""
        if self.asked is not None:
            text = f"{self.asked.name}: step {step} is finished and saved; run the same command again to go on"
            raise Ended(self.asked, text)

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signals."""
        name = signal.Signals(number).name
        if not self.is_stepping or self.asked is not None:
            raise Ended(number, f"{name}: ended at once; run the same command again to go on")
        self.asked = signal.Signals(number)
        print(f"{name}: this step is finished and saved first (once more: end at once)", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def gentle_end() -> Iterator[Ending]:
    """Take the signals of schedulers for the time of the block; those that are ignored (nohup) stay so.

    In another thread than the main one, which cannot, a run ends by them as any program does.
    """
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler is not None}  # None: not Python's
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, ending.take)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
