"""Work done in threads ahead of who takes its results: a bounded number of results, and always as many as fit."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

from easyvideor1.errors import EasyVideoError

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, eq=False)
class Made(Generic[Item, Result]):
    """What became of an item: a result or an error."""

    item: Item
    result: Result | None
    error: EasyVideoError | None
    wall_s: float


class Ahead(Generic[Item, Result]):
    """Applies a function to items in their order, several at once; use it as a context manager.

    An item that takes long, or for ever, holds up only its own thread.

    Args:
        function: runs in threads of this process; what should be killable calls a `Pool`.
        threads: items under way at once.
        room: results and items under way that exist at once, until they are released.
    """

    def __init__(self, function: Callable[[Item], Result], items: Iterable[Item], *, threads: int, room: int) -> None:
        self._function, self._items = function, iter(items)
        self._changed = threading.Condition()
        self._ready: deque[Made[Item, Result]] = deque()
        self._num_held, self._room = 0, room
        self._num_running = threads
        self._failure: BaseException | None = None
        self._is_closed = False
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def take(self, *, wait: bool) -> Made[Item, Result] | None:
        """The next outcome; None where there is none left or, without waiting, none yet (see `is_over`).

        Raises:
            BaseException: what the function or the iterable raised other than an error of this package.
        """
        with self._changed:
            while wait and not self._ready and self._num_running and self._failure is None:
                self._changed.wait()
            if self._failure is not None:
                raise self._failure
            return self._ready.popleft() if self._ready else None

    def release(self) -> None:
        """Say that a taken outcome is used up, so that another item may be begun."""
        with self._changed:
            self._num_held -= 1
            self._changed.notify_all()

    @property
    def is_over(self) -> bool:
        """Whether every item was taken; raises as `take`."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            return not self._ready and not self._num_running

    def close(self) -> None:
        """Begin no further item; those under way are left to themselves."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _work(self) -> None:
        try:
            while (item := self._next()) is not None:
                started = time.monotonic()
                result, error = None, None
                try:
                    result = self._function(item[0])
                except EasyVideoError as raised:
                    error = raised
                made = Made(item=item[0], result=result, error=error, wall_s=time.monotonic() - started)
                with self._changed:
                    self._ready.append(made)
                    self._changed.notify_all()
                del item, result, made  # or the last result would live until the next is made
        except BaseException as failure:  # noqa: BLE001 - raised again where results are taken
            with self._changed:
                self._failure = failure
        finally:
            with self._changed:
                self._num_running -= 1
                self._changed.notify_all()

    def _next(self) -> tuple[Item] | None:
        """The next item, once there is room for its result; None: there is none."""
        with self._changed:
            while self._num_held >= self._room and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            for item in self._items:
                self._num_held += 1
                return (item,)
            return None


class Budget:
    """An amount that threads take parts of and give back; who wants more than is left waits."""

    def __init__(self, total: int) -> None:
        self._total, self._taken = total, 0
        self._changed = threading.Condition()

    def take(self, amount: int) -> None:
        """Wait for an amount; one above the total is given when nothing else is taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken == 0 or self._taken + amount <= self._total)
            self._taken += amount

    def give_back(self, amount: int) -> None:
        with self._changed:
            self._taken -= amount
            self._changed.notify_all()
