"""Stored clips that hold the frames of another plan, so that a coarser setting needs no decoding.

Every entry says in its header what its frames are: of which origin (see video.keys), which frame numbers, under which
setting. CACHE/origins lists the entries of each origin by empty files; what is lost there costs a decode, nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from easyvideor1.types import Clip, MediaPlan
from easyvideor1.video.clip_file import UNREADABLE, DamagedClip, read_metadata
from easyvideor1.video.codecs import Codec

FOLDER = "origins"
HEADER_NAME = "made_of"


@dataclass(frozen=True, kw_only=True)
class MadeOf:
    """What the frames of an entry are."""

    origin: str
    setting: str
    frame_numbers: tuple[int, ...]
    is_plain: bool
    """Every frame came out of the decoder as planned: no other stands in for it, and nothing was worth a warning."""

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def made_of(plan: MediaPlan, clip: Clip) -> MadeOf | None:
    """What to write into an entry; None where the plan tells no origin."""
    if not plan.origin:
        return None
    return MadeOf(
        origin=plan.origin,
        setting=plan.setting,
        frame_numbers=plan.frame_numbers,
        is_plain=clip.warnings == plan.warnings and clip.backend == plan.spec.backend,
    )


def read_made_of(path: Path) -> MadeOf | None:
    """What an entry says of its frames; None where it says nothing, as those of older versions, or cannot be read."""
    try:
        metadata = read_metadata(path)
        if HEADER_NAME not in metadata:
            return None
        values = json.loads(metadata[HEADER_NAME])
        return MadeOf(**values | {"frame_numbers": tuple(map(int, values["frame_numbers"]))})
    except (DamagedClip, OSError, *UNREADABLE):
        return None


@dataclass(frozen=True)
class Origins:
    """The entries of each origin, in a cache folder; safe to use from many processes."""

    dir: Path

    def note(self, made: MadeOf, key: str) -> None:
        """List an entry."""
        path = self._folder(made.origin) / f"{made.origin}.{key}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def keys(self, origin: str) -> list[str]:
        """The keys of the entries of an origin, those that are gone included."""
        try:
            names = sorted(os.listdir(self._folder(origin)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [name.partition(".")[2] for name in names if name.startswith(f"{origin}.")]

    def remove_gone(self, keys: set[str]) -> int:
        """Take off the list what is not among these keys; returns how many."""
        gone = [path for path in (self.dir / FOLDER).glob("??/*.*") if path.name.partition(".")[2] not in keys]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone)

    def _folder(self, origin: str) -> Path:
        return self.dir / FOLDER / origin[:2]


def derived(plan: MediaPlan, codec: Codec, paths: Iterator[Path]) -> Clip | None:
    """The clip of a plan out of a stored one, byte for byte as the decoder would make it; None where none holds it.

    Args:
        codec: how the entries are packed; out of a lossy one nothing is derived, as decoding would give other frames.
        paths: entries of the plan's origin.
    """
    if not codec.is_lossless:
        return None
    for path in paths:
        made = read_made_of(path)
        if made is None or made.origin != plan.origin or not made.is_plain:
            continue
        place_of = {number: place for place, number in enumerate(made.frame_numbers)}
        places = [place_of.get(number, -1) for number in plan.frame_numbers]
        if -1 in places:
            continue
        try:
            stored = codec.read(path)
        except (DamagedClip, FileNotFoundError):
            continue
        if tuple(stored.times_s[place] for place in places) != plan.times_s:
            continue
        frames = np.ascontiguousarray(stored.frames[places])
        if not frames.any():  # the decoder warns of a clip that is all black
            continue
        return Clip(
            frames=frames,
            times_s=plan.times_s,
            source_fps=plan.source_fps,
            duration_s=plan.duration_s,
            backend=plan.spec.backend,
            warnings=plan.warnings,
        )
    return None
