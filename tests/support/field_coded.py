"""Field-coded H.264 as camcorders and broadcasts record it, written bit by bit (ITU-T H.264, 7.3): no encoder at hand
makes it. Every macroblock is uncompressed, so both fields of frame N are exactly 20 + 4 * N grey.

Frames are coded in the order I0 P2 b1 P4 b3 ..; b frames are shown before the P frame that precedes them in the file,
and nothing refers to them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av

WIDTH, HEIGHT = 96, 64
COLUMNS, ROWS = WIDTH // 16, HEIGHT // 16
CLOCK = 90_000
FIELDS_PER_S = 50
TICKS = CLOCK // FIELDS_PER_S
"""Length of a field."""
GROUP = 12
"""Frames from one I frame to the next."""
Structure = Literal["fields", "frame"]


@dataclass(frozen=True, kw_only=True)
class CodedFrame:
    number: int
    """In display order."""
    parts: tuple[bytes, ...]
    """One access unit for each coded picture: two fields, or a frame."""
    is_key: bool
    dts: int
    """In fields, as the place in the file."""


class _Bits:
    def __init__(self) -> None:
        self.bits: list[str] = []

    def u(self, value: int, width: int) -> None:
        self.bits.append(f"{value:0{width}b}")

    def ue(self, value: int) -> None:
        text = f"{value + 1:b}"
        self.bits.append("0" * (len(text) - 1) + text)

    def align(self) -> None:
        self.bits = ["".join(self.bits)]
        self.u(0, -len(self.bits[0]) % 8) if len(self.bits[0]) % 8 else None

    def content(self) -> bytes:
        text = "".join(self.bits)
        return int(text, 2).to_bytes(len(text) // 8, "big")


def unit(kind: int, ref_idc: int, content: bytes) -> bytes:
    """A NAL unit with its start code, start codes inside it broken up."""
    escaped, zeros = bytearray(), 0
    for byte in content:
        if zeros >= 2 and byte <= 3:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return b"\0\0\0\1" + bytes([ref_idc << 5 | kind]) + bytes(escaped)


def _ended(bits: _Bits) -> bytes:
    bits.u(1, 1)
    bits.align()
    return bits.content()


def sequence() -> bytes:
    bits = _Bits()
    for value in (77, 0, 30):  # Main profile, level 3
        bits.u(value, 8)
    for value in (0, 4, 0, 4, 4):  # id, bits of frame_num - 4, order type, bits of order - 4, reference frames
        bits.ue(value)
    bits.u(0, 1)
    bits.ue(COLUMNS - 1)
    bits.ue(ROWS // 2 - 1)
    bits.u(0b00101, 5)  # may have fields, no adaptive frames, direct 8x8, no crop, and the following:
    bits.u(0b00001, 5)  # nothing about shape, overscan, colours and chroma; timing:
    bits.u(1, 32)
    bits.u(FIELDS_PER_S, 32)
    bits.u(1, 1)
    bits.u(0b0001, 4)  # no buffers, no pic_struct, limits:
    bits.u(1, 1)
    for value in (0, 0, 10, 10, 1, 4):  # .., one frame is reordered, four are held
        bits.ue(value)
    return unit(7, 3, _ended(bits))


def picture_parameters() -> bytes:
    bits = _Bits()
    bits.ue(0)
    bits.ue(0)
    bits.u(0, 2)
    for value in (0, 0, 0):
        bits.ue(value)
    bits.u(0, 3)
    for value in (0, 0, 0):
        bits.ue(value)
    bits.u(0b100, 3)  # the deblocking filter is controlled
    return unit(8, 3, _ended(bits))


@functools.cache
def picture(
    *, kind: Literal["I", "P", "B"], is_idr: bool, frame_number: int, order: int, grey: int, parity: int | None
) -> bytes:
    """A field (parity 0 or 1) or a frame (None) of one grey, as one slice."""
    bits = _Bits()
    bits.ue(0)
    bits.ue({"P": 5, "B": 6, "I": 7}[kind])
    bits.ue(0)
    bits.u(frame_number % 256, 8)
    bits.u(parity is not None, 1)
    if parity is not None:
        bits.u(parity, 1)
    if is_idr:
        bits.ue(0)
    bits.u(order % 256, 8)
    if kind == "B":
        bits.u(1, 1)  # spatial direct
    if kind != "I":
        bits.u(0, 1)  # the usual number of references
        bits.u(0, 1 if kind == "P" else 2)  # in the usual order
    if kind != "B":
        bits.u(0, 2 if is_idr else 1)  # sliding window
    bits.ue(0)
    bits.ue(1)
    samples = "".join(f"{byte:08b}" for byte in (bytes([grey]) * 256 + b"\x80" * 128))
    for _ in range(COLUMNS * ROWS // (1 if parity is None else 2)):
        if kind != "I":
            bits.ue(0)  # none skipped
        bits.ue({"I": 25, "P": 30, "B": 48}[kind])  # I_PCM
        bits.align()
        bits.bits.append(samples)
    return unit(5 if is_idr else 1, 0 if kind == "B" else 2, _ended(bits))


def coded_frames(count: int, *, structure: Literal["fields", "mixed"] = "fields") -> Iterator[CodedFrame]:
    """Frames in file order; "mixed" codes every third frame as a frame."""
    order = [0]
    for number in range(1, count, 2):
        order += [number + 1, number] if number + 1 < count else [number]
    frame_number, group_start = 0, 0
    for place, number in enumerate(order):
        is_idr = number % GROUP == 0
        is_b = number % 2 == 1 and number + 1 < count
        if is_idr:
            frame_number, group_start = 0, number
        options = {"frame_number": frame_number, "grey": 20 + 4 * number}
        start = b"\0\0\0\1\x09\xf0" + (sequence() + picture_parameters() if is_idr else b"")
        poc = 2 * (number - group_start)
        first = "B" if is_b else "I" if is_idr else "P"
        if structure == "mixed" and number % 3 == 1:
            pictures = [picture(kind=first, is_idr=is_idr, order=poc, parity=None, **options)]
        else:
            later = "B" if is_b else "P"
            pictures = [
                picture(kind=first, is_idr=is_idr, order=poc, parity=0, **options),
                picture(kind=later, is_idr=False, order=poc + 1, parity=1, **options),
            ]
        parts = tuple((start if index == 0 else b"\0\0\0\1\x09\xf0") + coded for index, coded in enumerate(pictures))
        yield CodedFrame(number=number, parts=parts, is_key=is_idr, dts=2 * place)
        frame_number += not is_b


def write_field_coded(
    path: Path,
    count: int = 50,
    *,
    structure: Literal["fields", "mixed"] = "fields",
    one_packet_per_frame: bool = False,
    second_has_time: bool = True,
    leave_out: frozenset[tuple[int, int]] = frozenset(),
) -> Path:
    """A clip of 25 frames per second in the container that the name asks for; ".h264" is the bare stream.

    Args:
        one_packet_per_frame: both fields in one packet (MKV and MP4 as the standards have it), or one field each
            (transport streams, and what careless programs make of them).
        second_has_time: whether the second field has a display time of its own.
        leave_out: (frame, part) that are lost.
    """
    frames = list(coded_frames(count, structure=structure))
    bare = b"".join(b"".join(frame.parts) for frame in frames)
    if path.suffix == ".h264":
        path.write_bytes(bare)
        return path
    template = path.with_name(path.name + ".h264")
    template.write_bytes(bare)
    with av.open(str(template), format="h264") as reader, av.open(str(path), "w") as container:
        stream = container.add_stream_from_template(reader.streams.video[0])
        stream.time_base = Fraction(1, CLOCK)
        for frame in frames:
            parts = [part for index, part in enumerate(frame.parts) if (frame.number, index) not in leave_out]
            parts = [b"".join(parts)] if one_packet_per_frame and parts else parts
            for index, part in enumerate(parts):
                packet = av.Packet(part)
                packet.stream, packet.time_base = stream, Fraction(1, CLOCK)
                packet.dts = (frame.dts + index) * TICKS
                # P frames are shown one frame after their place in the file, b frames one before
                packet.pts = (2 * frame.number + 2 + index) * TICKS
                if index and not second_has_time:
                    packet.pts = None
                packet.duration = 2 * TICKS // len(parts)
                packet.is_keyframe = frame.is_key and index == 0
                container.mux(packet)
    template.unlink()
    return path
