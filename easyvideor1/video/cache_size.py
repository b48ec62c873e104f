"""How many bytes a cache folder holds, without looking at every entry at every write.

Entries lie in some 256 folders of about the same size, as keys are digests. A table in the cache keeps the size of
each; whoever writes adds to it, a few folders are counted anew from time to time, and what has never been counted is
taken to be like the rest. The table is an estimate that corrects itself over time; where it is lost or damaged,
folders are counted.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from easyvideor1.jobs.locks import locked

TABLE_NAME = ".sizes.v1.json"
LOCK_NAME = "sizes"
SHARE_EVERY_FRAC = 0.1
SHARE_EVERY_S = 1.0
"""What this process wrote is shared with others after this part of the room that is left, or this time."""
RECOUNT_AFTER_S = 600.0
"""Folders are counted again after this time: entries are also removed, and written by programs that do not tell."""
COUNT_FILES = 256
"""A call looks at about as many files, so that no write waits for a large cache."""
MOST_TABLE_BYTES = 1 << 20

Sizes = dict[str, tuple[int, float]]
"""Folder -> bytes in it, and when it was counted (seconds since 1970)."""


class CacheSize:
    """The size of one cache folder, as this process knows it; safe to use from threads."""

    def __init__(self, dir: Path) -> None:
        self._dir = dir
        self._lock = threading.Lock()
        self._written: dict[str, int] = {}
        """Bytes that this process wrote since it last read the table."""
        self._others_bytes = 0
        self._shared_at_s = 0.0

    def add(self, path: Path, num_bytes: int, *, limit_bytes: int) -> int:
        """Bytes of the cache now that an entry was written."""
        with self._lock:
            folder = path.parent.name
            self._written[folder] = self._written.get(folder, 0) + num_bytes
            own_bytes = sum(self._written.values())
            is_much = own_bytes >= (limit_bytes - self._others_bytes) * SHARE_EVERY_FRAC
            if is_much or not 0 <= time.time() - self._shared_at_s < SHARE_EVERY_S:
                self._others_bytes, own_bytes = self._share(), 0
            return self._others_bytes + own_bytes

    def look(self) -> int:
        """Bytes of the cache by the table."""
        with self._lock:
            self._others_bytes = self._share()
            return self._others_bytes

    def _share(self) -> int:
        with locked(self._dir / "locks" / LOCK_NAME):
            folders = _folders(self._dir)
            known = {name: size for name, size in _read(self._dir).items() if name in folders}
            for name, num_bytes in self._written.items():
                if name in known:
                    known[name] = known[name][0] + num_bytes, known[name][1]
            _count_some(self._dir, folders, known)
            _write(self._dir, known)
        self._written.clear()
        self._shared_at_s = time.time()
        counted_bytes = sum(num_bytes for num_bytes, _ in known.values())
        return counted_bytes * len(folders) // len(known) if known else 0


@lru_cache(maxsize=64)
def cache_size(dir: Path) -> CacheSize:
    """The one of a folder (absolute) for this process."""
    return CacheSize(dir)


def set_sizes(dir: Path, sizes: Mapping[str, int]) -> None:
    """Put down what a count of all entries found: bytes by folder."""
    now_s = time.time()
    with locked(dir / "locks" / LOCK_NAME):
        counted = {name: (sizes.get(name, 0), now_s) for name in _folders(dir)}
        _write(dir, counted)


def _folders(dir: Path) -> set[str]:
    try:
        with os.scandir(dir) as found:
            return {entry.name for entry in found if len(entry.name) == 2 and entry.is_dir(follow_symlinks=False)}
    except FileNotFoundError:
        return set()


def _count_some(dir: Path, folders: set[str], known: Sizes) -> None:
    """Count folders that are unknown or were counted long ago, the oldest first, up to COUNT_FILES files."""
    now_s, num_files = time.time(), 0
    for name in sorted(folders, key=lambda name: known[name][1] if name in known else 0.0):
        if num_files >= COUNT_FILES or (name in known and 0 <= now_s - known[name][1] < RECOUNT_AFTER_S):
            return
        sizes = _file_sizes(dir / name)
        known[name] = sum(sizes), now_s
        num_files += len(sizes)


def _file_sizes(folder: Path) -> list[int]:
    sizes = []
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        for entry in found:
            with suppress(FileNotFoundError):  # removed by another process since it was listed
                sizes.append(entry.stat(follow_symlinks=False).st_size)
    return sizes


def _read(dir: Path) -> Sizes:
    """The table; empty where there is none that makes sense."""
    try:
        with open(dir / TABLE_NAME, "rb") as file:
            content = json.loads(file.read(MOST_TABLE_BYTES))
        return {str(name): (max(0, int(size)), float(at_s)) for name, (size, at_s) in content.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def _write(dir: Path, known: Sizes) -> None:
    descriptor = os.open(dir / TABLE_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "w") as file:
        json.dump(known, file)
