"""The progress display of a run."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self


class Progress(Protocol):
    """A display of a run, used as a context manager around it."""

    def phase(self, name: str) -> None:
        """Say what the run is doing now."""

    def inside(self, what: str, done: int, total: int) -> None:
        """Say how far the present part of a step is ("samples prepared", "sequences done")."""

    def step(self, step: int, values: Mapping[str, float], *, note: str = "") -> None:
        """Show the metrics of a finished step; `note` is a line of its own (the slowest item)."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
