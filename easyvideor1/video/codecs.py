"""How the frames of a clip file are packed: "raw" is memory-mapped; the others trade CPU time for disk space.

Bytes on disk against float32 frames: raw 0.25, zstd (lossless) about 0.06 to 0.13, jpeg (lossy) about 0.02 to 0.05.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from easyvideor1.errors import UsageError
from easyvideor1.extras import need
from easyvideor1.types import Clip
from easyvideor1.video.clip_file import (
    UNREADABLE,
    DamagedClip,
    clip_metadata,
    clip_of,
    read_clip,
    read_tensors,
    write_clip,
    write_tensors,
)
from easyvideor1.video.stills import PILLOW_ERRORS

ZSTD_LEVEL = 1
"""Compression level; a higher level is slower and hardly smaller on residuals."""
JPEG_QUALITY = 92
"""Without chroma subsampling; the quality is part of the codec's name, and so of an entry's."""


class Codec(Protocol):
    """Writes clips to files and reads them back."""

    name: str
    """Part of an entry's file name; letters and digits."""
    is_lossless: bool

    def write(self, path: Path, clip: Clip, *, extra: Mapping[str, str] | None = None) -> int:
        """Store a clip whole or not at all, with further text in its header; returns bytes on disk."""
        ...

    def read(self, path: Path) -> Clip:
        """The clip of a file, read-only; raises DamagedClip or FileNotFoundError."""
        ...


class Raw:
    """The frames as they are: four times smaller than float32, and reading is mapping."""

    name = "raw"
    is_lossless = True

    def write(self, path: Path, clip: Clip, *, extra: Mapping[str, str] | None = None) -> int:
        return write_clip(path, clip, extra=extra)

    def read(self, path: Path) -> Clip:
        return read_clip(path)


class FramePacker(Protocol):
    """Turns one frame, uint8 [C, H, W], into bytes and back."""

    name: str
    is_lossless: bool

    def pack(self, frame: np.ndarray) -> bytes: ...

    def unpack(self, packed: memoryview, frame: np.ndarray) -> None:
        """Fill `frame`, uint8 [C, H, W], with what was packed; ValueError where that is no frame of this size."""
        ...


class Packed:
    """One packed piece per frame, so that neither way holds more than one frame besides the clip."""

    def __init__(self, packer: FramePacker) -> None:
        self.name, self.is_lossless = packer.name, packer.is_lossless
        self.packer = packer

    def write(self, path: Path, clip: Clip, *, extra: Mapping[str, str] | None = None) -> int:
        pieces = [self.packer.pack(frame) for frame in clip.frames]
        tensors = {
            "times_s": np.asarray(clip.times_s, np.float64),
            "piece_ends": np.cumsum([len(piece) for piece in pieces], dtype=np.int64),
            "pieces": np.frombuffer(b"".join(pieces), np.uint8),
        }
        packing = {"codec": self.name, "shape": json.dumps(clip.frames.shape)}
        return write_tensors(path, tensors, clip_metadata(clip) | packing | dict(extra or {}))

    def read(self, path: Path) -> Clip:
        tensors, metadata = read_tensors(path)
        if metadata.get("codec") != self.name:
            raise DamagedClip(f"its codec is {metadata.get('codec')}, not {self.name}", where=str(path))
        try:
            ends = tensors["piece_ends"].tolist()
            pieces = tensors["pieces"].data
            count, *frame_shape = json.loads(metadata["shape"])
            if count != len(ends):
                raise ValueError(f"{count} frames in {len(ends)} pieces")
            frames = np.empty((count, *frame_shape), np.uint8)
            for index, (start, end) in enumerate(itertools.pairwise([0, *ends])):
                self.packer.unpack(pieces[start:end], frames[index])
        except UNREADABLE as error:
            raise DamagedClip(f"its frames cannot be unpacked: {error}", where=str(path)) from None
        frames.flags.writeable = False
        return clip_of(frames, metadata, where=str(path))


class Zstd:
    """Lossless: green taken off red and blue, differences to the left and above, then Zstandard."""

    name = f"zstd{ZSTD_LEVEL}"
    is_lossless = True

    def pack(self, frame: np.ndarray) -> bytes:
        # All differences are modulo 256, so that bytes stay bytes and the inverse is exact.
        residual = frame.copy()
        residual[0] -= frame[1]
        residual[2] -= frame[1]
        residual[:, :, 1:] -= residual[:, :, :-1].copy()
        residual[:, 1:] -= residual[:, :-1].copy()
        return _zstandard().ZstdCompressor(level=ZSTD_LEVEL).compress(residual.data)

    def unpack(self, packed: memoryview, frame: np.ndarray) -> None:
        from easyvideor1.video.residuals import undo_differences  # compiled; only this codec pays for it

        library = _zstandard()
        try:
            size = library.frame_content_size(packed)
            if size != frame.nbytes:  # it would be taken at its word
                raise ValueError(f"a piece of {size} bytes instead of {frame.nbytes}")
            raw = library.ZstdDecompressor().decompress(packed, max_output_size=frame.nbytes)
        except library.ZstdError as error:
            raise ValueError(str(error)) from None
        undo_differences(np.frombuffer(raw, np.uint8).reshape(frame.shape), frame)


class Jpeg:
    """Lossy: on real clips the mean error is 1 to 2 of 255 grey levels, the largest about 30."""

    name = f"jpeg{JPEG_QUALITY}"
    is_lossless = False

    def pack(self, frame: np.ndarray) -> bytes:
        buffer = io.BytesIO()
        picture = Image.fromarray(np.ascontiguousarray(frame.transpose(1, 2, 0)))
        picture.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        return buffer.getvalue()

    def unpack(self, packed: memoryview, frame: np.ndarray) -> None:
        try:
            with Image.open(io.BytesIO(packed)) as picture:
                if picture.size != frame.shape[:0:-1]:
                    raise ValueError(f"a picture of {picture.size} instead of {frame.shape[:0:-1]}")
                frame[:] = np.asarray(picture).transpose(2, 0, 1)
        except PILLOW_ERRORS as error:
            raise ValueError(str(error)) from None


def codec_named(name: str) -> Codec:
    """The codec "raw", "zstd" or "jpeg"; raises UsageError for another name or a missing package."""
    if name not in CODECS:
        raise UsageError(f"cache codec '{name}' is unknown; known: {', '.join(CODECS)}")
    if name == "zstd":
        _zstandard()
    return CODECS[name]


def codec_of_file(path: Path) -> Codec:
    """The codec an entry was written with, read off its name KEY.CODEC.vN.safetensors."""
    stored = path.name.split(".")[1]
    for codec in CODECS.values():
        if codec.name == stored:
            return codec
    raise UsageError(f"{path}: codec '{stored}' is not one of this version's: {_names(list(CODECS.values()))}")


def _names(codecs: Sequence[Codec]) -> str:
    return ", ".join(codec.name for codec in codecs)


def _zstandard():
    need("zstandard", for_what="cache.codec=zstd")
    import zstandard

    return zstandard


CODECS: dict[str, Codec] = {"raw": Raw(), "zstd": Packed(Zstd()), "jpeg": Packed(Jpeg())}
"""Name in the configuration -> codec."""
