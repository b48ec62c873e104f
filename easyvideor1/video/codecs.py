"""How the frames of a clip file are packed: "raw" is memory-mapped; the others trade CPU time for disk space."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from easyvideor1.errors import UsageError
from easyvideor1.types import Clip
from easyvideor1.video.clip_file import read_clip, write_clip


class Codec(Protocol):
    """Writes clips to files and reads them back."""

    name: str

    def write(self, path: Path, clip: Clip) -> int:
        """Store a clip whole or not at all; returns bytes on disk."""
        ...

    def read(self, path: Path) -> Clip:
        """The clip of a file; raises DamagedClip or FileNotFoundError."""
        ...


class Raw:
    """The frames as they are: four times smaller than float32, and reading is mapping."""

    name = "raw"

    def write(self, path: Path, clip: Clip) -> int:
        return write_clip(path, clip)

    def read(self, path: Path) -> Clip:
        return read_clip(path)


CODECS: dict[str, Codec] = {codec.name: codec for codec in (Raw(),)}


def codec_named(name: str) -> Codec:
    """The codec of a name; raises UsageError listing the known ones."""
    if name not in CODECS:
        raise UsageError(f"cache codec '{name}' is unknown; known: {', '.join(CODECS)}")
    return CODECS[name]
