"""Whether the data of a run are still those it began with: rows by their bytes, media by their content.

The order of samples, and so every step, follows from the rows. What they were is kept in the folder of the run, two
numbers per row: the hash of its bytes, and one of the content of its media. Paths do not count, so data may move.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import xxhash
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from easyvideor1.data.check import CheckedData, CheckedFile
from easyvideor1.data.media_check import Seen
from easyvideor1.errors import DataError, RunError, UsageError
from easyvideor1.types import Media, MediaPlan
from easyvideor1.video.source import WHOLE_HASH_BYTES, locate

THREADS = 16
BLOCK_BYTES, NUM_BLOCKS = 4096, 4
"""Blocks of a large file that are read, and their size."""
REMEDY = "Put the old data back to go on with this run, or choose another `out` for a new one"


class DataPrints:
    """What the rows and media of a run were when this process looked at them."""

    def __init__(self, sources: Sequence[CheckedData]) -> None:
        """
        Args:
            sources: training and, if there is one, validation.
        """
        seen = {medium: found for source in sources for medium, found in source.seen.items()}
        self._content = {medium: found.facts.content for medium, found in seen.items() if isinstance(found, Seen)}
        with ThreadPoolExecutor(max_workers=THREADS) as threads:
            found = threads.map(lambda item: _print(item[0], content=item[1]), self._content.items())
            self._prints = dict(zip(self._content, found, strict=True))

    def check_same(self, sources: Sequence[CheckedData], path: Path, *, is_begun: bool) -> None:
        """Compare with what is kept at `path`; where nothing is, or the run has no step yet, keep it.

        Raises:
            UsageError: a row or a medium is another; names the first.
        """
        files = [file for source in sources for file in source.files]
        now = {
            f"{kind}/{number}": column
            for number, file in enumerate(files)
            for kind, column in (("rows", file.rows.digests), ("media", self._media_of_rows(file)))
        }
        if not is_begun or not path.exists():
            _keep(path, now)
            return
        try:
            before = load_file(path)
        except (SafetensorError, OSError) as error:
            raise UsageError(
                f"{path}: what the data of this run were cannot be read ({error}); delete that file to go on without "
                "the comparison"
            ) from None
        for number, file in enumerate(files):
            names = f"rows/{number}", f"media/{number}"
            if names[0] not in before or names[1] not in before:
                raise UsageError(f"{path.parent}: the run began with fewer data files than now. {REMEDY}")
            _compare(file, [before[name] for name in names], [now[name] for name in names], run=path.parent)

    def check_medium(self, plan: MediaPlan) -> None:
        """Make sure that a file is the one that was looked at.

        Raises:
            RunError: another one lies in its place.
        """
        content = self._content.get(plan.media, plan.content)
        if plan.content != content and _print(plan.media, content=plan.content) != self._prints[plan.media]:
            raise RunError(
                f"{plan.media.name}: this file was replaced while the run goes on. Put the old one back, then run the "
                "same command again; or start a new run (another `out`) with the new one"
            )

    def _media_of_rows(self, file: CheckedFile) -> np.ndarray:
        """uint64 [N], of the content of each row's media; 0 where it has none or they cannot be read."""
        column = np.zeros(len(file.rows), np.uint64)
        for place, media in file.columns.media.items():
            prints = [self._prints.get(medium, "") for medium in media]
            column[place] = xxhash.xxh3_64_intdigest(json.dumps(prints).encode()) if any(prints) else 0
        return column


def _print(media: Media, *, content: str) -> str:
    """Something that changes with the content of a medium, and not where a file is copied or touched.

    Args:
        content: its digest by `video.source.identity`, which counts the change time of large files.
    """
    try:
        source = locate(media)
        if isinstance(source, tuple) or source.num_bytes <= WHOLE_HASH_BYTES:
            return content
        digest = xxhash.xxh3_64(str(source.num_bytes).encode())
        with source.open() as file:
            for block in range(NUM_BLOCKS):
                file.seek((source.num_bytes - BLOCK_BYTES) * block // (NUM_BLOCKS - 1))
                digest.update(file.read(BLOCK_BYTES))
        return digest.hexdigest()
    except (DataError, OSError):
        return content


def _keep(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    part = path.with_name(path.name + ".part")
    save_file({name: np.ascontiguousarray(column) for name, column in columns.items()}, part)
    os.replace(part, path)


def _compare(file: CheckedFile, before: Sequence[np.ndarray], now: Sequence[np.ndarray], *, run: Path) -> None:
    """Raise where the rows of a file are others than they were; each side is (rows, media of rows)."""
    name = file.source.path
    count = min(len(before[0]), len(now[0]))
    rows = np.flatnonzero(before[0][:count] != now[0][:count])
    if len(rows):
        raise UsageError(
            f"{run}: {file.rows.where(int(rows[0]))} is another row than when this run began, and so are "
            f"{len(rows) - 1} more of {name}. {REMEDY}"
        )
    if len(before[0]) != len(now[0]):
        raise UsageError(
            f"{run}: {name} had {len(before[0])} rows when this run began, and has {len(now[0])}. {REMEDY}"
        )
    media = np.flatnonzero(before[1] != now[1])
    if len(media):
        place = int(media[0])
        names = ", ".join(medium.name for medium in file.columns.media.get(place, ()))
        raise UsageError(
            f"{run}: {file.rows.where(place)}: the content of its media ({names}) is another than when this run began, "
            f"and so is that of {len(media) - 1} more rows of {name}. {REMEDY}"
        )
