"""The packets of a video stream: which frames there are, in which order, and when each is shown.

Order of trust: display times of packets before their places in the file; decoded times before both where the file is
damaged, or where packets are fields and do not tell which of them belong together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import av
import av.error
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.container import (
    InputContainer,
    VideoStream,
    codec_name,
    decoder_of,
    frames_from_start,
    opened,
)
from easyvideor1.video.fields import FieldReader
from easyvideor1.video.source import Source, remembered
from easyvideor1.video.stills import BROWSER_DELAY_MS, SHORTEST_DELAY_MS
from easyvideor1.video.stray_times import stray_places, without_strays

NO_TIME = np.iinfo(np.int64).min
MOST_TIME = 1 << 61
"""Largest plausible stamp in stream units; larger ones are damage."""
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
    """int64 [P] display time in stream units; of the second field of a frame, that of the first."""
    is_key: np.ndarray
    """bool [P], never of the second field of a frame"""
    is_second: np.ndarray
    """bool [P], whether it completes the frame of the packet before, which holds its first field"""
    shown: np.ndarray
    """int64 [N], packet of each shown frame, in display order."""
    has_times: bool
    """False: display times are missing or start anew, so frames are known by counting only."""
    times_s: np.ndarray
    """float64 [N], from the first shown frame."""
    duration_s: float
    lost_s: float = 0.0
    """Time from the first frame of the file to the first shown one, where those between are damaged."""
    treatment: tuple[str, ...] = ()
    """What was made of the packets beyond taking them as they are (see `probe.Header`)."""
    num_damaged: int
    """Packets of which the container says that parts were lost."""
    is_cut: bool
    """Reading stopped before what the header promises."""


@remembered(16)
def scan(source: Source) -> Packets:
    """Read every packet of the video stream, decoding none unless the packets do not tell which frames there are.

    Raises:
        MediaError: no frame in it.
    """
    pts, dts, durations, is_key, is_shown = [], [], [], [], []
    num_damaged, is_cut = 0, False
    with opened(source) as (container, stream):
        base = cast(Fraction, stream.time_base)
        rate = stream.guessed_rate or stream.average_rate
        fields = FieldReader(stream.codec_context.extradata or b"") if codec_name(stream) == "h264" else None
        try:
            for packet in container.demux(stream):
                if packet.size == 0:
                    continue
                if fields is not None and (packet.is_keyframe or fields.may_have_fields):
                    fields.read(len(pts), bytes(packet))
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
        codec, is_gif = codec_name(stream), container.format.name == "gif"
    if not any(is_shown):
        raise MediaError(f"a video stream without frames (codec {codec})", where=source.name)
    table = Packets(
        pts=np.array(pts, np.int64),
        is_key=np.array(is_key, bool),
        is_second=np.zeros(len(pts), bool),
        shown=np.flatnonzero(np.array(is_shown, bool)),
        has_times=has_times,
        times_s=np.empty(0),
        duration_s=0.0,
        num_damaged=num_damaged,
        is_cut=is_cut,
    )
    lengths = np.array(durations, np.int64)
    if fields is not None and fields.may_have_fields:
        fields.finish()
        table = _with_fields_joined(table, fields) if fields.is_sure else _as_decoded(source, table)
        np.add.at(lengths, _firsts(table.is_second), lengths[table.is_second])
        if len(table.shown) < sum(is_shown):
            table = replace(table, treatment=(*table.treatment, "fields"))
    table = _timed(table, np.array(dts, np.int64), lengths, base=base, rate=rate)
    if fields is not None and fields.may_have_fields:
        table = _with_whole_last_frame(table)
    if is_gif:
        table = _slowed(table, lengths * float(base))
    reached_s = max(table.duration_s, _reached_s(table, base))
    if is_cut or reached_s < promised_s * CUT_FRAC:
        table = _only_decodable(source, table)
    return table


def _slowed(table: Packets, durations_s: np.ndarray) -> Packets:
    """The table of an animation, its shortest frames shown as long as browsers show them."""
    shown_s = durations_s[table.shown]
    is_short = shown_s < (SHORTEST_DELAY_MS + 0.5) / 1000
    if not is_short.any():
        return table
    ends_s = np.cumsum(np.where(is_short, BROWSER_DELAY_MS / 1000, shown_s))
    times_s = np.append(0.0, ends_s[:-1])
    return replace(table, times_s=times_s, duration_s=float(ends_s[-1]), treatment=(*table.treatment, "slowed"))


def _with_whole_last_frame(table: Packets) -> Packets:
    """The table with a usual length for the last frame, where the container gives it that of a field."""
    last_s, usual_s = table.duration_s - table.times_s[-1], typical_step_s(table.times_s)
    if last_s > 0.75 * usual_s:
        return table
    treatment = table.treatment if "fields" in table.treatment else (*table.treatment, "fields")
    return replace(table, duration_s=float(table.times_s[-1]) + usual_s, treatment=treatment)


def _with_fields_joined(table: Packets, fields: FieldReader) -> Packets:
    """The table with one shown packet for each frame."""
    is_second, begins = np.zeros(len(table.pts), bool), np.ones(len(table.pts), bool)
    is_second[list(fields.seconds)] = True
    begins[list(fields.unshown)] = False
    return _joined(table, is_second, table.shown[begins[table.shown]])


def _as_decoded(source: Source, table: Packets) -> Packets:
    """The table with the packets shown whose times the decoder gives to its frames."""
    stamps = _decoded_stamps(source, is_strict=False)
    if NO_TIME in stamps:
        return replace(table, shown=table.shown[: len(stamps)], has_times=False)
    is_shown = np.isin(table.pts, stamps)
    is_second = ~is_shown & np.append(False, is_shown[:-1])
    return _joined(table, is_second, table.shown[is_shown[table.shown]])


def _joined(table: Packets, is_second: np.ndarray, shown: np.ndarray) -> Packets:
    pts = table.pts.copy()
    pts[is_second] = pts[_firsts(is_second)]
    shown = shown if len(shown) else table.shown
    return replace(table, pts=pts, is_key=table.is_key & ~is_second, is_second=is_second, shown=shown)


def _firsts(is_second: np.ndarray) -> np.ndarray:
    """int64, of each second field the packet that holds the first: the last before it that is no second field."""
    packets = np.arange(len(is_second))
    return np.maximum.accumulate(np.where(is_second, 0, packets))[is_second]


def _promised_s(container: InputContainer, stream: VideoStream) -> float:
    """How long the header says the video is; 0 where it does not speak of the video alone."""
    if stream.duration:
        return float(stream.duration * cast(Fraction, stream.time_base))
    if container.duration and len(container.streams) == 1:
        return (container.duration - max(container.start_time or 0, 0)) / av.time_base
    return 0.0


def _reached_s(table: Packets, base: Fraction) -> float:
    """From the first to the last display time as they stand in the file, stray ones included: a header counts those."""
    stamps = table.pts[table.shown]
    return float((int(stamps.max()) - int(stamps.min())) * base) if table.has_times else 0.0


def _only_decodable(source: Source, table: Packets) -> Packets:
    """The table of a damaged file without the frames that do not come out of the decoder."""
    stamps = _decoded_stamps(source, is_strict=table.has_times)
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


def _decoded_stamps(source: Source, *, is_strict: bool) -> list[int]:
    """Display times that the decoder gives to the frames of a file, in stream units, NO_TIME where it gives none."""
    with opened(source) as (container, stream):
        decoder = decoder_of(stream, threads=1, is_strict=is_strict)
        frames = frames_from_start(container, stream, decoder, is_strict=is_strict)
        return [NO_TIME if frame.pts is None else frame.pts for frame in frames]


def _timed(table: Packets, dts: np.ndarray, durations: np.ndarray, *, base: Fraction, rate: Fraction | None) -> Packets:
    """Put the shown packets into display order and give each its time."""
    shown = _decodable(table)
    found = table.pts[shown]
    has_times = table.has_times and bool(found.min() >= -MOST_TIME and found.max() <= MOST_TIME)
    dts = _with_strays_unknown(dts, base)
    if has_times and not _restarts(dts[shown], base):
        pts = without_strays(found, float(base))
        order = np.argsort(pts, kind="stable")
        shown, stamps = shown[order], pts[order]
        last_s = float(durations[shown[-1]] * base)
        times_s = (stamps - stamps[0]).astype(float) * base.numerator / base.denominator
        is_whole = bool((np.diff(stamps) > 0).all() and (pts == found).all())
        times_s = _parted(times_s, _usual_s(np.diff(times_s), durations, base, rate))
    else:
        has_times = False
        is_whole = len(set(dts[shown] == NO_TIME)) == 1
        times_s, last_s = _stored_times_s(dts[shown], durations[shown], base, rate), 0.0
    if last_s <= 0:
        last_s = _typical_s(np.diff(times_s), rate)
    return replace(
        table,
        shown=shown,
        has_times=has_times,
        times_s=times_s,
        duration_s=float(times_s[-1]) + last_s,
        treatment=table.treatment if is_whole else (*table.treatment, "times"),
    )


def _parted(times_s: np.ndarray, usual_s: float) -> np.ndarray:
    """Times that do not fall, made to rise: frames with the same time share what is left up to the next one."""
    starts = np.flatnonzero(np.append(True, np.diff(times_s) > 0))
    counts = np.diff(np.append(starts, len(times_s)))
    ends_s = np.append(times_s[starts[1:]], times_s[-1] + counts[-1] * usual_s)
    steps_s = (ends_s - times_s[starts]) / counts
    return times_s + (np.arange(len(times_s)) - np.repeat(starts, counts)) * np.repeat(steps_s, counts)


def _stored_times_s(dts: np.ndarray, durations: np.ndarray, base: Fraction, rate: Fraction | None) -> np.ndarray:
    """float64 [N], rising: when packets follow each other in file order, which is about when frames are shown.

    A clock that starts anew goes on by a usual step; times that are missing or do not rise are evened out. The header's
    rate is asked last: it counts fields in some AVI files.
    """
    numbers = np.arange(len(dts))
    known = np.flatnonzero(dts != NO_TIME)
    if not len(known):
        return _usual_s(np.empty(0), durations, base, rate) * numbers
    steps_s = np.diff(dts[known]) * float(base)
    usual_s = _usual_s(steps_s / np.diff(known), durations, base, rate)
    clock_s = np.cumsum(np.append(0.0, np.where(steps_s >= -RESTART_S, steps_s, usual_s * np.diff(known))))
    good = clock_s > np.maximum.accumulate(np.append(-np.inf, clock_s[:-1]))
    known, clock_s = known[good], clock_s[good]
    before_s, after_s = usual_s * (known[0] - numbers), usual_s * np.maximum(0, numbers - known[-1])
    return np.interp(numbers, known, clock_s) + usual_s * known[0] - np.maximum(0.0, before_s) + after_s


def _usual_s(steps_s: np.ndarray, durations: np.ndarray, base: Fraction, rate: Fraction | None) -> float:
    """The usual time between frames: of the steps that go up, else of the durations, else what the header says."""
    is_up = steps_s > 0
    return _typical_s(steps_s[is_up] if is_up.any() else durations[durations > 0] * float(base), rate)


def _with_strays_unknown(dts: np.ndarray, base: Fraction) -> np.ndarray:
    """int64 [P] in file order, NO_TIME in the place of stray ones."""
    known = np.flatnonzero(dts != NO_TIME)
    cleaned = dts.copy()
    cleaned[known[list(stray_places(dts[known], float(base)))]] = NO_TIME
    return cleaned


def _restarts(dts: np.ndarray, base: Fraction) -> bool:
    """Whether the clock of the packets, int64 [P] in file order, starts anew somewhere."""
    known = dts[dts != NO_TIME]
    return bool((np.diff(known) * float(base) < -RESTART_S).any())


def typical_step_s(times_s: np.ndarray) -> float:
    """The usual time between frames."""
    return _typical_s(np.diff(times_s), None)


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
