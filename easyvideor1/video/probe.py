"""What a video file holds, known without decoding it: when each frame is shown, upright size, frame rate.

Order of trust: packet times before header fields; decoded times before packet times where the file is damaged.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import av
import av.container
import av.error
import av.video.stream
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.mp4 import Index, read_index
from easyvideor1.video.source import Source, first_bytes, remembered

NO_TIME = np.iinfo(np.int64).min
ATTACHED_PICTURE = 1024
"""Bit of a stream's disposition: a cover, not a video."""
CUT_FRAC = 0.9
"""A file that holds less than this share of the duration its header promises counts as damaged."""

VideoStream = av.video.stream.VideoStream
InputContainer = av.container.InputContainer


@dataclass(frozen=True, slots=True)
class Orientation:
    """How stored pixels become upright ones: first swap rows and columns, then flip."""

    is_swapped: bool = False
    flips_x: bool = False
    flips_y: bool = False

    @property
    def is_mirrored(self) -> bool:
        """Whether it is more than a turn by quarters."""
        return (self.flips_x != self.flips_y) != self.is_swapped

    def apply(self, frame: np.ndarray) -> np.ndarray:
        """A view of [H, W, ...]."""
        if self.is_swapped:
            frame = frame.swapaxes(0, 1)
        return frame[:: -1 if self.flips_y else 1, :: -1 if self.flips_x else 1]


UPRIGHT = Orientation()


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
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Packets:
    """The packets of a video stream in file order (P of them) and which of them are shown (N)."""

    pts: np.ndarray
    """int64 [P] display time in stream units."""
    dts: np.ndarray
    is_key: np.ndarray
    """bool [P]"""
    shown: np.ndarray
    """int64 [N], packet of each shown frame, in display order."""
    has_times: bool
    """False: display times are missing or repeated, so frames are known by counting only."""
    times_s: np.ndarray
    """float64 [N], from the first shown frame."""
    duration_s: float
    num_damaged: int
    """Packets of which the container says that parts were lost."""
    is_cut: bool
    """Reading stopped before what the header promises."""


@remembered(512)
def probe(source: Source) -> Header:
    """Read what the file says about its video.

    Raises:
        MediaError: not a video, no video stream, no decoder for it, no frame.
    """
    index = _mp4_index(source)
    with opened(source, is_header_enough=index is not None) as (_, stream):
        stored = stream.codec_context.width, stream.codec_context.height
        if min(stored) <= 0:
            raise MediaError(f"its header gives no picture size (codec {codec_name(stream)})", where=source.name)
        table = _tabled_times(index, source, stream) if index else None
        aspect = stream.sample_aspect_ratio or Fraction(1)
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
        warnings=warnings,
    )


@contextmanager
def opened(source: Source, *, is_header_enough: bool = False) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The container and its video stream with the largest picture (the first of equals); closed at the end.

    Args:
        is_header_enough: do not decode a frame to learn its format; only an MP4 tells it without.
    """
    container = _open(source, {"codec_whitelist": "none"} if is_header_enough else {})
    if is_header_enough and any(_num_pixels(stream) == 0 for stream in container.streams.video):
        container.close()  # MPEG-4 part 2 and H.263 keep their size where only the decoder finds it
        container = _open(source, {})
    with container:
        streams = [stream for stream in container.streams.video if not _is_cover(stream)]
        # Not FFmpeg's "best": that one depends on how much of the file was read to find out.
        stream = max(streams, key=_num_pixels, default=None)
        if stream is None:
            kinds = ", ".join(sorted({other.type for other in container.streams})) or "none"
            raise MediaError(f"no video stream (streams: {kinds}; a cover picture is no video)", where=source.name)
        if stream.codec_context is None:
            raise MediaError("no decoder for its codec in this build of PyAV", where=source.name)
        yield container, cast(VideoStream, stream)


def _open(source: Source, options: dict[str, str]) -> InputContainer:
    # "file:" keeps a colon in a name from being read as a protocol
    file = io.BytesIO(source.data) if source.data is not None else f"file:{source.path}"
    try:
        # metadata is often not UTF-8; nothing here depends on it
        container = av.open(file, container_options=options, metadata_errors="ignore")  # pyright: ignore
    except (av.error.FFmpegError, OSError) as error:
        raise _unopened(source, error) from None
    return cast(InputContainer, container)


def _num_pixels(stream: VideoStream) -> int:
    return stream.codec_context.width * stream.codec_context.height if stream.codec_context else -1


def _is_cover(stream: Any) -> bool:
    return bool(int(stream.disposition) & ATTACHED_PICTURE)


def _unopened(source: Source, error: Exception) -> MediaError:
    head = source.head(12)
    if head[4:8] == b"ftyp":
        return MediaError(
            f"its index is missing: the file is truncated or still being written ({_reason(error)})",
            where=source.name,
            remedy="download it again",
        )
    return MediaError(
        f"not a video ({_reason(error)}); it begins with {first_bytes(source)}",
        where=source.name,
        remedy="a failed download is often a saved error page",
    )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def codec_name(stream: VideoStream) -> str:
    return stream.codec_context.name if stream.codec_context else "unknown"


def _tabled_times(index: Index, source: Source, stream: VideoStream) -> tuple[np.ndarray, float] | None:
    """(times, duration) from the index of an MP4 file; None: look at the packets."""
    table = index.frames(stream.id)
    if table is None or len(table.pts) != len(stream.index_entries) or table.end_bytes > source.num_bytes:
        return None
    base = cast(Fraction, stream.time_base)
    times_s = (table.pts - table.pts[0]) * base.numerator / base.denominator
    return times_s, float(times_s[-1]) + float(table.last_duration * base)


@remembered(16)
def scan(source: Source) -> Packets:
    """Read every packet of the video stream, decoding none unless the file is damaged.

    Raises:
        MediaError: no frame in it.
    """
    pts, dts, durations, is_key, is_shown = [], [], [], [], []
    num_damaged, is_cut = 0, False
    with opened(source) as (container, stream):
        base = cast(Fraction, stream.time_base)
        rate = stream.average_rate or stream.guessed_rate
        try:
            for packet in container.demux(stream):
                if packet.size == 0:
                    continue
                pts.append(NO_TIME if packet.pts is None else packet.pts)
                dts.append(NO_TIME if packet.dts is None else packet.dts)
                durations.append(packet.duration or 0)
                is_key.append(packet.is_keyframe)
                is_shown.append(not packet.is_discard)
                num_damaged += packet.is_corrupt
        except av.error.FFmpegError:
            is_cut = True
        promised_s = _promised_s(container, stream)
        # AVI stores no display times: what the demuxer makes up is in file order, wrong where frames are reordered.
        has_times = not (container.format.name == "avi" and stream.codec_context.has_b_frames)
        codec = codec_name(stream)
    if not any(is_shown):
        raise MediaError(f"a video stream without frames (codec {codec})", where=source.name)
    table = Packets(
        pts=np.array(pts, np.int64),
        dts=np.array(dts, np.int64),
        is_key=np.array(is_key, bool),
        shown=np.flatnonzero(np.array(is_shown, bool)),
        has_times=has_times,
        times_s=np.empty(0),
        duration_s=0.0,
        num_damaged=num_damaged,
        is_cut=is_cut,
    )
    table = _timed(table, np.array(durations, np.int64), base=base, rate=rate)
    if is_cut or table.duration_s < promised_s * CUT_FRAC:
        table = _only_decodable(source, table)
    return table


def _promised_s(container: InputContainer, stream: VideoStream) -> float:
    """How long the header says the video is; 0 where it does not speak of the video alone."""
    if stream.duration:
        return float(stream.duration * cast(Fraction, stream.time_base))
    if container.duration and len(container.streams) == 1:
        return (container.duration - max(container.start_time or 0, 0)) / av.time_base
    return 0.0


def _only_decodable(source: Source, table: Packets) -> Packets:
    """The table of a damaged file without the frames that do not come out of the decoder."""
    with opened(source) as (container, stream):
        stream.codec_context.thread_count = 1
        frames = frames_from_start(container, stream, is_strict=table.has_times)
        stamps = [NO_TIME if frame.pts is None else frame.pts for frame in frames]
    if table.has_times:
        is_good = np.isin(table.pts[table.shown], stamps)
    else:
        is_good = np.arange(len(table.shown)) < len(stamps)
    if not is_good.any():
        raise MediaError("damaged: not one frame can be decoded", where=source.name, remedy="download it again")
    times_s = table.times_s[is_good]
    step_s = table.duration_s - float(table.times_s[-1])
    return replace(
        table,
        shown=table.shown[is_good],
        times_s=times_s - times_s[0],
        duration_s=float(times_s[-1] - times_s[0]) + step_s,
        is_cut=True,
    )


def be_strict(stream: VideoStream) -> None:
    """Let the decoder fail on damage instead of covering it up."""
    stream.codec_context.options = {"err_detect": "explode"}


def frames_from_start(container: InputContainer, stream: VideoStream, *, is_strict: bool) -> Iterator[av.VideoFrame]:
    """Every frame that decodes, in display order; packets that fail are stepped over.

    Args:
        is_strict: leave out what may be wrong: damaged frames, and all that follow damage up to the next key frame.
    """
    if is_strict:
        be_strict(stream)
    packets = container.demux(stream)
    is_tainted = False
    while True:
        try:
            packet = next(packets, None)
            frames = stream.codec_context.decode(packet if packet is not None and packet.size else None)
        except av.error.EOFError:
            return
        except av.error.InvalidDataError:
            is_tainted = is_strict
            continue
        except av.error.FFmpegError:
            return
        for frame in frames:
            is_tainted = is_tainted and not frame.key_frame
            if not is_tainted and not (is_strict and frame.is_corrupt):
                yield frame
        if packet is None or not packet.size:
            return


def _timed(table: Packets, durations: np.ndarray, *, base: Fraction, rate: Fraction | None) -> Packets:
    """Put the shown packets into display order and give each its time."""
    shown = _decodable(table)
    stamps = table.pts[shown]
    has_times = table.has_times and bool((stamps != NO_TIME).all())
    if has_times:
        order = np.argsort(stamps, kind="stable")
        shown, stamps = shown[order], stamps[order]
        has_times = len(stamps) == 1 or bool((np.diff(stamps) > 0).all())
        times_s = (stamps - stamps[0]) * base.numerator / base.denominator
        last_s = float(durations[shown[-1]] * base)
    else:
        # The step between stored packets, not the header's rate: that one counts fields in some AVI files.
        steps = np.diff(table.dts[shown])
        step_s = float(np.median(steps) * base) if len(steps) and (table.dts[shown] != NO_TIME).all() else 0.0
        times_s = np.arange(len(shown)) * (step_s if step_s > 0 else 1 / float(rate or 25))
        last_s = 0.0
    if last_s <= 0:
        last_s = float(times_s[-1]) / (len(times_s) - 1) if len(times_s) > 1 and times_s[-1] > 0 else 1 / (rate or 25)
    return replace(
        table, shown=shown, has_times=has_times, times_s=times_s, duration_s=float(times_s[-1]) + float(last_s)
    )


def _decodable(table: Packets) -> np.ndarray:
    """The shown packets without those that refer to pictures before the first key frame."""
    keys = np.flatnonzero(table.is_key)
    if not len(keys):
        return table.shown
    first = keys[0]
    shown = table.shown[table.shown >= first]
    if table.has_times and table.pts[first] != NO_TIME:
        shown = shown[(table.pts[shown] >= table.pts[first]) | (table.pts[shown] == NO_TIME)]
    return shown if len(shown) else table.shown


@remembered(512)
def first_orientation(source: Source) -> Orientation:
    """The display matrix of the first frame that decodes; upright where there is none."""
    with opened(source) as (container, stream):
        stream.codec_context.thread_count = 1
        try:
            for frame in container.decode(stream):
                return orientation_of(frame)
        except av.error.FFmpegError:
            return UPRIGHT  # a damaged start; the frames that follow carry the same matrix rarely enough
    return UPRIGHT


def orientation_of(frame: av.VideoFrame) -> Orientation:
    """The display matrix of a frame, its angle rounded to a quarter turn."""
    for data in cast(list[Any], list(frame.side_data)):
        if data.type.name == "DISPLAYMATRIX":
            a, b, _, c, d = struct.unpack_from("=5i", bytes(data))
            if math.hypot(a, d) >= math.hypot(b, c):
                return Orientation(is_swapped=False, flips_x=a < 0, flips_y=d < 0)
            return Orientation(is_swapped=True, flips_x=c < 0, flips_y=b < 0)
    return UPRIGHT
