"""Compares how many frames an MP4 file claims to have with what its bytes can hold.

Where frames have one size, or all their values are the usual ones, a table of a few bytes can claim billions of them,
and FFmpeg makes an entry of its own for each before it reads any. Boxes by ISO/IEC 14496-12.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from easyvideor1.video.mp4 import Body, Index, boxes, top_boxes

FREE_CLAIM = 1 << 20
"""Number of frames that a file may claim without proof: their entries take some 50 MB."""
MOST_FRAGMENT_BYTES = 64 << 20
"""Largest `moof` box that is read; a file that holds a larger one is not small."""
ONE = b"\0\0\0\1"
OWN_FIELDS = 0x0F00
"""Flags of a `trun` box that give each frame values of its own: duration, size, flags, offset of its time."""
HAS_DEFAULT_SIZE = 0x10


def claims_too_much(index: Index, file: BinaryIO, num_bytes: int) -> bool:
    """Whether there are more frames by the index, or by the fragments, than a file of this size can hold."""
    if any(_claimed_by_track(track, num_bytes) for track in index.tracks):
        return True
    if b"mvex" not in index.movie:
        return False
    sizes = dict(_default_sizes(index.movie[b"mvex"]))
    num_frames = frame_bytes = 0
    for count, size in _runs(file, num_bytes, sizes):
        num_frames, frame_bytes = num_frames + count, frame_bytes + count * max(size, 1)
        if num_frames > FREE_CLAIM and frame_bytes > num_bytes:
            return True
    return False


def _claimed_by_track(track: dict[bytes, Body], num_bytes: int) -> bool:
    table = track.get(b"stsz", b"")
    if len(table) < 12:
        return False
    size, count = struct.unpack_from(">II", table, 4)
    # Sound of this kind counts single values of a wave, in whatever units; FFmpeg reads it in chunks.
    is_wave = track.get(b"hdlr", b"")[8:12] == b"soun" and track.get(b"stts", b"")[4:] == ONE + table[8:12] + ONE
    return count > FREE_CLAIM and size * count > num_bytes and not is_wave


def _default_sizes(extends: Body) -> Iterator[tuple[int, int]]:
    """(track, size of a frame) of the `trex` boxes in an `mvex` box."""
    for kind, body in boxes(extends):
        if kind == b"trex" and len(body) >= 24:
            track, _, _, size = struct.unpack_from(">4I", body, 4)
            yield track, size


def _runs(file: BinaryIO, num_bytes: int, sizes: dict[int, int]) -> Iterator[tuple[int, int]]:
    """(number of frames, bytes that each takes at least) of every run of frames in the fragments."""
    for kind, start, end in top_boxes(file, num_bytes):
        if kind != b"moof" or end - start > MOST_FRAGMENT_BYTES:
            continue
        file.seek(start)
        for inner, fragment in boxes(memoryview(file.read(end - start))):
            if inner == b"traf":
                yield from _fragment_runs(fragment, sizes)


def _fragment_runs(fragment: Body, sizes: dict[int, int]) -> Iterator[tuple[int, int]]:
    size = 0
    for kind, body in boxes(fragment):
        if kind == b"tfhd" and len(body) >= 8:
            flags, track = struct.unpack_from(">II", body)
            size = sizes.get(track, 0)
            at = 8 + 8 * bool(flags & 1) + 4 * bool(flags & 2) + 4 * bool(flags & 8)
            if flags & HAS_DEFAULT_SIZE and len(body) >= at + 4:
                size = struct.unpack_from(">I", body, at)[0]
        elif kind == b"trun" and len(body) >= 8:
            flags, count = struct.unpack_from(">II", body)
            width = 4 * (flags & OWN_FIELDS).bit_count()
            # Values of their own have to be there: what does not fit into the box is claimed for nothing.
            yield (count, size) if not width or width * count <= len(body) else (count, 1 << 31)
