"""What worker processes print: passed on to standard error, up to a bound."""

from __future__ import annotations

import contextlib
import os
import threading

MOST_BYTES = 64 << 10
"""Most bytes that are shown of what one process prints."""
PIECE_BYTES = 1 << 16


def passed_on() -> int:
    """The writing end of a pipe for a process to print into; the caller closes its copy when the process has it.

    A thread copies what comes to standard error until MOST_BYTES, and drops the rest, so that code of a user's that
    prints without end fills no disk. The thread ends with the last process that holds the pipe.
    """
    reader, writer = os.pipe()
    threading.Thread(target=_copy, args=(reader,), daemon=True, name="output of a worker").start()
    return writer


def _copy(reader: int) -> None:
    left, is_told = MOST_BYTES, False
    with open(reader, "rb", buffering=0) as pipe, contextlib.suppress(OSError):  # standard error may be gone
        while piece := pipe.read(PIECE_BYTES):
            os.write(2, piece[:left])
            if len(piece) > left and not is_told:
                is_told = True
                os.write(2, f"\n(a worker process has printed {MOST_BYTES >> 10} KiB; the rest is dropped)\n".encode())
            left = max(0, left - len(piece))
