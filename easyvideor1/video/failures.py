"""The list of media that could not be preprocessed, shared by all processes that fill a cache: a line of JSON for each.

A run adds what fails, and takes out what it has stored and what earlier runs over the same data left; lines of runs
over other data stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from easyvideor1.errors import UsageError
from easyvideor1.jobs.locks import locked
from easyvideor1.types import Media
from easyvideor1.video.clip_file import replaced_file

_PLACE = re.compile(r":\d+\Z|\[\d+\]\Z")
"""The place of a row in its file."""
Name = tuple[object, ...]
"""What tells one medium from another: its name, kind and clip range."""


class FailureList:
    """A file of failures (see `preprocess.failure_row`).

    Args:
        path: made at the first failure, removed when none is left.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._added: set[Name] = set()

    def add(self, row: Mapping[str, object]) -> None:
        """Add a line, on disk at once.

        Raises:
            UsageError: the file cannot be written.
        """
        line = json.dumps(row)
        self._added.add(_name(line))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._lock), self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise self._unwritable(error) from None

    def settle(self, stored: Iterable[Media], *, data: Iterable[str]) -> None:
        """Take out the lines that are no longer true; of several about one medium the last stays.

        Args:
            stored: media that are in the cache now.
            data: data files that this run has gone through; what earlier runs said of their rows is outdated.

        Raises:
            UsageError: the file cannot be written.
        """
        names: set[Name] = {(media.name, media.kind, media.start_s, media.end_s) for media in stored}
        files = frozenset(data)
        try:
            if not self.path.is_file():
                return  # none, or a pipe that somebody reads
            with locked(self._lock):
                self._rewrite(names, files)
        except OSError as error:
            raise self._unwritable(error) from None

    def _rewrite(self, stored: set[Name], files: frozenset[str]) -> None:
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return  # another run has found nothing left
        latest = {_name(line): line for line in lines if line.strip()}
        kept = [
            line
            for name, line in latest.items()
            if name in self._added or not (name in stored or _is_about(line, files))
        ]
        if not kept:
            self.path.unlink()
            return
        with replaced_file(self.path) as file:
            file.write("".join(f"{line}\n" for line in kept).encode())

    @property
    def _lock(self) -> Path:
        return self.path.with_name(f".{self.path.name}.lock")

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(f"{self.path}: cannot write the list of failures: {error.strerror} (use --failed FILE)")


def _name(line: str) -> Name:
    """The medium of a line; of a line that is none of ours, the line itself."""
    row = _row(line)
    return (row["media"], row.get("kind"), row.get("start_s"), row.get("end_s")) if "media" in row else (line,)


def _is_about(line: str, files: frozenset[str]) -> bool:
    """Whether all rows that need the medium of a line are in these data files."""
    rows = _row(line).get("rows")
    if not isinstance(rows, list) or not rows:
        return False
    return all(_PLACE.sub("", str(row)) in files for row in rows)


def _row(line: str) -> dict:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}
