"""Ends a run that makes no progress, and says where it stands: the stacks of all its processes and threads."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from easyvideor1.jobs.worker import show_stacks

EXIT_CODE = 3
WORKERS_WAIT_S = 1.0
"""Time that worker processes have to write their stacks."""


class Watchdog:
    """Waits for beats; use it as a context manager around the run.

    Args:
        limit_s: longest time between two beats; 0: it does not watch.
        file: where the stacks go, beside standard error.
        note: is told in one line why the run ends.
    """

    def __init__(self, limit_s: float, *, file: Path, note: Callable[[str], object]) -> None:
        self._limit_s, self._file, self._note = limit_s, file, note
        self._last_s, self._doing = time.monotonic(), "starting"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")

    def beat(self, doing: str) -> None:
        """Something was finished; `doing` says what comes now, with the ids of its samples."""
        self._last_s, self._doing = time.monotonic(), doing

    def __enter__(self) -> Self:
        self.beat(self._doing)
        if self._limit_s:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(min(1.0, self._limit_s / 4)):
            if time.monotonic() - self._last_s > self._limit_s:
                self._end()

    def _end(self) -> None:
        """End this process from whatever it is stuck in; its workers end with it."""
        reason = (
            f"no progress for {self._limit_s:g} s (train.stall_limit_s) while: {self._doing}; the stacks are in "
            f"{self._file}. Run the same command again to go on from the last checkpoint"
        )
        try:
            self._note(reason)
            with self._file.open("w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(reason + "\n\n")
                file.flush()
                faulthandler.dump_traceback(file, all_threads=True)
        finally:
            faulthandler.dump_traceback(sys.__stderr__ or 2, all_threads=True)
            show_stacks()
            time.sleep(WORKERS_WAIT_S)
            os.write(2, f"error: {reason}\n".encode(errors="backslashreplace"))
            os._exit(EXIT_CODE)
