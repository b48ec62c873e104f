"""Facts about video files, remembered on disk beside a frame cache.

The frames of some containers (WebM, Matroska, transport streams, fragments) are only known after reading
the whole file. That is done once for a file: its header, its packets and the digest of its content are kept in
`CACHE/files`, in two steps:

* PLACE.place: the digest of the content of the file that lies at a path with this device, inode, size and times of
  change. A file that was touched is read again.
* CONTENT.RULE.header and .packets: what a file of this content holds, whatever its name, found by this version of the
  rules and of FFmpeg.

All of it can be removed at any time. What is damaged or makes no sense is found out anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import xxhash

from easyvideor1.config_data import CacheConfig
from easyvideor1.types import FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.clip_file import UNREADABLE, DamagedClip, read_tensors, replaced_file, write_tensors
from easyvideor1.video.container import LIBRARY, Orientation
from easyvideor1.video.container_notes import Crop
from easyvideor1.video.packets import Packets, scan
from easyvideor1.video.probe import Hdr, Header, header_of
from easyvideor1.video.source import Source, identity
from easyvideor1.video.taken_over import FOLDER as TAKEN_OVER
from easyvideor1.video.taken_over import TakenOver

log = logging.getLogger(__name__)

RULE = f"v2-{LIBRARY}"
"""Part of the names of what is remembered; count it up when some file's header or packets are read otherwise."""
FOLDER = "files"
NUM_DIGITS = 64
"""Hex digits of a digest."""
MOST_FRAMES = 1 << 24
MOST_PLACE_BYTES = 4096
YOUNG_S, YOUNG_WHERE_COARSE_S = 0.02, 2.5
"""A file changed this lately may change again without a change of its times: by the clock of the kernel, by that of a
file system that counts whole seconds."""


class Files:
    """Answers questions about files by looking into them."""

    def identity(self, source: Source) -> str:
        """Digest of its content."""
        return identity(source)

    def header(self, source: Source) -> Header:
        """What it says about itself as a video; errors as of `probe.header_of`."""
        return header_of(source)

    def packets(self, source: Source) -> Packets:
        """The packets of its video stream; errors as of `packets.scan`."""
        return scan(source)

    def stand_in(self, media: Media, spec: FrameSpec, vision: VisionSpec) -> MediaPlan | None:
        """The plan of a medium whose file is missing, where its frames were taken over; errors as of
        `TakenOver.plan`."""
        return None


FRESH = Files()


@dataclass(frozen=True)
class KnownFiles(Files):
    """Answers from disk where the question was asked before; safe to use from many processes, and picklable."""

    dir: Path
    """Folder of what is remembered; made at the first write."""

    def identity(self, source: Source) -> str:
        if source.path is None:
            return identity(source)
        path = self._path(_place(source), "place")
        known = _read_place(path)
        if known is None:
            known = identity(source)
            if _is_settled(source):
                self._keep(source, path, lambda path: _write_place(path, known))
        return known

    def header(self, source: Source) -> Header:
        if source.path is None:
            return header_of(source)
        content = self.identity(source)
        path = self._path(content, f"{RULE}.header")
        header = _read_header(path)
        if header is None:
            header = header_of(source)
            self._keep(source, path, lambda path: _write_header(path, header))
            if header.is_from_packets:
                self.packets(source)  # it was read just now, and remembered in this process
        return header

    def packets(self, source: Source) -> Packets:
        if source.path is None:
            return scan(source)
        path = self._path(self.identity(source), f"{RULE}.packets")
        packets = _read_packets(path)
        if packets is None:
            packets = scan(source)
            self._keep(source, path, lambda path: _write_packets(path, packets))
        return packets

    def stand_in(self, media: Media, spec: FrameSpec, vision: VisionSpec) -> MediaPlan | None:
        return TakenOver(self.dir.parent / TAKEN_OVER).plan(media, spec, vision)

    def _path(self, digest: str, kind: str) -> Path:
        return self.dir / digest[:2] / f"{digest}.{kind}"

    def _keep(self, source: Source, path: Path, write: Callable[[Path], None]) -> None:
        """Write an answer about a file; where that cannot be done, the question is only asked again."""
        if not source.is_unchanged:
            return  # the answer may be about the file that took its place
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        except OSError as error:
            log.info("%s: what is known of files cannot be kept: %s", self.dir, error.strerror)


def known_files(cache: CacheConfig) -> Files:
    """The known files of a cache.

    Every file is fresh in mode realtime_only, which neither reads nor writes the folder, and in mode preprocessed_only
    where there is no folder, which it does not make.
    """
    is_without = cache.mode == "preprocessed_only" and not Path(cache.dir).is_dir()
    return FRESH if is_without or cache.mode == "realtime_only" else KnownFiles(Path(cache.dir) / FOLDER)


def _place(source: Source) -> str:
    assert source.path is not None
    text = f"{os.path.abspath(source.path)}\0{source.place}\0{source.num_bytes}\0{source.mtime_ns}"
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _is_settled(source: Source) -> bool:
    """Whether a later change of the file would show in its times."""
    changed_ns = max(source.place[2], source.mtime_ns)
    young_s = YOUNG_WHERE_COARSE_S if changed_ns % 1_000_000_000 == 0 else YOUNG_S
    return time.time() - changed_ns / 1e9 > young_s


def _read_place(path: Path) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(MOST_PLACE_BYTES)
    except (OSError, ValueError):
        return None
    content = text[:NUM_DIGITS]
    return content if text == _place_text(path, content) else None


def _write_place(path: Path, content: str) -> None:
    with replaced_file(path, is_durable=False) as file:
        file.write(_place_text(path, content).encode())


def _place_text(path: Path, content: str) -> str:
    """A digest, and a checksum over it and the name of the file that it stands in."""
    return f"{content} {xxhash.xxh3_64_hexdigest(f'{path.name} {content}'.encode())}\n"


def _write_header(path: Path, header: Header) -> None:
    text = {
        "width": header.width,
        "height": header.height,
        "duration_s": header.duration_s,
        "source_fps": header.source_fps,
        "crop": [header.crop.left, header.crop.top, header.crop.right, header.crop.bottom],
        "orientation": [header.orientation.is_swapped, header.orientation.flips_x, header.orientation.flips_y],
        "hdr": header.hdr,
        "has_alpha": header.has_alpha,
        "is_from_packets": header.is_from_packets,
        "treatment": header.treatment,
        "warnings": header.warnings,
        "num_frames": len(header.times_s),
    }
    write_tensors(path, {"times_s": _packed(header.times_s)}, {"header": json.dumps(text)}, is_durable=False)


def _read_header(path: Path) -> Header | None:
    try:
        tensors, metadata = read_tensors(path)
        text = json.loads(metadata["header"])
        is_swapped, flips_x, flips_y = text["orientation"]
        left, top, right, bottom = text["crop"]
        header = Header(
            width=int(text["width"]),
            height=int(text["height"]),
            times_s=_unpacked(tensors["times_s"], text["num_frames"], np.float64),
            duration_s=float(text["duration_s"]),
            source_fps=float(text["source_fps"]),
            crop=Crop(int(left), int(top), int(right), int(bottom)),
            orientation=Orientation(bool(is_swapped), bool(flips_x), bool(flips_y)),
            hdr=text["hdr"],
            has_alpha=bool(text["has_alpha"]),
            is_from_packets=bool(text["is_from_packets"]),
            treatment=tuple(str(word) for word in text["treatment"]),
            warnings=tuple(str(note) for note in text["warnings"]),
        )
    except (FileNotFoundError, DamagedClip, zlib.error, *UNREADABLE):
        return None
    return header if _makes_sense(header) else None


def _makes_sense(header: Header) -> bool:
    times_s, last_s = header.times_s, float(header.times_s[-1]) if len(header.times_s) else math.nan
    return (
        min(header.width, header.height) > 0
        and header.hdr in get_args(Hdr)
        and min(header.crop.left, header.crop.top, header.crop.right, header.crop.bottom) >= 0
        and bool(times_s[:1] == 0.0)
        and bool((np.diff(times_s) > 0).all())
        and last_s < header.duration_s < math.inf
        and 0 < header.source_fps < math.inf
    )


FLAGS = ("is_key", "is_second")


def _write_packets(path: Path, packets: Packets) -> None:
    text = {
        "num_packets": len(packets.pts),
        "num_frames": len(packets.shown),
        "has_times": packets.has_times,
        "duration_s": packets.duration_s,
        "lost_s": packets.lost_s,
        "num_damaged": packets.num_damaged,
        "is_cut": packets.is_cut,
        "treatment": packets.treatment,
    }
    tensors = {"pts": _packed(packets.pts), "shown": _packed(packets.shown), "times_s": _packed(packets.times_s)}
    tensors |= {name: _packed(getattr(packets, name).astype(np.int64)) for name in FLAGS}
    write_tensors(path, tensors, {"packets": json.dumps(text)}, is_durable=False)


def _read_packets(path: Path) -> Packets | None:
    try:
        tensors, metadata = read_tensors(path)
        text: Mapping[str, Any] = json.loads(metadata["packets"])
        count, num_frames = text["num_packets"], text["num_frames"]
        flags = {name: _unpacked(tensors[name], count, np.int64) != 0 for name in FLAGS}
        packets = Packets(
            pts=_unpacked(tensors["pts"], count, np.int64),
            is_key=flags["is_key"],
            is_second=flags["is_second"],
            shown=_unpacked(tensors["shown"], num_frames, np.int64),
            has_times=bool(text["has_times"]),
            times_s=_unpacked(tensors["times_s"], num_frames, np.float64),
            duration_s=float(text["duration_s"]),
            lost_s=float(text["lost_s"]),
            treatment=tuple(str(word) for word in text["treatment"]),
            num_damaged=int(text["num_damaged"]),
            is_cut=bool(text["is_cut"]),
        )
    except (FileNotFoundError, DamagedClip, zlib.error, *UNREADABLE):
        return None
    is_inside = num_frames > 0 and packets.shown.min() >= 0 and packets.shown.max() < count
    return packets if is_inside and bool((np.diff(packets.times_s) > 0).all()) else None


def _packed(values: np.ndarray) -> np.ndarray:
    """uint8 [n] of an array of 8-byte values: differences, their bytes by significance, compressed."""
    steps = np.diff(np.append(np.int64(0), values.view(np.int64)))
    return np.frombuffer(zlib.compress(steps.view(np.uint8).reshape(-1, 8).T.tobytes(), 1), np.uint8)


def _unpacked(packed: np.ndarray, count: int, dtype: type) -> np.ndarray:
    """[count] values of 8 bytes; ValueError where that is not what was packed."""
    if not isinstance(count, int) or not 0 <= count <= MOST_FRAMES:
        raise ValueError(f"{count} values")
    content = zlib.decompressobj().decompress(packed.tobytes(), 8 * count + 1)
    if len(content) != 8 * count:
        raise ValueError(f"{len(content)} bytes instead of {8 * count}")
    steps = np.frombuffer(content, np.uint8).reshape(8, count).T.copy().view(np.int64).reshape(count)
    return np.cumsum(steps).view(dtype)
