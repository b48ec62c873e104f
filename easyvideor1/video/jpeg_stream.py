"""Tells a bare Motion JPEG stream, JPEG pictures one after the other, from a picture with something behind it.

Phones too put pictures behind a JPEG (gain maps, depth maps, the other half of a stereo picture); those are announced
in it (Multi-Picture Format, CIPA DC-007) or of another size. Markers by ITU-T T.81, annex B.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

START = b"\xff\xd8\xff"
FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""SOF0 .. SOF15: the size of the picture follows."""
END_MARKER, EXTENSION_MARKER = 0xD9, 0xE2
MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker within the pixels that is neither stuffing nor a restart."""
ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length."""
MOST_MARKERS = 4096


@dataclass(frozen=True, slots=True)
class Jpeg:
    """One picture of a stream."""

    size: bytes
    """Height and width, two bytes each."""
    end: int
    """Place after its last byte."""
    announces_more: bool
    """Whether it says that other pictures of the same moment follow."""


def is_jpeg_stream(content: bytes) -> bool:
    """Whether a file that begins like a JPEG is a stream of at least two pictures of one size."""
    first = read_jpeg(content, 0)
    if first is None or first.announces_more:
        return False
    second_at = first.end
    while content[second_at : second_at + 1] == b"\0":
        second_at += 1
    second = read_jpeg(content, second_at)
    return second is not None and second.size == first.size


def read_jpeg(content: bytes, at: int) -> Jpeg | None:
    """The picture that starts at a place; None where there is none, or no end of it."""
    if content[at : at + 3] != START:
        return None
    size, announces_more = b"", False
    at += 2
    for _ in range(MOST_MARKERS):
        found = MARKER.search(content, at)
        if found is None:
            return None
        marker, at = content[found.start() + 1], found.end()
        if marker == END_MARKER:
            return Jpeg(size, at, announces_more) if size else None
        if marker in ALONE:
            continue
        length = int.from_bytes(content[at : at + 2], "big")
        if marker in FRAME_MARKERS:
            size = content[at + 3 : at + 7]
        announces_more = announces_more or (marker == EXTENSION_MARKER and content[at + 2 : at + 6] == b"MPF\0")
        at += length
    return None
