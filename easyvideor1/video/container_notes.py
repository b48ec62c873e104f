"""Facts in the header of a container that PyAV does not pass on: which part of the pictures is to be seen, at which
speed, and whether their colours are of a kind that no decoder here understands."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from easyvideor1.video import matroska
from easyvideor1.video.container import InputContainer, VideoStream
from easyvideor1.video.mp4 import Body, Index
from easyvideor1.video.source import Source

DOLBY_BOXES = (b"dvcC", b"dvvC", b"dvwC")


@dataclass(frozen=True, slots=True)
class Crop:
    """Pixels of a picture as stored that are not shown, at each side."""

    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0


WHOLE = Crop()


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerNotes:
    crop: Crop = WHOLE
    warnings: tuple[str, ...] = ()


def container_notes(
    source: Source, container: InputContainer, stream: VideoStream, index: Index | None, size: tuple[int, int]
) -> ContainerNotes:
    """The notes of a container about its video stream.

    Args:
        index: of an MP4 file.
        size: width and height of a picture as stored; a crop that leaves nothing of it is not believed.
    """
    crop, dolby, speeds = WHOLE, b"", set[float]()
    if index is not None:
        boxes = index.sample_boxes(stream.id)
        crop = _clean_aperture(boxes.get(b"clap", b""), size)
        dolby = bytes(next((boxes[kind] for kind in DOLBY_BOXES if kind in boxes), b""))
        speeds = index.speeds(stream.id)
    elif "matroska" in container.format.name:
        with source.open() as file:
            tracks = matroska.video_tracks(file, source.num_bytes)
        place = list(container.streams.video).index(stream)
        if place < len(tracks):
            crop, dolby = Crop(*matroska.crop_of(tracks[place])), matroska.dolby_of(tracks[place])
    is_sound = crop.left + crop.right < size[0] and crop.top + crop.bottom < size[1]
    return ContainerNotes(crop=crop if is_sound else WHOLE, warnings=(*_about_dolby(dolby), *_about_speeds(speeds)))


def _clean_aperture(box: Body, size: tuple[int, int]) -> Crop:
    """The crop of a `clap` box (ISO/IEC 14496-12, 12.1.4): size, and offset of its middle from that of the picture."""
    if len(box) < 32:
        return WHOLE
    numbers = struct.unpack_from(">IIIIiIiI", box)
    if not all(numbers[1::2]):
        return WHOLE
    width, height, right, down = (above / below for above, below in zip(numbers[::2], numbers[1::2], strict=True))
    left, top = int((size[0] - width) / 2 + right), int((size[1] - height) / 2 + down)
    sides = left, top, size[0] - round(width) - left, size[1] - round(height) - top
    return Crop(*sides) if min(sides) >= 0 else WHOLE


def _about_dolby(configuration: bytes) -> Iterator[str]:
    """A note where the pictures are in Dolby Vision's own colours, with no others to fall back on."""
    if len(configuration) >= 5 and configuration[4] >> 4 == 0:
        profile = configuration[2] >> 1
        yield (
            f"Dolby Vision profile {profile}: its colours cannot be decoded here, pictures look green and violet "
            "(convert it to HDR10 or SDR first)"
        )


def _about_speeds(speeds: set[float]) -> Iterator[str]:
    others = sorted(speeds - {1.0})
    if others:
        told = ", ".join("a frame is held" if speed == 0 else f"{speed:g} times the speed" for speed in others)
        yield f"its edit list is not followed in full ({told}); parts are shown at their usual speed"
