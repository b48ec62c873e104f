"""The log file of a run: warnings as on the terminal, and infos, which the terminal does not show."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _QuietFile(logging.FileHandler):
    """A log that cannot be written, on a full disk for one, is no reason to write about that to the terminal."""

    def handleError(self, record: logging.LogRecord) -> None:
        pass

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Append the infos and warnings of the package, and the warnings of others, to a file for the time of the block."""
    handler = _QuietFile(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter(FORM))
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.startswith("easyvideor1"))
    root, own = logging.getLogger(), logging.getLogger("easyvideor1")
    level = own.level
    own.setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        own.setLevel(level)
        handler.close()
