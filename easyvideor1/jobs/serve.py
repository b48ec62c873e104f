"""The program of a worker process: `python -m easyvideor1.jobs.serve CONNECTION LIFELINE` (file descriptors)."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from easyvideor1.errors import EasyVideoError, JobError, JobOutOfMemory, RunError
from easyvideor1.jobs.worker import SHOW_STACKS, NeedsWarmUp, Notice, Reply

SHOWN_CHARS = 500


def main() -> None:
    """Serve until the parent closes the connection or is gone."""
    connection, lifeline = Connection(int(sys.argv[1])), int(sys.argv[2])
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    faulthandler.register(SHOW_STACKS, all_threads=True)  # asked for where a run does not move any more
    os.dup2(2, 1)  # what a function prints belongs to the log, not between the caller's results
    search_path, memory_bytes = connection.recv()
    sys.path[:] = search_path
    if memory_bytes is not None:
        _limit_memory(memory_bytes)
    try:
        function = connection.recv()
    except Exception as error:  # noqa: BLE001 - whatever an import provokes is for the parent to tell
        connection.send(Reply(None, RunError(f"a worker process cannot import its function: {_told(error)}")))
        return
    connection.send(Notice.READY)
    warm_up = function.warm_up if isinstance(function, NeedsWarmUp) else _no_warm_up
    while _serve_one(connection, function, warm_up):
        pass


def _serve_one(connection: Connection, function: Callable[[Any], Any], warm_up: Callable[[Any], None]) -> bool:
    """Work on the next item; False where none comes any more."""
    try:
        order, item, deadline_s = connection.recv()
    except (EOFError, ConnectionResetError):
        return False
    if order == "warm up":
        warm_up(item)
        return True
    try:
        warm_up(item)
        connection.send(Notice.PICKED_UP)
        # The parent kills this process at the deadline. Where the parent is gone and the item holds the interpreter,
        # so that no thread runs, the default action of this signal ends the process all the same.
        signal.setitimer(signal.ITIMER_REAL, 2 * deadline_s + 60)
        reply = Reply(function(item))
    except EasyVideoError as error:
        reply = Reply(None, error)
    except MemoryError:
        reply = Reply(None, JobOutOfMemory("not enough memory for it in its process"), is_last=True)
    except Exception as error:  # noqa: BLE001 - whatever one item provokes must not stop the others; it is reported
        reply = Reply(None, JobError(f"unexpected {_told(error)}"))
    signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        connection.send(reply)
    except BrokenPipeError:
        return False
    return not reply.is_last


def _no_warm_up(item: object) -> None:
    pass


def _told(error: Exception) -> str:
    """Kind, text and place of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}"[:SHOWN_CHARS] + place


def _limit_memory(memory_bytes: int) -> None:
    import resource  # not on Windows, where no limit is kept

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _end_with_parent(lifeline: int) -> None:
    """End this process and its children when the parent is gone, even in the middle of an item that never ends."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
