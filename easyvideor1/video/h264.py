"""What the headers of an H.264 stream say about its pictures, without a decoder (ITU-T H.264, 7.3.2.1.1 and annex E).

An MP4 file repeats the size in its own tables, not always truly, and the shape of pixels often not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

HIGH_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
SHAPES = (
    (0, 1), (1, 1), (12, 11), (10, 11), (16, 11), (40, 33), (24, 11), (20, 11), (32, 11),
    (80, 33), (18, 11), (15, 11), (64, 33), (160, 99), (4, 3), (3, 2), (2, 1),
)  # fmt: skip
"""aspect_ratio_idc -> width : height of a pixel (table E-1); 0 is "unspecified"."""
OWN_SHAPE = 255
MOST_CYCLE = 255
"""Limit of num_ref_frames_in_pic_order_cnt_cycle."""
UNSPECIFIED_TRANSFER = 2
"""transfer_characteristics where the stream does not tell (table E-4)."""
MESSAGES_UNIT = 6
SEQUENCE_UNIT = 7
"""nal_unit_type (table 7-1)"""
MOST_HEADER_BYTES = 4096
"""A sequence parameter set is shorter; of a longer one the rest is not looked at."""


class Bits:
    """The bits of a header, first to last; ValueError at the end."""

    def __init__(self, content: bytes) -> None:
        self._value = int.from_bytes(content, "big")
        self._left = 8 * len(content)

    def number(self, width: int) -> int:
        self._left -= width
        if self._left < 0:
            raise ValueError("a header that ends too early")
        return (self._value >> self._left) & ((1 << width) - 1)

    def flag(self) -> bool:
        return bool(self.number(1))

    def coded(self) -> int:
        """An Exp-Golomb number, ue(v)."""
        zeros = 0
        while not self.flag():
            zeros += 1
        return (1 << zeros) - 1 + self.number(zeros)

    def signed(self) -> int:
        """se(v)"""
        code = self.coded()
        return (code + 1) // 2 if code % 2 else -(code // 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceHeader:
    """A sequence parameter set, as far as it matters here."""

    number: int
    """seq_parameter_set_id"""
    width: int
    height: int
    pixel_shape: Fraction | None
    """Width over height of a pixel; None where it does not tell."""
    transfer: int
    """transfer_characteristics"""
    is_by_frames: bool
    """Every picture is a whole frame (frame_mbs_only_flag); otherwise some may be fields, or frames of two fields."""
    planes_are_apart: bool
    frame_number_bits: int


def picture_format(configuration: bytes) -> tuple[int, int, Fraction | None] | None:
    """(width, height, shape of a pixel or None) out of an `avcC` box; None where it is no such box or is damaged."""
    header = first_sequence(configuration)
    return None if header is None else (header.width, header.height, header.pixel_shape)


def first_sequence(configuration: bytes) -> SequenceHeader | None:
    """The first sequence parameter set of an `avcC` box; None where it is no such box or is damaged."""
    if len(configuration) < 8 or configuration[0] != 1 or not configuration[5] & 31:
        return None
    size = int.from_bytes(configuration[6:8], "big")
    try:
        return sequence_header(configuration[8 : 8 + size])
    except ValueError:
        return None


def length_bytes(configuration: bytes) -> int:
    """How many bytes give the length of a unit in the packets of a stream; 0 where start codes part them."""
    return (configuration[4] & 3) + 1 if len(configuration) >= 7 and configuration[0] == 1 else 0


def configured_units(configuration: bytes) -> list[bytes]:
    """The parameter sets that an `avcC` box, or a header with start codes, holds; a damaged one is cut short."""
    if not length_bytes(configuration):
        return list(units(configuration, 0))
    found, at = [], 5
    for mask in (31, 255):  # sequences, then pictures
        if at >= len(configuration):
            break
        count, at = configuration[at] & mask, at + 1
        for _ in range(count):
            size = int.from_bytes(configuration[at : at + 2], "big")
            found.append(configuration[at + 2 : at + 2 + size])
            at += 2 + size
    return [unit for unit in found if unit]


def units(packet: bytes, num_length_bytes: int) -> Iterator[bytes]:
    """The NAL units of a packet, in order.

    Args:
        num_length_bytes: as of `length_bytes`.
    """
    if num_length_bytes and not packet.startswith(b"\0\0\0\1"):
        at = 0
        while at + num_length_bytes < len(packet):
            start = at + num_length_bytes
            at = start + int.from_bytes(packet[at:start], "big")
            if at > start:
                yield packet[start:at]
        return
    start = packet.find(b"\0\0\1") + 3
    while start > 2:
        end = packet.find(b"\0\0\1", start)
        if start < len(packet) and start != end:
            yield packet[start : end if end >= 0 else len(packet)]
        start = end + 3


def content_of(unit: bytes) -> bytes:
    """The payload of a unit, without its header byte and the bytes that keep start codes from appearing inside."""
    return unit[1:].replace(b"\0\0\3", b"\0\0")


def message_kinds(unit: bytes) -> set[int]:
    """Kinds (payloadType, annex D) of the messages in a unit; none where it is of another type."""
    kinds: set[int] = set()
    if unit[0] & 31 != MESSAGES_UNIT:
        return kinds
    content, at = content_of(unit), 0
    while at + 2 < len(content):  # a byte of trailing bits stands at the end
        kind, at = _sum_of_bytes(content, at)
        size, at = _sum_of_bytes(content, at)
        kinds.add(kind)
        at += size
    return kinds


def _sum_of_bytes(content: bytes, at: int) -> tuple[int, int]:
    """A number written as bytes of 255 and a smaller one, and the place after it."""
    number = 0
    while at < len(content):
        number, at = number + content[at], at + 1
        if content[at - 1] != 255:
            break
    return number, at


def sequence_header(unit: bytes) -> SequenceHeader:
    """Read a sequence parameter set.

    Raises:
        ValueError: it is cut or damaged.
    """
    bits = Bits(content_of(unit[:MOST_HEADER_BYTES]))
    profile = bits.number(24) >> 16
    number = bits.coded()
    chroma, is_apart = _colours(bits) if profile in HIGH_PROFILES else (1, False)
    frame_number_bits = bits.coded() + 4
    _skip_order(bits)
    bits.coded()  # reference frames
    bits.flag()  # gaps
    columns, rows = bits.coded() + 1, bits.coded() + 1
    is_by_frames = bits.flag()
    if not is_by_frames:
        bits.flag()
        rows *= 2
    bits.flag()  # direct 8x8
    left, right, top, bottom = [bits.coded() for _ in range(4)] if bits.flag() else [0] * 4
    crop_x = 2 if chroma in (1, 2) else 1
    crop_y = (2 if chroma == 1 else 1) * (1 if is_by_frames else 2)
    width, height = 16 * columns - crop_x * (left + right), 16 * rows - crop_y * (top + bottom)
    if min(width, height) <= 0:
        raise ValueError("nothing is left of the picture")
    pixel_shape, transfer = _appearance(bits)
    return SequenceHeader(
        number=number,
        width=width,
        height=height,
        pixel_shape=pixel_shape,
        transfer=transfer,
        is_by_frames=is_by_frames,
        planes_are_apart=is_apart,
        frame_number_bits=frame_number_bits,
    )


def _colours(bits: Bits) -> tuple[int, bool]:
    """The chroma format of a high profile (0 also for planes coded apart), and whether they are coded apart."""
    chroma = bits.coded()
    is_apart = chroma == 3 and bits.flag()
    bits.coded()  # bit depths
    bits.coded()
    bits.flag()
    if bits.flag():
        for number in range(12 if chroma == 3 else 8):
            if bits.flag():
                _skip_scaling(bits, 16 if number < 6 else 64)
    return (0 if is_apart else chroma), is_apart


def _skip_scaling(bits: Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.signed()) % 256
        last = following or last


def _skip_order(bits: Bits) -> None:
    kind = bits.coded()
    if kind == 0:
        bits.coded()
    elif kind == 1:
        bits.flag()
        for _ in range(2):
            bits.signed()
        cycle = bits.coded()
        if cycle > MOST_CYCLE:
            raise ValueError(f"a cycle of {cycle} frames")
        for _ in range(cycle):
            bits.signed()


def _appearance(bits: Bits) -> tuple[Fraction | None, int]:
    """Shape of a pixel and transfer_characteristics."""
    if not bits.flag():
        return None, UNSPECIFIED_TRANSFER
    shape = _shape(bits) if bits.flag() else None
    if bits.flag():
        bits.flag()  # overscan
    transfer = UNSPECIFIED_TRANSFER
    if bits.flag():
        bits.number(4)  # format and range
        if bits.flag():
            transfer = bits.number(24) >> 8 & 255
    return shape, transfer


def _shape(bits: Bits) -> Fraction | None:
    kind = bits.number(8)
    across, down = (
        (bits.number(16), bits.number(16)) if kind == OWN_SHAPE else dict(enumerate(SHAPES)).get(kind, (0, 1))
    )
    return Fraction(across, down) if across and down else None
