"""What a video file holds, known without decoding it: when each frame is shown, upright size, frame rate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.container import UPRIGHT, Orientation, VideoStream, codec_name, first_orientation, opened
from easyvideor1.video.h264 import picture_format
from easyvideor1.video.mp4 import Index, read_index
from easyvideor1.video.packets import scan
from easyvideor1.video.source import Source, remembered


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Header:
    """A video before decoding."""

    width: int
    height: int
    """Size at which it is displayed: upright, with square pixels."""
    times_s: np.ndarray
    """float64 [N], when each frame is shown, in display order; the first is 0."""
    duration_s: float
    source_fps: float
    """Frames per second, on average."""
    orientation: Orientation = UPRIGHT
    """Of all its frames."""
    warnings: tuple[str, ...] = ()


@remembered(512)
def probe(source: Source) -> Header:
    """Read what the file says about its video.

    Raises:
        MediaError: not a video, no video stream, no decoder for it, no frame.
    """
    index = _mp4_index(source)
    with opened(source, is_header_enough=index is not None) as (_, stream):
        stored, aspect = _stored_format(stream)
        if min(stored) <= 0:
            raise MediaError(f"its header gives no picture size (codec {codec_name(stream)})", where=source.name)
        table = _tabled_times(index, source, stream) if index else None
    is_upright = table is not None and index is not None and not index.is_turned
    orientation = UPRIGHT if is_upright else first_orientation(source)
    notes: list[str] = []
    if table is None:
        packets = scan(source)
        times_s, duration_s = packets.times_s, packets.duration_s
        if packets.is_cut:
            notes.append("the file is damaged or cut; only the part that can be read is used")
        if packets.num_damaged:
            notes.append(f"damaged packets: {packets.num_damaged}; the frames after them may be wrong")
    else:
        times_s, duration_s = table
    return _header(stored, aspect, orientation, times_s, duration_s, tuple(notes))


def _stored_format(stream: VideoStream) -> tuple[tuple[int, int], Fraction]:
    """Width and height as stored, and the shape of a pixel."""
    context = stream.codec_context
    size, aspect = (context.width, context.height), stream.sample_aspect_ratio
    told = picture_format(context.extradata or b"") if context.name == "h264" else None
    if told is not None:
        size, aspect = told[:2], aspect or told[2]
    return size, aspect or Fraction(1)


def _mp4_index(source: Source) -> Index | None:
    if source.head(8)[4:] != b"ftyp":
        return None
    with source.open() as file:
        return read_index(file, source.num_bytes)


def _header(
    stored: tuple[int, int],
    aspect: Fraction,
    orientation: Orientation,
    times_s: np.ndarray,
    duration_s: float,
    warnings: tuple[str, ...],
) -> Header:
    width, height = max(1, round(stored[0] * aspect)), stored[1]
    if orientation.is_swapped:
        width, height = height, width
    return Header(
        width=width,
        height=height,
        times_s=times_s,
        duration_s=duration_s,
        source_fps=len(times_s) / duration_s,
        orientation=orientation,
        warnings=warnings,
    )


def _tabled_times(index: Index, source: Source, stream: VideoStream) -> tuple[np.ndarray, float] | None:
    """(times, duration) from the index of an MP4 file; None: look at the packets."""
    table = index.frames(stream.id)
    if table is None or len(table.pts) != len(stream.index_entries) or table.end_bytes > source.num_bytes:
        return None
    base = cast(Fraction, stream.time_base)
    times_s = (table.pts - table.pts[0]) * base.numerator / base.denominator
    return times_s, float(times_s[-1]) + float(table.last_duration * base)
