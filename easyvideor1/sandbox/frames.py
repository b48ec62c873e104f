"""Messages over pipes: a length of four bytes and JSON, read to the byte, so that what follows stays in the pipe."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

MOST_BYTES = 64 << 20


class BrokenFrameError(Exception):
    """The other side sent what is no message."""


def packed(message: object) -> bytes:
    text = json.dumps(message, separators=(",", ":")).encode()
    return struct.pack("<I", len(text)) + text


def write_frame(writer: int, message: object) -> None:
    rest = memoryview(packed(message))
    while rest:
        rest = rest[os.write(writer, rest) :]


def read_frame(reader: int) -> Any:
    """The next message; None where the other side is gone.

    Raises:
        BrokenFrameError: it is cut, too long, or no JSON.
    """
    head = _exactly(reader, 4)
    if not head:
        return None
    (length,) = struct.unpack("<I", head)
    if length > MOST_BYTES:
        raise BrokenFrameError(f"a message of {length} bytes")
    try:
        return json.loads(_exactly(reader, length))
    except (ValueError, RecursionError) as error:
        raise BrokenFrameError(f"no message: {type(error).__name__}") from None


def _exactly(reader: int, count: int) -> bytes:
    """As many bytes as asked for, or none where the pipe ends before the first."""
    parts = []
    left = count
    while left:
        part = os.read(reader, min(left, 1 << 16))
        if not part:
            if left == count:
                return b""
            raise BrokenFrameError("cut in the middle")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
