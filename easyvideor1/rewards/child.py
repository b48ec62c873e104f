"""A time limit for functions that may never end, without the loss of the process and its imports.

A worker that had to be killed would have to import computer algebra again, a second or two for every hostile answer.
Python code is interrupted (`in_time`); compiled code, which cannot be, runs in a fork (`in_child`).
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import TypeVar

from easyvideor1.errors import EasyVideoError, JobDied, JobError, JobOutOfMemory, JobTimeout

Result = TypeVar("Result")


class _Late(BaseException):
    """Raised in the middle of a function; no Exception, so that nothing in there takes it for one."""


def in_time(function: Callable[[], Result], *, limit_s: float) -> Result:
    """The result of a function within `limit_s` CPU seconds; for Python code in the main thread of a worker process.

    Without such timers (on Windows) there is no limit here.

    Raises:
        JobTimeout: it did not return in time; compiled code in it delays this until it ends.
        Exception: what the function raised.
    """
    if not hasattr(signal, "setitimer"):
        return function()
    try:
        try:
            signal.signal(signal.SIGPROF, _be_late)
            signal.setitimer(signal.ITIMER_PROF, limit_s)
            return function()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _Late:
        raise _timeout(limit_s) from None


def _be_late(*_: object) -> None:
    raise _Late


def _timeout(limit_s: float) -> JobTimeout:
    return JobTimeout(f"not done within {limit_s:.3g} s", remedy="raise the deadline")


def in_child(function: Callable[[], Result], *, limit_s: float) -> Result:
    """The result of a function in a child process that is killed after `limit_s`.

    For worker processes, which run one function at a time; without `os.fork` (on Windows) it runs here.

    Raises:
        JobTimeout, JobOutOfMemory, JobDied: the child did not return.
        EasyVideoError: what the function raised; a JobError for anything unforeseen.
    """
    if not hasattr(os, "fork"):
        return function()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _serve(function, writer)
    os.close(writer)
    try:
        reply, is_late = _read(reader, until_s=time.monotonic() + limit_s)
    finally:
        os.close(reader)
    if is_late:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if is_late:
        raise _timeout(limit_s)
    if not reply:
        raise JobDied(f"the process that worked on it died ({_ending(status)})")
    value, error = pickle.loads(reply)
    if error is not None:
        raise error
    return value


def _serve(function: Callable[[], Result], writer: int) -> None:
    """The life of the child: never returns."""
    try:
        try:
            reply = (function(), None)
        except EasyVideoError as error:
            reply = (None, error)
        except MemoryError:
            reply = (None, JobOutOfMemory("not enough memory for it in its process"))
        except Exception as error:  # noqa: BLE001 - whatever one answer provokes is reported, not spread
            reply = (None, JobError(f"unexpected {type(error).__name__}: {error}"[:500]))
        rest = memoryview(pickle.dumps(reply))
        while rest:
            rest = rest[os.write(writer, rest) :]
    finally:
        os._exit(0)


def _read(reader: int, *, until_s: float) -> tuple[bytes, bool]:
    """The output of the child, and whether it came too late."""
    parts: list[bytes] = []
    while True:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not select.select([reader], [], [], left_s)[0]:
            return b"", True
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts), False
        parts.append(part)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit code {code}"
