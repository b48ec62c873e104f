"""One clip in one safetensors file: frames, times and a checksum over everything, readable as a memory map.

Layout: 8 bytes header length, JSON header, then the tensors `times_s` (float64 [T]) and `frames` (uint8 [T, C, H, W]);
any safetensors reader opens it. The header's metadata repeats the times and says how the clip was made.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import secrets
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash

from easyvideor1.disk import sync
from easyvideor1.errors import MediaError, MismatchError
from easyvideor1.types import Clip

FORMAT = 1
"""Version of this layout; a file of another version is not read."""
MAX_HEADER_BYTES = 16 << 20
DATA_ALIGN_BYTES = 64
TEMP_SUFFIX = ".tmp"
UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, MemoryError)
"""What reading a header raises that is not what it should be."""
SHOWN_CHARS = 200
DTYPES = {"U8": np.uint8, "I64": np.int64, "F64": np.float64}


class DamagedClip(MediaError):
    """A clip file is cut, changed, of another format, or cannot be read at all."""


def write_clip(path: Path, clip: Clip, *, extra: Mapping[str, str] | None = None) -> int:
    """Write a clip whole or not at all; returns the file's size in bytes.

    Args:
        path: the file; its folder exists.
        clip: frames uint8 [T, 3, H, W] with T times.
        extra: further metadata for the header.

    Raises:
        MismatchError: frames of another type or shape, or another number of times.
        OSError: the file cannot be written; nothing is left behind.
    """
    frames = clip.frames
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[1] != 3:
        raise MismatchError(f"a clip is uint8 [T, 3, H, W], got {frames.dtype} {list(frames.shape)}", where=str(path))
    if len(frames) != len(clip.times_s):
        raise MismatchError(f"{len(frames)} frames but {len(clip.times_s)} times", where=str(path))
    metadata = clip_metadata(clip) | dict(extra or {})
    tensors = {"times_s": np.asarray(clip.times_s, np.float64), "frames": np.ascontiguousarray(frames)}
    return write_tensors(path, tensors, metadata)


def read_clip(path: Path) -> Clip:
    """Map a clip file: the frames are a read-only view of the file, verified against its checksum.

    Raises:
        DamagedClip: cut, changed or foreign file, named with what is wrong.
        FileNotFoundError: there is no such file.
    """
    tensors, metadata = read_tensors(path)
    if "frames" not in tensors:
        raise DamagedClip(f"it has no 'frames', only {sorted(tensors)}", where=str(path))
    return clip_of(tensors["frames"], metadata, where=str(path))


def clip_metadata(clip: Clip) -> dict[str, str]:
    """The facts about a clip besides its frames, as header text."""
    return {
        "times_s": json.dumps(clip.times_s),
        "source_fps": json.dumps(clip.source_fps),
        "duration_s": json.dumps(clip.duration_s),
        "backend": clip.backend,
        "warnings": json.dumps(clip.warnings),
    }


def clip_of(frames: np.ndarray, metadata: Mapping[str, str], *, where: str) -> Clip:
    """Put frames and header text together again.

    Raises:
        DamagedClip: the text is not that of a clip.
    """
    try:
        clip = Clip(
            frames=frames,
            times_s=tuple(float(time_s) for time_s in json.loads(metadata["times_s"])),
            source_fps=float(json.loads(metadata["source_fps"])),
            duration_s=float(json.loads(metadata["duration_s"])),
            backend=metadata["backend"],
            warnings=tuple(str(text) for text in json.loads(metadata["warnings"])),
        )
    except UNREADABLE as error:
        raise DamagedClip(f"its header is not that of a clip: {_told(error)}", where=where) from None
    if frames.dtype != np.uint8 or frames.ndim != 4 or len(clip.times_s) != len(frames):
        shape = f"{frames.dtype} {list(frames.shape)}"
        raise DamagedClip(f"it holds {shape} and {len(clip.times_s)} times, not frames", where=where)
    return clip


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str], *, is_durable: bool = True
) -> int:
    """Write named arrays and text as safetensors, atomically; gives the size in bytes.

    Args:
        is_durable: it is on disk when the call returns; otherwise a power failure may leave a damaged file.
    """
    stored = dict(metadata) | {"format": str(FORMAT)}
    entries: dict[str, Any] = {"__metadata__": stored | {"checksum": checksum(tensors, stored)}}
    names = {dtype: name for name, dtype in DTYPES.items()}
    end = 0
    for name, array in tensors.items():
        begin, end = end, end + array.nbytes
        entries[name] = {"dtype": names[array.dtype.type], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % DATA_ALIGN_BYTES)
    with replaced_file(path, is_durable=is_durable) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.data.cast("B") if array.nbytes else b"")
    return 8 + len(text) + end


def read_tensors(path: Path, *, verify: bool = True) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Map the arrays of a file and read its text.

    Args:
        path: a file of `write_tensors`.
        verify: compare all bytes with the checksum (about 10 ms per 100 MB from memory); otherwise only the header
            and the size are looked at.

    Raises:
        DamagedClip: see `read_clip`.
        FileNotFoundError: there is no such file.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise DamagedClip(f"only {size} bytes", where=str(path))
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise
    except OSError as error:  # a folder, a link to itself, somebody else's file, a disk that fails
        raise DamagedClip(f"it cannot be read: {error.strerror}", where=str(path)) from None
    try:
        tensors, metadata, end = _arrays(mapped)
    except UNREADABLE as error:
        raise DamagedClip(f"not a clip file, or cut: {_told(error)}", where=str(path)) from None
    if end != size:
        raise DamagedClip(f"{size} bytes instead of {end}", where=str(path))
    if verify:
        stored = {key: value for key, value in metadata.items() if key != "checksum"}
        if checksum(tensors, stored) != metadata.get("checksum"):
            raise DamagedClip("its bytes do not match its checksum", where=str(path))
    return tensors, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The text of a file's header; its arrays are not looked at.

    Raises:
        DamagedClip: it is no header.
        FileNotFoundError: there is no such file.
    """
    with path.open("rb") as file:
        head = file.read(8)
        try:
            (length,) = struct.unpack("<Q", head)
            if length > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            found = json.loads(file.read(length))["__metadata__"]
            return {str(key): str(text) for key, text in found.items()}
        except (struct.error, *UNREADABLE) as error:
            raise DamagedClip(f"not a clip file, or cut: {_told(error)}", where=str(path)) from None


def _arrays(mapped: mmap.mmap) -> tuple[dict[str, np.ndarray], dict[str, str], int]:
    """The arrays and the text of a file, and where it ought to end; ValueError and its kin where it makes no sense."""
    (length,) = struct.unpack("<Q", mapped[:8])
    if length > min(MAX_HEADER_BYTES, len(mapped) - 8):
        raise ValueError(f"a header of {length} bytes in a file of {len(mapped)}")
    entries = json.loads(mapped[8 : 8 + length])
    metadata = {str(key): str(text) for key, text in entries.pop("__metadata__").items()}
    if metadata["format"] != str(FORMAT):
        raise ValueError(f"format {metadata['format']}, this version reads {FORMAT}")
    tensors, end = {}, 0
    for name, entry in entries.items():
        begin, stop = entry["data_offsets"]
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), entry["shape"]
        if stop - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"'{name}' {shape} does not fit its place [{begin}, {stop}]")
        tensors[name] = np.frombuffer(mapped, dtype, math.prod(shape), 8 + length + begin).reshape(shape)
        end = stop
    return tensors, metadata, 8 + length + end


def _told(error: Exception) -> str:
    return str(error)[:SHOWN_CHARS]


def checksum(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """XXH3-128 over the text and every array, so that no part of a file can change unseen."""
    digest = xxhash.xxh3_128(json.dumps(metadata, sort_keys=True).encode())
    for name, array in tensors.items():
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        if array.nbytes:
            digest.update(array.data.cast("B"))
    return digest.hexdigest()


@contextlib.contextmanager
def replaced_file(path: Path, *, is_durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` at the end of the block, or vanishes if the block fails."""
    owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{path.name}.{owner}{TEMP_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # an interrupt too must not leave a half-written file
        temporary.unlink(missing_ok=True)
        raise
    if is_durable:
        sync(path.parent)
