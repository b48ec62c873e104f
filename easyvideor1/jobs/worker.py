"""One process that works on what it is sent and can be killed: an item that hangs or crashes costs only itself.

A worker is a program of its own, not a fork and not a multiprocessing child: it never imports the caller's main module
and inherits no lock, open decoder or compiled thread of the caller.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from easyvideor1.errors import EasyVideoError, JobDied, JobTimeout, RunError
from easyvideor1.jobs.output import passed_on

KILL_WAIT_S = 5.0
SHOW_STACKS = getattr(signal, "SIGUSR1", signal.SIGTERM)
START_UP_S = 600.0
"""Seconds that a process has to start and to warm up; an item's own deadline runs from when it is picked up."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Warmed = TypeVar("Warmed", contravariant=True)


@runtime_checkable
class NeedsWarmUp(Protocol[Warmed]):
    """A function that imports things for some items; the time for that is not the item's."""

    def __call__(self, item: Warmed) -> Any: ...

    def warm_up(self, item: Warmed) -> None:
        """Get ready for items like this one, without working on it."""
        ...


class Notice(Enum):
    """A message of a worker beside its replies."""

    READY = "ready"
    """The function is imported."""
    PICKED_UP = "picked up"
    """Work on the item begins."""


@dataclass(frozen=True)
class Reply(Generic[Result]):
    """The reply of a worker to an item."""

    value: Result
    error: EasyVideoError | None = None
    is_last: bool = False
    """The process ends now."""


_WORKERS: weakref.WeakSet[Worker] = weakref.WeakSet()
"""All workers of this process."""


def show_stacks() -> None:
    """Let all worker processes write the stacks of their threads to standard error."""
    for worker in list(_WORKERS):
        if worker.is_alive and worker.is_ready:  # before that it would die of the signal
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, SHOW_STACKS)


class Worker(Generic[Item, Result]):
    """A process that applies a function to one item after another.

    Args:
        function: picklable and importable from a module other than the main one.
        threads: cores the process may use for compiled loops.
        memory_bytes: largest address space of the process; None: no limit.
    """

    def __init__(
        self, function: Callable[[Item], Result], *, threads: int = 1, memory_bytes: int | None = None
    ) -> None:
        if function.__module__ == "__main__":
            raise ValueError(f"{function!r} stands in the main module, which a worker does not import")
        self.connection, theirs = Pipe()
        lifeline, self._lifeline = os.pipe()  # closed by the kernel when this process ends, however it ends
        output = passed_on()
        self._process = subprocess.Popen(
            # -P: the package of this process, not one that happens to lie in the working folder.
            [sys.executable, "-P", "-m", "easyvideor1.jobs.serve", str(theirs.fileno()), str(lifeline)],
            stdin=subprocess.DEVNULL,
            stderr=output,
            env=_environment(threads),
            pass_fds=(theirs.fileno(), lifeline),
            start_new_session=True,  # Ctrl-C is for the parent to decide on, and a kill reaches grandchildren too
        )
        theirs.close()
        os.close(lifeline)
        os.close(output)
        _WORKERS.add(self)
        self.is_ready = False
        self.is_busy = False
        """Between an item and its reply."""
        self.is_spent = False
        """The worker has served its last item: what it keeps in memory leaves no room for another."""
        self.num_done = 0
        self._send((sys.path, memory_bytes))
        self._send(function)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, item: Item, *, deadline_s: float) -> None:
        """Hand an item over; its notices and its reply then come by `receive`."""
        self.is_busy = True
        self._send(("work", item, deadline_s))

    def warm_up(self, item: Item) -> None:
        """Let the process get ready for items like this one, while nobody waits for it."""
        self._send(("warm up", item, START_UP_S))

    def receive(self) -> Notice | Reply[Result]:
        """Wait for the next message.

        Raises:
            EasyVideoError: what the function raised.
            JobDied: the process ended without a reply.
            RunError: it ended before it was ready.
        """
        try:
            message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            how = self._how_it_ended()
            if not self.is_ready:
                raise RunError(f"a worker process ended before it was ready ({how}); see its error output") from None
            raise JobDied(f"the process that worked on it died ({how})") from None
        if isinstance(message, Notice):
            self.is_ready = True
            return message
        self.is_busy = False
        self.num_done += 1
        self.is_spent = message.is_last
        if message.error is not None:
            raise message.error
        return message

    def call(self, item: Item, *, deadline_s: float) -> Result:
        """The result of an item; at the deadline the process is killed and JobTimeout raised."""
        self.send(item, deadline_s=deadline_s)
        limit_s = START_UP_S
        while True:
            if not self.connection.poll(limit_s):
                self.kill()
                raise too_late(limit_s)
            message = self.receive()
            if isinstance(message, Reply):
                return message.value
            if message is Notice.PICKED_UP:
                limit_s = deadline_s

    def kill(self) -> None:
        """End the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_WAIT_S)
        if not self.connection.closed:
            self.connection.close()
            os.close(self._lifeline)

    def _send(self, message: object) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a dead process is told of by `receive`
            self.connection.send(message)

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(KILL_WAIT_S)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def too_late(deadline_s: float) -> JobTimeout:
    return JobTimeout(f"not done within {deadline_s:g} s; its process was killed", remedy="raise the deadline")


def _environment(threads: int) -> dict[str, str]:
    """The environment of this process, with the package importable and compiled loops on that many cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    search_path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return (
        dict(os.environ)
        | dict.fromkeys(names, str(threads))
        | {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(None, search_path))}
    )


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
