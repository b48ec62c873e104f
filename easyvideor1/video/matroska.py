"""What the track headers of a Matroska or WebM file say and PyAV does not pass on (RFC 9559, RFC 8794).

Only the start of a file is looked at, up to its first cluster of packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

EBML, SEGMENT, CLUSTER, TRACKS = 0x1A45DFA3, 0x18538067, 0x1F43B675, 0x1654AE6B
TRACK_ENTRY, TRACK_TYPE, VIDEO = 0xAE, 0x83, 0xE0
CROPS = {"left": 0x54CC, "top": 0x54BB, "right": 0x54DD, "bottom": 0x54AA}
MAPPING, MAPPING_TYPE, MAPPING_DATA = 0x41E4, 0x41E7, 0x41ED
VIDEO_TYPE = 1
DOLBY = frozenset({b"dvcC", b"dvvC", b"dvwC"})
MOST_HEADER_BYTES = 16 << 20
UNKNOWN = -1
"""Size of an element that ends where its parent does."""
Elements = list[tuple[int, bytes]]


def video_tracks(file: BinaryIO, num_bytes: int) -> list[Elements]:
    """The elements of each video track, in file order; none where it is no Matroska file."""
    for kind, start, size in _elements_of(file, 0, num_bytes):
        if kind == SEGMENT:
            end = num_bytes if size == UNKNOWN else min(num_bytes, start + size)
            return _tracks(file, start, end)
        if kind != EBML:
            break
    return []


def crop_of(track: Elements) -> tuple[int, int, int, int]:
    """Pixels to leave out at the left, top, right and bottom of a picture as stored."""
    video = dict(_elements(_first(track, VIDEO)))
    left, top, right, bottom = (int.from_bytes(video.get(kind, b""), "big") for kind in CROPS.values())
    return left, top, right, bottom


def dolby_of(track: Elements) -> bytes:
    """The Dolby Vision configuration of a track; empty where there is none."""
    for kind, content in track:
        mapping = dict(_elements(content)) if kind == MAPPING else {}
        if mapping.get(MAPPING_TYPE, b"").rjust(4, b"\0")[-4:] in DOLBY:
            return mapping.get(MAPPING_DATA, b"")
    return b""


def _tracks(file: BinaryIO, start: int, end: int) -> list[Elements]:
    for kind, at, size in _elements_of(file, start, end):
        if kind == CLUSTER:
            break
        if kind == TRACKS and 0 <= size <= MOST_HEADER_BYTES:
            file.seek(at)
            tracks = [list(_elements(entry)) for number, entry in _elements(file.read(size)) if number == TRACK_ENTRY]
            return [track for track in tracks if int.from_bytes(_first(track, TRACK_TYPE), "big") == VIDEO_TYPE]
    return []


def _first(elements: Elements, kind: int) -> bytes:
    return next((content for number, content in elements if number == kind), b"")


def _elements_of(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(kind, start of the content, its size) of the elements in a part of a file."""
    while start < end:
        file.seek(start)
        head = _head(file.read(12))
        if head is None:
            return
        kind, length, size = head
        yield kind, start + length, size
        if size == UNKNOWN:
            return
        start += length + size


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start < len(content):
        head = _head(content[start : start + 12])
        if head is None or head[2] == UNKNOWN:
            return
        kind, length, size = head
        yield kind, content[start + length : start + length + size]
        start += length + size


def _head(content: bytes) -> tuple[int, int, int] | None:
    """(kind, length of the head, size of the content) of an element; None where there is none."""
    kind_length = _length(content[:1], most=4)
    size_length = _length(content[kind_length : kind_length + 1], most=8) if kind_length else 0
    length = kind_length + size_length
    if not size_length or len(content) < length:
        return None
    size = int.from_bytes(content[kind_length:length], "big") & ((1 << 7 * size_length) - 1)
    is_unknown = size == (1 << 7 * size_length) - 1
    return int.from_bytes(content[:kind_length], "big"), length, UNKNOWN if is_unknown else size


def _length(first: bytes, *, most: int) -> int:
    """Bytes of a number by its first one: as many as zeros stand before its first bit, and one; 0 where too many."""
    length = 9 - first[0].bit_length() if first and first[0] else 0
    return length if length <= most else 0
