"""The packets of a video stream: which frames there are, in which order, and when each is shown.

Order of trust: display times of packets before their places in the file; decoded times before both where the file is
damaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import av
import av.error
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.container import InputContainer, VideoStream, codec_name, frames_from_start, opened
from easyvideor1.video.source import Source, remembered

NO_TIME = np.iinfo(np.int64).min
MOST_TIME = 1 << 61
"""In stream units; larger stamps are damage."""
UNTIMED_FORMATS = frozenset({"avi", "asf"})
"""They store no display times: what the demuxer makes up is in file order, wrong where frames are reordered."""
RESTART_S = 1.0
"""A clock that goes back by more than this starts anew (joined recordings); by less, it is only untidy."""
CUT_FRAC = 0.9
"""A file that holds less than this share of the duration its header promises counts as damaged."""


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
    """False: display times are missing, repeated or start anew, so frames are known by counting only."""
    times_s: np.ndarray
    """float64 [N], from the first shown frame."""
    duration_s: float
    lost_s: float = 0.0
    """Time from the first frame of the file to the first shown one, where those between are damaged."""
    num_damaged: int
    """Packets of which the container says that parts were lost."""
    is_cut: bool
    """Reading stopped before what the header promises."""


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
        rate = stream.guessed_rate or stream.average_rate
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
        has_times = not (container.format.name in UNTIMED_FORMATS and stream.codec_context.has_b_frames)
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
        lost_s=float(times_s[0]),
        duration_s=float(times_s[-1] - times_s[0]) + step_s,
        is_cut=True,
    )


def _timed(table: Packets, durations: np.ndarray, *, base: Fraction, rate: Fraction | None) -> Packets:
    """Put the shown packets into display order and give each its time."""
    shown = _decodable(table)
    by_time = shown[np.argsort(table.pts[shown], kind="stable")]
    stamps = table.pts[by_time]
    has_times = (
        table.has_times
        and bool((np.abs(stamps[[0, -1]]) <= MOST_TIME).all())
        and bool((np.diff(stamps) > 0).all())
        and not _restarts(table.dts[shown], base)
    )
    if has_times:
        shown, last_s = by_time, float(durations[by_time[-1]] * base)
        times_s = (stamps - stamps[0]).astype(float) * base.numerator / base.denominator
    else:
        times_s, last_s = _stored_times_s(table.dts[shown], durations[shown], base, rate), 0.0
    if last_s <= 0:
        last_s = _typical_s(np.diff(times_s), rate)
    return replace(table, shown=shown, has_times=has_times, times_s=times_s, duration_s=float(times_s[-1]) + last_s)


def _stored_times_s(dts: np.ndarray, durations: np.ndarray, base: Fraction, rate: Fraction | None) -> np.ndarray:
    """float64 [N], rising: when packets follow each other in file order, which is about when frames are shown.

    A clock that is missing or starts anew goes on by a usual step, times that do not rise are evened out. The header's
    rate is asked last: it counts fields in some AVI files.
    """
    steps_s = np.diff(dts) * float(base)
    is_known = (steps_s >= -RESTART_S) & (dts[1:] != NO_TIME) & (dts[:-1] != NO_TIME)
    is_up = is_known & (steps_s > 0)
    usual_s = _typical_s(steps_s[is_up] if is_up.any() else durations[durations > 0] * float(base), rate)
    clock_s = np.concatenate([[0.0], np.cumsum(np.where(is_known, steps_s, usual_s))])
    good = np.flatnonzero(clock_s > np.maximum.accumulate(np.concatenate([[-1.0], clock_s[:-1]])))
    numbers = np.arange(len(dts))
    return np.interp(numbers, good, clock_s[good]) + usual_s * np.maximum(0, numbers - good[-1])


def _restarts(dts: np.ndarray, base: Fraction) -> bool:
    """Whether the clock of the packets, int64 [P] in file order, starts anew somewhere."""
    known = dts[dts != NO_TIME]
    return bool((np.diff(known) * float(base) < -RESTART_S).any())


def _typical_s(steps_s: np.ndarray, rate: Fraction | None) -> float:
    """The median of the steps between frames; without any, what the header says."""
    return float(np.median(steps_s)) if len(steps_s) else 1 / float(rate or 25)


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
