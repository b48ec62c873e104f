"""What a video file holds, known without decoding it: when each frame is shown, upright size, frame rate, what is
special about its pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.container import (
    UPRIGHT,
    FirstFrame,
    InputContainer,
    Orientation,
    VideoStream,
    codec_name,
    first_frame,
    opened,
)
from easyvideor1.video.container_notes import WHOLE, Crop, container_notes
from easyvideor1.video.h264 import (
    SEQUENCE_UNIT,
    UNSPECIFIED_TRANSFER,
    configured_units,
    first_sequence,
    length_bytes,
    message_kinds,
    sequence_header,
    units,
)
from easyvideor1.video.mp4 import Index, read_index
from easyvideor1.video.mp4_claims import claims_too_much
from easyvideor1.video.packets import scan, typical_step_s
from easyvideor1.video.source import MOST_PIXELS, Source, remembered
from easyvideor1.video.stills import animation_delays_s, picture_header

Hdr = Literal["", "PQ", "HLG"]
HDR_TRANSFERS: dict[int, Hdr] = {16: "PQ", 18: "HLG"}
"""Transfer functions of high dynamic range by their code (ITU-T H.273, table 3): SMPTE ST 2084, ARIB STD-B67."""
LONGEST_LAST_S, LONGEST_LAST_STEPS = 3600.0, 1000
"""A last frame that is said to be shown for longer, in seconds and in usual steps, is a mistake of the recorder."""
BARE_JPEG = frozenset({"mjpeg", "mpjpeg"})
"""Formats that are pictures one after the other and nothing else, as cameras send them."""
LOOK_MESSAGES = frozenset({47, 147})
"""H.264 messages that change how all frames look: display orientation, another transfer function."""


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
    crop: Crop = WHOLE
    """What of a picture as stored is not shown, by its container; what the stream crops itself never comes out."""
    orientation: Orientation = UPRIGHT
    """Orientation of all its frames."""
    hdr: Hdr = ""
    """Transfer function, if it is one of high dynamic range."""
    has_alpha: bool = False
    """Whether its pixels may be transparent; they are put on white."""
    is_from_packets: bool = False
    """Whether the file had to be read whole to know it."""
    treatment: tuple[str, ...] = ()
    """What is done about it that is not done about a plain file: part of the cache key, so that entries of plain files
    keep theirs when a treatment is added or changed."""
    warnings: tuple[str, ...] = ()


def header_of(source: Source) -> Header:
    """The facts in a file's header about its video; errors as of `probe` and `stills.picture_header`."""
    return _picture_as_video(source) if source.content == "picture" else probe(source)


@remembered(512)
def probe(source: Source) -> Header:
    """Read what a video file says about its video.

    Raises:
        MediaError: not a video, no video stream, no decoder for it, no frame, or a picture above MOST_PIXELS.
    """
    index = _mp4_index(source)
    with opened(source, is_header_enough=index is not None) as (container, stream):
        stored, aspect = _stored_format(stream)
        _check_size(stored, source, stream)
        table, look = _tabled_times(index, source, stream) if index is not None else None, None
        if table is not None and index is not None and codec_name(stream) == "h264":
            table, look = _checked_by_stream(container, stream, table, is_turned=index.is_turned)
        codec, kind = codec_name(stream), container.format.name
        told = container_notes(source, container, stream, index, stored)
    if look is None:
        look = first_frame(source)
    treatment: tuple[str, ...] = ("cropped",) if told.crop != WHOLE else ()
    is_clear = look.has_alpha and codec != "gif"  # what FFmpeg leaves transparent in a GIF it has made white already
    if is_clear:
        treatment += ("on white",)
    if table is not None and index is not None and not index.is_turned and look.orientation != UPRIGHT:
        treatment += ("turned by the stream",)
    timing = _timing(source, kind, table)
    shown_px = stored[0] - told.crop.left - told.crop.right, stored[1] - told.crop.top - told.crop.bottom
    width, height = max(1, round(shown_px[0] * aspect)), shown_px[1]
    if look.orientation.is_swapped:
        width, height = height, width
    return Header(
        width=width,
        height=height,
        times_s=timing.times_s,
        duration_s=timing.duration_s,
        source_fps=len(timing.times_s) / timing.duration_s,
        crop=told.crop,
        orientation=look.orientation,
        hdr=HDR_TRANSFERS.get(look.transfer, ""),
        has_alpha=is_clear,
        is_from_packets=table is None,
        treatment=treatment + timing.treatment,
        warnings=told.warnings + timing.warnings,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Timing:
    """When the frames of a file are shown (see `Header`)."""

    times_s: np.ndarray
    duration_s: float
    treatment: tuple[str, ...]
    warnings: tuple[str, ...]


def _timing(source: Source, kind: str, table: tuple[np.ndarray, float] | None) -> Timing:
    """From the index of the file, or else from its packets; what cannot be true is set right."""
    treatment: tuple[str, ...] = ()
    notes: list[str] = []
    if table is None:
        packets = scan(source)
        times_s, duration_s, treatment = packets.times_s, packets.duration_s, packets.treatment
        if packets.is_cut:
            notes.append("the file is damaged or cut; only the part that can be read is used")
        if packets.num_damaged:
            notes.append(f"damaged packets: {packets.num_damaged}; the frames after them may be wrong")
    else:
        times_s, duration_s = table
    if kind in BARE_JPEG:
        treatment += ("jpeg stream",) if kind == "mjpeg" else ()
        notes.append(f"a stream of JPEG pictures tells no times; {len(times_s) / duration_s:g} per second are assumed")
    last_s, usual_s = duration_s - float(times_s[-1]), typical_step_s(times_s)
    if len(times_s) > 1 and last_s > LONGEST_LAST_S and last_s > LONGEST_LAST_STEPS * usual_s:
        duration_s = float(times_s[-1]) + usual_s
        treatment += ("last frame",)
        notes.append(f"its last frame is said to be shown for {last_s:.0f} s; the usual {usual_s:g} s are taken")
    return Timing(times_s=times_s, duration_s=duration_s, treatment=treatment, warnings=tuple(notes))


def _picture_as_video(source: Source) -> Header:
    """A still, or an animation that Pillow reads."""
    picture = picture_header(source)
    treatment: tuple[str, ...] = ()
    if picture.num_frames == 1:
        delays_s, note = (1.0,), "a still picture, taken as a video of one frame"
    else:
        delays_s, is_slowed = animation_delays_s(source)
        note, treatment = f"animated {picture.format}, read with Pillow", ("slowed",) if is_slowed else ()
    return Header(
        width=picture.width,
        height=picture.height,
        times_s=np.concatenate([[0.0], np.cumsum(delays_s)[:-1]]),
        duration_s=sum(delays_s),
        source_fps=len(delays_s) / sum(delays_s),
        treatment=treatment,
        warnings=(note,),
    )


def _mp4_index(source: Source) -> Index | None:
    """The index of an MP4 file.

    Raises:
        MediaError: it claims more frames than the file can hold; FFmpeg would make room for all of them.
    """
    with source.open() as file:
        index = read_index(file, source.num_bytes)
        if index is not None and claims_too_much(index, file, source.num_bytes):
            raise MediaError(
                f"its index claims more frames than its {source.num_bytes} bytes can hold",
                where=source.name,
                remedy="download it again",
            )
    return index if source.head(8)[4:] == b"ftyp" else None


def _stored_format(stream: VideoStream) -> tuple[tuple[int, int], Fraction]:
    """Width and height as stored, and the shape of a pixel."""
    context = stream.codec_context
    size, aspect = (context.width, context.height), stream.sample_aspect_ratio
    told = first_sequence(context.extradata or b"") if context.name == "h264" else None
    if told is not None:
        size, aspect = (told.width, told.height), aspect or told.pixel_shape
    return size, aspect or Fraction(1)


def _check_size(stored: tuple[int, int], source: Source, stream: VideoStream) -> None:
    if min(stored) <= 0:
        raise MediaError(
            f"its header gives no picture size, or one above {MOST_PIXELS} pixels (codec {codec_name(stream)})",
            where=source.name,
        )
    if stored[0] * stored[1] > MOST_PIXELS:
        raise MediaError(
            f"{stored[0]}x{stored[1]} pixels: pictures above {MOST_PIXELS} pixels are refused",
            where=source.name,
            remedy="make it smaller",
        )


def _checked_by_stream(
    container: InputContainer, stream: VideoStream, table: tuple[np.ndarray, float], *, is_turned: bool
) -> tuple[tuple[np.ndarray, float] | None, FirstFrame | None]:
    """What the headers of an H.264 stream leave of the times in an index, and the look of its frames if they tell.

    Packets may be fields, which the index takes for frames.
    """
    configuration = stream.codec_context.extradata or b""
    start = [*configured_units(configuration), *_first_units(container, stream, length_bytes(configuration))]
    try:
        sequences = [sequence_header(unit) for unit in start if unit[0] & 31 == SEQUENCE_UNIT]
    except ValueError:
        sequences = []
    if not sequences or not all(sequence.is_by_frames for sequence in sequences):
        return None, None
    if is_turned or any(LOOK_MESSAGES & message_kinds(unit) for unit in start):
        return table, None
    transfers = [sequence.transfer for sequence in sequences if sequence.transfer != UNSPECIFIED_TRANSFER]
    return table, FirstFrame(transfer=transfers[-1] if transfers else int(stream.codec_context.color_trc))


def _first_units(container: InputContainer, stream: VideoStream, num_length_bytes: int) -> Iterator[bytes]:
    for packet in container.demux(stream):
        if packet.size:
            return units(bytes(packet), num_length_bytes)
    return iter(())


def _tabled_times(index: Index, source: Source, stream: VideoStream) -> tuple[np.ndarray, float] | None:
    """(times, duration) from the index of an MP4 file; None: look at the packets."""
    table = index.frames(stream.id)
    if table is None or len(table.pts) != len(stream.index_entries) or table.end_bytes > source.num_bytes:
        return None
    base = cast(Fraction, stream.time_base)
    times_s = (table.pts - table.pts[0]) * base.numerator / base.denominator
    return times_s, float(times_s[-1]) + float(table.last_duration * base)
