"""Functions for worker processes that are killed in the middle of their work."""

import os
import signal
from pathlib import Path
from typing import Any

from easyvideor1.types import Media
from easyvideor1.video.pool import look


class KilledOnce:
    """Stands in for the kernel that kills a process where memory is short: the first one that gets to a file."""

    def __init__(self, marks: Path) -> None:
        self.marks = marks

    def __call__(self, item: Any) -> Any:
        name = item.name if isinstance(item, Media) else item.media.name
        mark = self.marks / Path(name).name
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return name if isinstance(item, Media) else look(item)


def always_killed(item):
    os.kill(os.getpid(), signal.SIGKILL)
