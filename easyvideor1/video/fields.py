"""Field-coded H.264: which packets are the second half of a picture, without a decoder (ITU-T H.264, 7.3.3, 7.4.1.2.4).

Interlaced recordings may code the two fields of a frame as pictures of their own, in packets of their own (camcorders,
broadcasts). A decoder gives one frame for the two. Which packets belong together stands at the start of each slice.
"""

from __future__ import annotations

from dataclasses import dataclass

from easyvideor1.video.h264 import (
    SEQUENCE_UNIT,
    Bits,
    SequenceHeader,
    configured_units,
    content_of,
    length_bytes,
    sequence_header,
    units,
)

SLICE_UNITS = frozenset({1, 2, 5})
"""nal_unit_type of slices that begin with a slice header: plain, first partition, of an IDR picture."""
PICTURE_UNIT = 8
REFERENCE_BITS = 0x60
"""nal_ref_idc in the first byte of a unit."""
UNCLEAR_FRAC = 0.01
"""With a larger share of unclear packets than this, the decoder is asked."""
SLICE_HEADER_BYTES = 32
"""Bytes of a slice that are read: enough for its header and for the escape bytes removed from it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A coded picture: a frame, or one of its fields."""

    frame_number: int
    """frame_num, the same for both fields of a frame"""
    is_reference: bool
    """Whether others may refer to it, the same for both fields of a frame."""
    parity: int | None
    """0 top field, 1 bottom field, None a whole frame."""


class FieldReader:
    """Follows the packets of a stream and tells which of them begin a frame.

    Args:
        configuration: the stream's own header (an `avcC` box, or parameter sets with start codes).
    """

    def __init__(self, configuration: bytes) -> None:
        self.seconds: dict[int, int] = {}
        """Packet that completes a frame -> the packet before it that began the frame."""
        self.unshown: set[int] = set()
        """Packets that begin no frame: those that complete one, those without a picture, and those with a field whose
        other half never comes."""
        self._num_read = self._num_unclear = 0
        self._num_length_bytes = length_bytes(configuration)
        self._sequences: dict[int, SequenceHeader] = {}
        self._sequence_of_picture: dict[int, int] = {}
        self._waiting: tuple[int, Picture] | None = None
        self._num_lone = 0
        for unit in configured_units(configuration):
            self._take_parameters(unit)

    @property
    def is_sure(self) -> bool:
        """False: the packets do not tell, so the decoder has to be asked. A few losses of a long recording are not
        worth that."""
        return self._num_unclear <= UNCLEAR_FRAC * self._num_read

    @property
    def may_have_fields(self) -> bool:
        return any(not sequence.is_by_frames for sequence in self._sequences.values())

    def read(self, number: int, packet: bytes) -> None:
        """Look at a packet; numbers rise by one, and packets before the first that may have fields can be left out."""
        pictures: list[Picture] = []
        for unit in units(packet, self._num_length_bytes):
            kind = unit[0] & 31
            if kind in (SEQUENCE_UNIT, PICTURE_UNIT):
                self._take_parameters(unit)
            elif kind in SLICE_UNITS:
                if not self.may_have_fields:
                    return
                picture = self._picture(unit)
                if picture is not None and pictures[-1:] != [picture]:
                    pictures.append(picture)
        if self.may_have_fields:
            self._pair(number, pictures)

    def finish(self) -> None:
        """No packet follows."""
        if self._waiting is not None:
            self.unshown.add(self._waiting[0])
            self._waiting = None

    def _take_parameters(self, unit: bytes) -> None:
        try:
            if unit[0] & 31 == SEQUENCE_UNIT:
                sequence = sequence_header(unit)
                self._sequences[sequence.number] = sequence
            elif unit[0] & 31 == PICTURE_UNIT:
                bits = Bits(content_of(unit[:SLICE_HEADER_BYTES]))
                picture = bits.coded()
                self._sequence_of_picture[picture] = bits.coded()
        except ValueError:
            return  # damaged: slices that need it will not be understood

    def _picture(self, unit: bytes) -> Picture | None:
        """The picture that a slice belongs to; None where its header is not understood."""
        bits = Bits(content_of(unit[:SLICE_HEADER_BYTES]))
        try:
            bits.coded()  # first macroblock
            bits.coded()  # type
            sequence = self._sequences[self._sequence_of_picture[bits.coded()]]
            if sequence.planes_are_apart:
                bits.number(2)
            frame_number = bits.number(sequence.frame_number_bits)
            is_field = not sequence.is_by_frames and bits.flag()
            return Picture(frame_number, unit[0] & REFERENCE_BITS > 0, int(bits.flag()) if is_field else None)
        except (ValueError, KeyError):
            self._num_unclear += 1
            return None

    def _pair(self, number: int, pictures: list[Picture]) -> None:
        """Complete the field that waits, or let another one wait."""
        self._num_read += 1
        begins = False
        for picture in pictures:
            waiting, self._waiting = self._waiting, None
            if waiting is not None and _are_a_frame(waiting[1], picture):
                if waiting[0] != number:
                    self.seconds[number] = waiting[0]
                self._num_lone = 0
                continue
            if waiting is not None:
                self._leave_alone(waiting, picture)
            begins = True
            if picture.parity is not None:
                self._waiting = number, picture
        if not begins:
            self.unshown.add(number)
        elif number in self.seconds:
            self._num_unclear += 1  # the end of one frame and the start of the next in one packet

    def _leave_alone(self, waiting: tuple[int, Picture], following: Picture) -> None:
        """The second half of a frame is missing. Of one a decoder makes nothing, of the next it makes a frame again."""
        self.unshown.add(waiting[0])
        self._num_lone = self._num_lone + 1 if following.parity == waiting[1].parity else 0
        self._num_unclear += self._num_lone > 1


def _are_a_frame(first: Picture, second: Picture) -> bool:
    is_opposite = first.parity is not None and second.parity is not None and first.parity != second.parity
    return is_opposite and (first.frame_number, first.is_reference) == (second.frame_number, second.is_reference)
