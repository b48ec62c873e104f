"""Ctrl-C while things are imported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
LINE = b"interrupted; run the same command again to go on\n"


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process on the spot for the time of the block: nothing is there to be cleaned up yet, and
    libraries take an interrupt of their import for something else."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(*_: object) -> None:
    os.write(2, LINE)
    os._exit(INTERRUPTED)
