"""Results of checks, remembered by content, so that the next start of a run need not check again.

A row is known by the hash of its bytes, a medium by its files' sizes and change times; everything else that decides is
in the name of the file (see `settings_digest`). A file that is damaged or foreign is as good as none.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from easyvideor1.data import row_check
from easyvideor1.data.media_check import MediumFacts
from easyvideor1.data.row_check import Columns, Fault
from easyvideor1.errors import DataError
from easyvideor1.types import Media
from easyvideor1.video.source import locate

log = logging.getLogger(__name__)

FORMAT = 1
HEAD = f"easyvideor1 checked rows, format {FORMAT}, checksum "
KEPT_FILES = 32
"""Most files in a folder; beyond that the oldest are removed."""
PACKAGE = Path(__file__).parents[1]
DECIDING = ("data", "rewards", "video", "problem_types.py", "types.py")
"""Code whose change may change what a check finds."""

Identity = list[list[int]]


@dataclass(kw_only=True)
class Remembered:
    """The rows of a file and their media, as they were when they were last checked."""

    digests: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    """uint64 [N], of the bytes of each row."""
    columns: Columns = field(default_factory=Columns)
    tokens: list[int] = field(default_factory=list)
    """[N] of each prompt; -1 where it is known to fit but was not counted."""
    too_long: dict[int, Fault] = field(default_factory=dict)
    media: dict[Media, tuple[Identity | None, MediumFacts | None]] = field(default_factory=dict)
    """What is known about every medium of the rows; None where a medium could not be examined."""

    def places(self, digests: np.ndarray) -> list[int]:
        """Where each of the given rows stands here; -1 for one that does not."""
        if np.array_equal(digests, self.digests):
            return list(range(len(digests)))
        known = {digest: place for place, digest in enumerate(self.digests.tolist())}
        return [known.get(digest, -1) for digest in digests.tolist()]


class Memory:
    """The remembered results in a folder under some settings.

    Args:
        settings: digest of all that decides beside rows and media.
    """

    def __init__(self, folder: Path, settings: str) -> None:
        self._folder, self._settings = folder, settings

    def recall(self, data: Path) -> Remembered:
        """The remembered results for the rows of a data file; nothing where there is no intact memory of it."""
        try:
            head, body = self._path(data).read_bytes().split(b"\n", 1)
            if head.decode() == HEAD + xxhash.xxh3_128_hexdigest(body):
                return _from_tree(json.loads(body))
        except FileNotFoundError:
            return Remembered()
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            log.info("what was known of %s cannot be used (%s); it is checked again", data, error)
            return Remembered()
        log.info("what was known of %s is damaged; it is checked again", data)
        return Remembered()

    def keep(self, data: Path, found: Remembered) -> None:
        """Remember, in one step; where nothing can be written, that is logged and the next check starts anew."""
        body = json.dumps(_as_tree(found), separators=(",", ":")).encode()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Not a file of `tempfile`, which nobody else who shares the folder could read.
            draft = self._path(data).with_suffix(f".{os.getpid()}.part")
            draft.write_bytes((HEAD + xxhash.xxh3_128_hexdigest(body) + "\n").encode() + body)
            os.replace(draft, self._path(data))
            self._forget_oldest()
        except OSError as error:
            log.info("%s: what the check found cannot be kept there: %s", self._folder, error.strerror)

    def _path(self, data: Path) -> Path:
        return self._folder / f"{xxhash.xxh3_128_hexdigest(f'{self._settings} {data.resolve()}'.encode())}.json"

    def _forget_oldest(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # another run may do the same
            files = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in files[KEPT_FILES:]:
                path.unlink()


def settings_digest(settings: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Digest of settings, of the content of files (templates, a tokenizer) and of this package's code."""
    digest = xxhash.xxh3_128(json.dumps(settings, sort_keys=True).encode())
    for path in files:
        digest.update(f"\n{path.name}\n".encode())
        with contextlib.suppress(FileNotFoundError):
            digest.update(path.read_bytes())
    digest.update(_code())
    return digest.hexdigest()


@functools.cache
def _code() -> bytes:
    """Digest of the code that decides what a check finds."""
    digest = xxhash.xxh3_128()
    for name in DECIDING:
        place = PACKAGE / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            # What Python and numba keep beside the code comes and goes with its use.
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.read_bytes())
    return digest.digest()


def identity(media: Media) -> Identity | None:
    """Size and change time of the files of a medium; None where they cannot be looked at."""
    try:
        located = locate(media)
    except DataError:
        return None
    return [[source.num_bytes, source.mtime_ns] for source in (located if isinstance(located, tuple) else (located,))]


def _as_tree(found: Remembered) -> dict[str, Any]:
    numbers = {media: number for number, media in enumerate(found.media)}
    return {
        "digests": found.digests.tobytes().hex(),
        "columns": row_check.as_tree(found.columns),
        "tokens": found.tokens,
        "too_long": {place: list(asdict(fault).values()) for place, fault in found.too_long.items()},
        "media": [
            [list(asdict(media).values()), known, None if facts is None else asdict(facts)]
            for media, (known, facts) in found.media.items()
        ],
        "media_of_rows": {place: [numbers[medium] for medium in media] for place, media in found.columns.media.items()},
    }


def _from_tree(tree: Mapping[str, Any]) -> Remembered:
    media = [(_media(values), known, _facts(facts)) for values, known, facts in tree["media"]]
    columns = row_check.from_tree(tree["columns"])
    columns.media = {
        int(place): tuple(media[number][0] for number in numbers) for place, numbers in tree["media_of_rows"].items()
    }
    digests = np.frombuffer(bytes.fromhex(tree["digests"]), np.uint64)
    if not len(digests) == len(columns) == len(tree["tokens"]):
        raise ValueError("columns of different lengths")
    return Remembered(
        digests=digests,
        columns=columns,
        tokens=tree["tokens"],
        too_long={int(place): Fault(*values) for place, values in tree["too_long"].items()},
        media={medium: (known, facts) for medium, known, facts in media},
    )


def _media(values: Sequence[Any]) -> Media:
    kind, path, data, start_s, end_s, fps, times_s, budget = values
    return Media(
        kind=kind,
        path=tuple(path) if isinstance(path, list) else path,
        data=data,
        start_s=start_s,
        end_s=end_s,
        fps=fps,
        times_s=None if times_s is None else tuple(times_s),
        budget=tuple((name, value) for name, value in budget),
    )


def _facts(values: Mapping[str, Any] | None) -> MediumFacts | None:
    if values is None:
        return None
    return MediumFacts(
        **{**values, "patch_digits": tuple(values["patch_digits"]), "warnings": tuple(values["warnings"])}
    )
