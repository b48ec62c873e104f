"""What the header of an H.264 stream says about its pictures, without a decoder (ITU-T H.264, 7.3.2.1.1 and annex E).

An MP4 file repeats the size in its own tables, not always truly, and the shape of pixels often not at all.
"""

from __future__ import annotations

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


class _Bits:
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


def picture_format(configuration: bytes) -> tuple[int, int, Fraction | None] | None:
    """(width, height, shape of a pixel or None) out of an `avcC` box; None where it is no such box or is damaged."""
    if len(configuration) < 8 or configuration[0] != 1 or not configuration[5] & 31:
        return None
    size = int.from_bytes(configuration[6:8], "big")
    # without the header byte, and without the bytes that keep start codes from appearing inside
    header = configuration[9 : 8 + size].replace(b"\0\0\3", b"\0\0")
    try:
        return _parameters(_Bits(header))
    except ValueError:
        return None


def _parameters(bits: _Bits) -> tuple[int, int, Fraction | None]:
    profile = bits.number(24) >> 16
    bits.coded()  # its id
    chroma = _skip_colours(bits) if profile in HIGH_PROFILES else 1
    bits.coded()  # length of frame numbers
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
    return width, height, _shape(bits)


def _skip_colours(bits: _Bits) -> int:
    """Step over the fields of high profiles; gives the chroma format (0 also for planes coded apart)."""
    chroma = bits.coded()
    is_apart = chroma == 3 and bits.flag()
    bits.coded()  # bit depths
    bits.coded()
    bits.flag()
    if bits.flag():
        for number in range(12 if chroma == 3 else 8):
            if bits.flag():
                _skip_scaling(bits, 16 if number < 6 else 64)
    return 0 if is_apart else chroma


def _skip_scaling(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.signed()) % 256
        last = following or last


def _skip_order(bits: _Bits) -> None:
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


def _shape(bits: _Bits) -> Fraction | None:
    if not (bits.flag() and bits.flag()):
        return None
    kind = bits.number(8)
    across, down = (
        (bits.number(16), bits.number(16)) if kind == OWN_SHAPE else dict(enumerate(SHAPES)).get(kind, (0, 1))
    )
    return Fraction(across, down) if across and down else None
