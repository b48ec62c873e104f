"""A few worker processes that are kept from call to call: for one item at a time, or for a list of them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, Self

from easyvideor1.errors import DataError, EasyVideoError, JobError
from easyvideor1.jobs.worker import START_UP_S, Item, NeedsWarmUp, Notice, Result, Worker, too_late


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[Item, Result]):
    """The outcome of one item: a result or an error."""

    item: Item
    result: Result | None
    error: EasyVideoError | None
    wall_s: float
    """Wall time in seconds from the moment a process picked the item up."""


class Pool(Generic[Item, Result]):
    """Applies a function to items in processes that can be killed; use it as a context manager.

    Args:
        function: picklable; its package errors come back as they are, any other exception as a JobError.
        workers: processes at most; each starts when it is first needed.
        deadline_s: wall time one item may take; then its process is killed and the item's error is a JobTimeout.
        memory_bytes: largest address space of a process; None: no limit.
        recycle_after: items after which a process is replaced; None: never.
    """

    def __init__(
        self,
        function: Callable[[Item], Result],
        *,
        workers: int,
        deadline_s: float,
        memory_bytes: int | None = None,
        recycle_after: int | None = None,
    ) -> None:
        self.deadline_s = deadline_s
        self._function, self._memory_bytes = function, memory_bytes
        self._recycle_after = recycle_after
        self._lock = threading.Lock()
        self._workers: set[Worker[Item, Result]] = set()
        self._is_closed = False
        # Last in, first out: processes that run are used before another one is started.
        self._places: queue.LifoQueue[Worker[Item, Result] | None] = queue.LifoQueue()
        for _ in range(workers):
            self._places.put(None)

    def call(self, item: Item) -> Result:
        """The result of one item; safe to call from many threads, each waits for a free process.

        Raises:
            EasyVideoError: what the function raised; a JobError where it could not be finished, or the pool is closed.
        """
        place = self._places.get()
        if self._is_closed:  # by another thread
            self._places.put(place)
            raise JobError("its pool of processes is closed")
        worker = self._alive(place)
        try:
            return worker.call(item, deadline_s=self.deadline_s)
        finally:
            self._give_back(worker, item)

    def run(self, items: Iterable[Item]) -> Generator[Outcome[Item, Result]]:
        """The outcome of every item, as they come, in any order. Closing the generator kills what is under way."""
        remaining = iter(items)
        busy: dict[Connection, _Task[Item, Result]] = {}
        try:
            while True:
                self._hand_out(remaining, busy)
                if not busy:
                    return
                wait_s = min(task.kill_at_s for task in busy.values()) - time.monotonic()
                ready = wait(list(busy), timeout=max(0.0, wait_s))
                for connection, task in list(busy.items()):
                    outcome = task.step(is_ready=connection in ready)
                    if outcome is not None:
                        del busy[connection]
                        self._give_back(task.worker, task.item)
                        yield outcome
        finally:
            for task in busy.values():
                self._give_back(task.worker, task.item)

    def close(self) -> None:
        """Kill all processes."""
        with self._lock:
            self._is_closed = True
            for worker in self._workers:
                worker.kill()
            self._workers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _hand_out(self, remaining: Iterator[Item], busy: dict[Connection, _Task[Item, Result]]) -> None:
        """Give items to free processes while there are both; waits for one only where none is at work."""
        while True:
            try:
                place = self._places.get(block=not busy)
            except queue.Empty:
                return
            try:
                item = next(remaining)
            except StopIteration:
                self._places.put(place)
                return
            except BaseException:  # whatever the caller's iterator raises, the place is free again
                self._places.put(place)
                raise
            worker = self._alive(place)
            worker.send(item, deadline_s=self.deadline_s)
            busy[worker.connection] = _Task(worker, item, self.deadline_s)

    def _alive(self, worker: Worker[Item, Result] | None) -> Worker[Item, Result]:
        """The worker of a place; a new one where there is none yet, or where it died while it was idle."""
        return worker if worker is not None and worker.is_alive else self._start()

    def _start(self) -> Worker[Item, Result]:
        worker = Worker(self._function, memory_bytes=self._memory_bytes)
        with self._lock:
            self._workers.add(worker)
        return worker

    def _give_back(self, worker: Worker[Item, Result], item: Item) -> None:
        """Free the place of a worker. One that died or is used up is replaced at once, so that the next item need not
        wait for imports."""
        is_used_up = self._recycle_after is not None and worker.num_done >= self._recycle_after
        # One that is still busy was left by an interrupt or an error: its reply must not answer the next item.
        if worker.is_alive and not worker.is_busy and not worker.is_spent and not is_used_up:
            self._places.put(worker)
            return
        worker.kill()
        with self._lock:
            self._workers.discard(worker)
            is_over = self._is_closed or not worker.is_ready
        if is_over:
            self._places.put(None)
            return
        successor = self._start()
        if isinstance(self._function, NeedsWarmUp):
            successor.warm_up(item)
        self._places.put(successor)


class _Task(Generic[Item, Result]):
    """An item in the hands of a worker."""

    def __init__(self, worker: Worker[Item, Result], item: Item, deadline_s: float) -> None:
        self.worker, self.item = worker, item
        self._deadline_s = deadline_s
        self.kill_at_s = time.monotonic() + START_UP_S
        self._picked_up_s: float | None = None

    def step(self, *, is_ready: bool) -> Outcome[Item, Result] | None:
        """Take the next message or notice the deadline; the outcome, once there is one."""
        now_s = time.monotonic()
        if not is_ready:
            if now_s < self.kill_at_s:
                return None
            self.worker.kill()
            return self._outcome(error=too_late(START_UP_S if self._picked_up_s is None else self._deadline_s))
        try:
            message = self.worker.receive()
        except EasyVideoError as error:
            if not self.worker.is_ready:
                raise
            return self._outcome(error=error)
        if message is Notice.PICKED_UP:
            self._picked_up_s, self.kill_at_s = now_s, now_s + self._deadline_s
        if isinstance(message, Notice):
            return None
        return self._outcome(result=message.value)

    def _outcome(self, *, result: Result | None = None, error: EasyVideoError | None = None) -> Outcome[Item, Result]:
        wall_s = 0.0 if self._picked_up_s is None else time.monotonic() - self._picked_up_s
        return Outcome(item=self.item, result=result, error=error, wall_s=wall_s)


def run_all(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, deadline_s: float
) -> Generator[Outcome[Item, Result]]:
    """Apply a function to every item in processes of one core each that end with the list; see `Pool.run`."""
    with Pool(function, workers=workers, deadline_s=deadline_s) as pool:
        yield from pool.run(items)


def naming(error: EasyVideoError, name: str) -> EasyVideoError:
    """The error with the name of what was worked on in it: a killed process does not know it."""
    if not isinstance(error, DataError) or error.where:
        return error
    return type(error)(error.problem, where=name, field=error.field, remedy=error.remedy)
