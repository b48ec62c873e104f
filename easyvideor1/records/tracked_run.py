"""What trackers are told of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    folder: Path
    """The folder of the run; what trackers keep on disk goes there."""
    project: str
    config: Mapping[str, Any]
    id: str
    """The same whenever this run goes on, another for every other run."""

    @property
    def name(self) -> str:
        return self.folder.resolve().name
