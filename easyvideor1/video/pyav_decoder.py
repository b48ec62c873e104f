"""PyAV: a video is decoded from the key frame before each wanted frame up to it.

Packets that no wanted frame needs never reach the decoder; frames nobody asked for and nobody refers to are skipped
inside it. What does not come out that way (a damaged file, one without display times) is decoded from the start; what
is still missing is replaced by the nearest frame that came, with a warning. Damage counts as missing: the decoder's
attempts to cover it up are used only where too little else is left.
"""

from __future__ import annotations

from dataclasses import replace

import av
import av.error
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.types import MediaPlan
from easyvideor1.video.canvas import TIME_TOLERANCE_S, Canvas
from easyvideor1.video.container import decoder_of, frames_from_start, opened
from easyvideor1.video.known_files import Files
from easyvideor1.video.packets import NO_TIME, Packets
from easyvideor1.video.rgb import RgbConverter, deinterlaced
from easyvideor1.video.source import Source

NO_PACKET = -1
NO_STRETCH = (-1, -1)


def draw(source: Source, plan: MediaPlan, canvas: Canvas, files: Files, *, threads: int) -> None:
    """Put the wanted frames of a video file on the canvas."""
    header = files.header(source)
    if not _is_as_planned(plan, header.times_s):
        raise MediaError("the file is not the one that was planned", where=source.name, remedy="plan it again")
    packets = _at_times(files.packets(source), header.times_s, source)
    to_rgb = RgbConverter(header, is_mapped=plan.spec.tone_map)
    if packets.has_times and not packets.is_cut and not plan.spec.deinterlace:
        _draw_jumping(source, packets, canvas, to_rgb, threads=threads)
    if packets.has_times and canvas.missing:
        _draw_from_start(source, packets, canvas, to_rgb, threads=threads, is_strict=True)
    if not packets.has_times or canvas.is_too_empty:
        _draw_from_start(source, packets, canvas, to_rgb, threads=threads, is_strict=False)


def _is_as_planned(plan: MediaPlan, times_s: np.ndarray) -> bool:
    origin_s = plan.media.start_s or 0.0
    return all(
        number < len(times_s) and abs(max(0.0, times_s[number] - origin_s) - planned_s) <= TIME_TOLERANCE_S
        for number, planned_s in zip(plan.frame_numbers, plan.times_s, strict=True)
    )


def _at_times(packets: Packets, times_s: np.ndarray, source: Source) -> Packets:
    """The packets with one shown at each of these times, NO_PACKET where there is none.

    Frames that the index of a damaged file promises may not be there when it is read.
    """
    if len(packets.shown) == len(times_s):
        return packets
    if not packets.has_times:
        raise MediaError(
            f"its index promises {len(times_s)} frames, {len(packets.shown)} can be read", where=source.name
        )
    there_s = packets.times_s + packets.lost_s
    places = np.searchsorted(there_s, times_s - TIME_TOLERANCE_S).clip(max=len(there_s) - 1)
    is_there = np.abs(there_s[places] - times_s) <= TIME_TOLERANCE_S
    return replace(packets, shown=np.where(is_there, packets.shown[places], NO_PACKET), times_s=times_s)


def _by_time(packets: Packets, numbers: list[int]) -> dict[int, list[int]]:
    """Display time in stream units -> numbers of the frames there, of those times that are asked for.

    Mostly one; of those that share a time, the decoder gives the first first.
    """
    is_there = packets.shown != NO_PACKET
    there = np.flatnonzero(is_there)
    stamps = packets.pts[packets.shown[there]]
    asked = np.isin(stamps, packets.pts[packets.shown[[number for number in numbers if is_there[number]]]])
    found: dict[int, list[int]] = {}
    for stamp, number in zip(stamps[asked].tolist(), there[asked].tolist(), strict=True):
        found.setdefault(stamp, []).append(number)
    return found


def _draw_jumping(source: Source, packets: Packets, canvas: Canvas, to_rgb: RgbConverter, *, threads: int) -> None:
    """Decode only the stretches between a key frame and the last frame wanted after it."""
    by_time = _by_time(packets, canvas.missing)
    # Which of two frames with the same time comes out can only be told by counting from the start.
    wanted = {stamp: numbers[0] for stamp, numbers in by_time.items() if len(numbers) == 1}
    if not wanted:
        return
    stretches = iter(_stretches(packets, list(wanted.values())))
    start, stop = next(stretches)
    with opened(source) as (container, stream):
        decoder = decoder_of(stream, threads=threads, is_strict=True)
        decoder.thread_type = "AUTO"
        try:
            stamps = packets.pts.tolist()
            for number, packet in enumerate(packet for packet in container.demux(stream) if packet.size):
                if number < start or NO_TIME < stamps[number] < stamps[start]:
                    continue  # not needed, or leans on pictures before the key frame (open GOP)
                decoder.skip_frame = "DEFAULT" if stamps[number] in wanted else "NONREF"
                _draw(decoder.decode(packet), wanted, canvas, to_rgb)
                if number < stop:
                    continue
                _draw(decoder.decode(None), wanted, canvas, to_rgb)
                decoder.flush_buffers()
                start, stop = next(stretches, NO_STRETCH)
                if (start, stop) == NO_STRETCH:
                    return
        except av.error.FFmpegError:
            return  # damage, or a jump the stream does not allow: what is missing now is decoded from the start


def _stretches(packets: Packets, numbers: list[int]) -> list[tuple[int, int]]:
    """First and last packet (included) of each run that has to be decoded, in file order."""
    keys = np.flatnonzero(packets.is_key & (packets.pts != NO_TIME))
    runs: list[tuple[int, int]] = []
    for packet in np.sort(packets.shown[numbers]):
        before = keys[(keys <= packet) & (packets.pts[keys] <= packets.pts[packet])]
        start = int(before[-1]) if len(before) else 0
        end = packet + 1 if packets.is_second[packet + 1 : packet + 2].any() else packet
        if runs and start <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], int(end))
        else:
            runs.append((start, int(end)))
    return runs


def _draw(frames: list[av.VideoFrame], wanted: dict[int, int], canvas: Canvas, to_rgb: RgbConverter) -> None:
    for frame in frames:
        number = wanted.get(frame.pts) if frame.pts is not None else None
        if number is not None and not frame.is_corrupt:
            to_rgb.draw(frame, number, canvas)


def _draw_from_start(
    source: Source, packets: Packets, canvas: Canvas, to_rgb: RgbConverter, *, threads: int, is_strict: bool
) -> None:
    """Decode everything up to the last missing frame; where packets have no times, frames are counted."""
    missing = set(canvas.missing)
    by_time = _by_time(packets, canvas.missing)
    with opened(source) as (container, stream):
        # with one thread an error is reported for the packet that caused it
        decoder = decoder_of(stream, threads=1 if is_strict else threads, is_strict=is_strict)
        frames = frames_from_start(container, stream, decoder, is_strict=is_strict)
        if canvas.plan.spec.deinterlace:
            frames = deinterlaced(frames)
        for count, frame in enumerate(frames):
            number = count
            if packets.has_times and frame.pts is not None:
                here = by_time.get(frame.pts)
                number = here.pop(0) if here else -1
            if number in missing:
                to_rgb.draw(frame, number, canvas)
                missing.discard(number)
            if not missing:
                break
    if packets.has_times and not is_strict:
        canvas.warnings.append("most of the stream is damaged; frames are what the decoder made of it")
