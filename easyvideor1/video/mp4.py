"""The tables of an MP4 file: when each frame is shown, which way up, and up to where the file must reach.

Reading them costs a hundredth of reading the packets. Only plain files are understood: those with fragments, edits that
cut or frames that lean on what comes before the first key frame give None, and the packets have to be looked at.
Boxes by ISO/IEC 14496-12 (MOV is the same where it matters).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from easyvideor1.video.stray_times import stray_places

CONTAINERS = frozenset({b"trak", b"mdia", b"minf", b"stbl", b"edts"})
MOST_INDEX_BYTES = 256 << 20
"""Largest `moov` box that is read."""
MOST_TOP_BOXES = 1 << 20
"""Most boxes of a file that are looked at; a day in fragments of a second has a sixth of this."""
Body = memoryview | bytes
"""The content of a box; not copied, so that boxes in boxes cost nothing."""
IDENTITY_MATRIX = (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameTable:
    """The frames of a track in display order; N of them."""

    pts: np.ndarray
    """int64 [N], rising, in units of the track's clock."""
    last_duration: int
    """Duration of the frame shown last, in units of the track's clock."""
    end_bytes: int
    """The file must be at least this long to hold them all."""


class Index:
    """The `moov` box of a file."""

    def __init__(self, movie: dict[bytes, Body], tracks: list[dict[bytes, Body]], *, num_bytes: int) -> None:
        self.movie, self.tracks, self._num_bytes = movie, tracks, num_bytes
        """The leaves of the movie and of each track by kind."""

    @property
    def is_turned(self) -> bool:
        """Whether the movie, or any track, asks to be shown other than as it is stored."""
        matrices = [_matrix(self.movie.get(b"mvhd", b""), at=36)]
        matrices += [_matrix(track.get(b"tkhd", b""), at=40) for track in self.tracks]
        return any(matrix not in (None, IDENTITY_MATRIX) for matrix in matrices)

    def sample_boxes(self, track_id: int) -> dict[bytes, Body]:
        """The boxes in the (first) description of a video track's frames."""
        entry = self._track(track_id).get(b"stsd", b"")[8:]
        # 8 bytes of head, 78 of fixed fields
        return dict(boxes(entry[86 : int.from_bytes(entry[:4], "big")]))

    def speeds(self, track_id: int) -> set[float]:
        """The speeds at which the edit list plays a track; 0 holds a frame."""
        table = self._track(track_id).get(b"elst", b"")
        count = int.from_bytes(table[4:8], "big")
        form = struct.Struct(">QqhH" if table[:1] == b"\1" else ">IihH")
        rows = [form.unpack_from(table, at) for at in range(8, len(table) - form.size + 1, form.size)]
        return {whole + part / (1 << 16) for _, media_time, whole, part in rows[:count] if media_time >= 0}

    def frames(self, track_id: int) -> FrameTable | None:
        """The frames of a track; None where its tables do not tell the whole story."""
        if b"mvex" in self.movie:
            return None
        track = self._track(track_id)
        try:
            return self._frames(track) if track else None
        except (ValueError, LookupError, struct.error):
            return None  # tables that are cut or contradict each other

    def _track(self, track_id: int) -> dict[bytes, Body]:
        """The leaves of a track; none where there is no such track, or more than one."""
        tracks = [track for track in self.tracks if _track_id(track) == track_id]
        return tracks[0] if len(tracks) == 1 else {}

    def _frames(self, track: dict[bytes, Body]) -> FrameTable | None:
        sizes = _sizes(track[b"stsz"], self._num_bytes)
        times = _runs(track[b"stts"])
        count = len(sizes)
        is_plain = count > 0 and int(times[:, 0].sum()) == count and (times[:, 1] >= 0).all()
        if not is_plain:
            return None
        durations = np.repeat(times[:, 1], times[:, 0])
        pts = np.cumsum(durations) - durations
        if b"ctts" in track:
            offsets = _runs(track[b"ctts"])
            if int(offsets[:, 0].sum()) != count:
                return None
            pts += np.repeat(offsets[:, 1], offsets[:, 0])
        if stray_places(pts, 1 / _clock(track[b"mdhd"])):
            return None
        order = np.argsort(pts, kind="stable")
        shown = pts[order]
        starts_clean = order[0] == 0 and (b"stss" not in track or _numbers(track[b"stss"], ">u4")[0] == 1)
        last_duration = int(durations[order[-1]])
        is_whole = starts_clean and last_duration > 0 and (np.diff(shown) > 0).all() and self._shows_all(track, shown)
        if not is_whole:
            return None
        return FrameTable(pts=shown, last_duration=last_duration, end_bytes=_end_bytes(track, sizes))

    def _shows_all(self, track: dict[bytes, Body], shown: np.ndarray) -> bool:
        """Whether the edit list, if there is one, plays the track from its first frame beyond its last."""
        if b"elst" not in track:
            return True
        edits = track[b"elst"]
        count = struct.unpack_from(">I", edits, 4)[0]
        duration, media_time, rate = struct.unpack_from(">QqI" if edits[0] else ">IiI", edits, 8)
        seconds = duration / _clock(self.movie[b"mvhd"])
        end = media_time + round(seconds * _clock(track[b"mdhd"]))
        return count == 1 and rate == 1 << 16 and media_time == shown[0] and (duration == 0 or end > shown[-1])


def read_index(file: BinaryIO, num_bytes: int) -> Index | None:
    """The index of an MP4 file; None where it has none, or one too large to be true."""
    for kind, start, end in top_boxes(file, num_bytes):
        if kind == b"moov":
            if end - start > MOST_INDEX_BYTES:
                return None
            file.seek(start)
            content = _plain(memoryview(file.read(end - start)))
            movie = {kind: body for kind, body in boxes(content) if kind not in CONTAINERS}
            tracks = [flat(body) for kind, body in boxes(content) if kind == b"trak"]
            return Index(movie, tracks, num_bytes=num_bytes)
    return None


def _plain(movie: Body) -> Body:
    """The content of a movie box, also where it is compressed (QuickTime File Format, "Compressed Movie Resources")."""
    body = dict(boxes(dict(boxes(movie)).get(b"cmov", b""))).get(b"cmvd", b"")
    if len(body) <= 4:
        return movie
    try:
        content = zlib.decompressobj().decompress(body[4:], MOST_INDEX_BYTES)
    except zlib.error:
        return b""
    return dict(boxes(content)).get(b"moov", b"")


def top_boxes(file: BinaryIO, num_bytes: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start of the content, end) of the boxes of a file."""
    start = 0
    for _ in range(MOST_TOP_BOXES):
        if start + 8 > num_bytes:
            return
        file.seek(start)
        head = file.read(16)
        if len(head) < 8:
            return  # it has become shorter since it was measured
        size, kind = struct.unpack_from(">I4s", head)
        body = start + 8
        if size == 1 and len(head) == 16:
            size, body = int.from_bytes(head[8:], "big"), start + 16
        end = num_bytes if size == 0 else start + size
        if end < body:
            return
        yield kind, body, min(end, num_bytes)
        start = end


def boxes(content: Body) -> Iterator[tuple[bytes, Body]]:
    """(kind, content) of the boxes in a box."""
    start = 0
    while start + 8 <= len(content):
        size, kind = struct.unpack_from(">I4s", content, start)
        if size < 8:
            return
        yield kind, content[start + 8 : start + size]
        start += size


def flat(track: Body) -> dict[bytes, Body]:
    """The leaves of a track, whose kinds never repeat in a sound file; the first counts."""
    leaves: dict[bytes, Body] = {}
    rest = [track]
    for content in rest:
        for kind, body in boxes(content):
            if kind in CONTAINERS:
                rest.append(body)
            else:
                leaves.setdefault(kind, body)
    return leaves


def _matrix(header: Body, *, at: int) -> tuple[int, ...] | None:
    offset = at + (12 if header[:1] == b"\1" else 0)
    return struct.unpack_from(">9i", header, offset) if len(header) >= offset + 36 else None


def _track_id(track: dict[bytes, Body]) -> int:
    header = track.get(b"tkhd", b"")
    offset = 20 if header[:1] == b"\1" else 12
    return int.from_bytes(header[offset : offset + 4], "big")


def _clock(header: Body) -> int:
    """Units per second of an `mvhd` or `mdhd` box."""
    units = struct.unpack_from(">I", header, 20 if header[0] else 12)[0]
    if not units:
        raise ValueError("a clock without units")
    return units


def _numbers(table: Body, dtype: str, *, at: int = 4, columns: int = 1) -> np.ndarray:
    """int64 [rows * columns] of a table box: its number of rows stands at `at`, the rows follow."""
    rows = struct.unpack_from(">I", table, at)[0]
    return np.frombuffer(table, dtype, count=rows * columns, offset=at + 4).astype(np.int64)


def _runs(table: Body) -> np.ndarray:
    """int64 [runs, 2] (count, value); values may be negative in `ctts`, whatever its version says."""
    return _numbers(table, ">i4", columns=2).reshape(-1, 2)


def _sizes(table: Body, num_bytes: int) -> np.ndarray:
    """int64 [N] bytes of each frame; ValueError where they are more than the file has."""
    size, count = struct.unpack_from(">II", table, 4)
    if not size:
        return _numbers(table, ">u4", at=8)
    if size * count > num_bytes:  # a few bytes can promise 2**32 frames
        raise ValueError(f"{count} frames of {size} bytes in a file of {num_bytes}")
    return np.full(count, size, np.int64)


def _end_bytes(track: dict[bytes, Body], sizes: np.ndarray) -> int:
    """End of the chunk that reaches farthest."""
    chunks = _numbers(track[b"co64"], ">u8") if b"co64" in track else _numbers(track[b"stco"], ">u4")
    runs = _numbers(track[b"stsc"], ">u4", columns=3).reshape(-1, 3)
    repeats = np.diff(np.append(runs[:, 0], len(chunks) + 1))
    per_chunk = np.repeat(runs[:, 1], repeats)
    ends = np.cumsum(per_chunk)
    if len(ends) != len(chunks) or ends[-1] != len(sizes) or (per_chunk <= 0).any():
        raise ValueError("chunks and frames differ in number")
    upto = np.concatenate([[0], np.cumsum(sizes)])
    return int((chunks + upto[ends] - upto[ends - per_chunk]).max())
