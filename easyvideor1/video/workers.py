"""Work on many files in processes that can be killed: a file that hangs or crashes its process costs only itself."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from easyvideor1.errors import DataError, EasyVideoError, MediaError

# Never fork: a child of a process that holds an open decoder or runs compiled threads hangs.
SPAWN = multiprocessing.get_context("spawn")
KILL_WAIT_S = 5.0
START_UP_S = 600.0
"""Time a new process has to import its function; an item's own deadline runs from when it is picked up."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer(Generic[Result]):
    """What a worker sends back for an item."""

    value: Result
    error: EasyVideoError | None = None


class Worker(Generic[Item, Result]):
    """One process that applies a function to what it is sent, one item at a time.

    Args:
        function: picklable; its package errors come back as they are, any other exception as a MediaError.
        threads: cores this process may use for compiled loops.
    """

    def __init__(self, function: Callable[[Item], Result], *, threads: int = 1) -> None:
        self.connection, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(theirs, function, threads), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def send(self, item: Item) -> None:
        """Hand an item over; `receive` then gives None when it is picked up, and next its answer."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a dead process is told of by `receive`
            self.connection.send(item)

    def receive(self) -> Answer[Result] | None:
        """Wait for the next message: None is "picked up", otherwise the answer to the item sent last.

        Raises:
            EasyVideoError: what the function raised.
            MediaError: another exception there, or the process died.
        """
        try:
            message = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(KILL_WAIT_S)
            code = self._process.exitcode
            reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            raise MediaError(f"the process that worked on it died ({reason})") from None
        if message is not None and message.error is not None:
            raise message.error
        return message

    def call(self, item: Item, *, deadline_s: float) -> Result:
        """The result of an item; after the deadline the process is killed and MediaError raised."""
        self.send(item)
        limit_s = START_UP_S
        while True:
            if not self.connection.poll(limit_s):
                self.kill()
                raise too_late(limit_s)
            answer = self.receive()
            if answer is not None:
                return answer.value
            limit_s = deadline_s

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()
        self._process.join(KILL_WAIT_S)
        self.connection.close()


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Item, Result]):
    """What became of one item: a result or an error."""

    item: Item
    result: Result | None
    error: EasyVideoError | None
    wall_s: float


def run_all(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, deadline_s: float
) -> Generator[Outcome[Item, Result]]:
    """Apply a function to every item in killable processes; yields outcomes as they come, in any order.

    Closing the generator kills the processes.

    Args:
        function: picklable.
        items: picklable; taken one by one as workers become free.
        workers: processes.
        deadline_s: wall time one item may take; then its process is killed and the item's outcome is an error.
    """
    remaining = iter(items)
    idle: list[Worker[Item, Result]] = []
    busy: dict[Connection, Task[Item, Result]] = {}
    try:
        while True:
            for item in _up_to(workers - len(busy), remaining):
                worker = _alive(idle) or Worker(function)
                worker.send(item)
                busy[worker.connection] = Task(worker, item, kill_at_s=time.monotonic() + START_UP_S)
            if not busy:
                return
            wait_s = min(task.kill_at_s for task in busy.values()) - time.monotonic()
            ready = wait(list(busy), timeout=max(0.0, wait_s))
            for connection, task in list(busy.items()):
                now_s = time.monotonic()
                if connection in ready:
                    outcome = _next_outcome(task, now_s=now_s)
                    if outcome is None:
                        task.picked_up_s, task.kill_at_s = now_s, now_s + deadline_s
                        continue
                elif now_s >= task.kill_at_s:
                    task.worker.kill()
                    outcome = task.failed(too_late(deadline_s), now_s=now_s)
                else:
                    continue
                del busy[connection]
                if task.worker.is_alive:
                    idle.append(task.worker)
                yield outcome
    finally:
        for worker in [*idle, *(task.worker for task in busy.values())]:
            worker.kill()


@dataclass
class Task(Generic[Item, Result]):
    """An item in the hands of a worker."""

    worker: Worker[Item, Result]
    item: Item
    kill_at_s: float
    picked_up_s: float | None = None

    def wall_s(self, now_s: float) -> float:
        return 0.0 if self.picked_up_s is None else now_s - self.picked_up_s

    def failed(self, error: EasyVideoError, *, now_s: float) -> Outcome[Item, Result]:
        return Outcome(item=self.item, result=None, error=error, wall_s=self.wall_s(now_s))


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def too_late(deadline_s: float) -> MediaError:
    return MediaError(f"not done within {deadline_s:g} s; its process was killed", remedy="raise the deadline")


def naming(error: EasyVideoError, name: str) -> EasyVideoError:
    """The error with the name of what was worked on in it: a killed process does not know it."""
    if not isinstance(error, DataError) or error.where:
        return error
    return type(error)(error.problem, where=name, field=error.field, remedy=error.remedy)


def _alive(idle: list[Worker[Item, Result]]) -> Worker[Item, Result] | None:
    """One of the idle workers, taken off the list; some may have died of nobody's item (out of memory, a kill)."""
    while idle:
        worker = idle.pop()
        if worker.is_alive:
            return worker
    return None


def _up_to(count: int, items: Iterator[Item]) -> Iterator[Item]:
    for _, item in zip(range(count), items, strict=False):
        yield item


def _next_outcome(task: Task[Item, Result], *, now_s: float) -> Outcome[Item, Result] | None:
    """The outcome of a task whose worker has sent something; None if that was "picked up"."""
    try:
        answer = task.worker.receive()
    except EasyVideoError as error:
        return task.failed(error, now_s=now_s)
    if answer is None:
        return None
    return Outcome(item=task.item, result=answer.value, error=None, wall_s=task.wall_s(now_s))


def _serve(connection: Connection, function: Callable, threads: int) -> None:
    """The life of a worker: ends when its parent closes the pipe or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(threads)
    threading.current_thread().name = "worker"
    while True:
        try:
            item = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        try:
            connection.send(None)
            answer = Answer(function(item))
        except EasyVideoError as error:
            answer = Answer(None, error)
        except Exception as error:  # noqa: BLE001 - whatever one file provokes must not stop the others; it is reported
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"unexpected {type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            answer = Answer(None, MediaError(text))
        try:
            connection.send(answer)
        except BrokenPipeError:
            return


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, even in the middle of an item that never ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
