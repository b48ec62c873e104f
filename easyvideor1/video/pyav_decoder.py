"""PyAV: a video is decoded from the key frame before each wanted frame up to it.

Packets that no wanted frame needs never reach the decoder; frames nobody asked for and nobody refers to are skipped
inside it. What does not come out that way (a damaged file, one without display times) is decoded from the start; what
is still missing is replaced by the nearest frame that came, with a warning. Damage counts as missing: the decoder's
attempts to cover it up are used only where too little else is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import cast

import av
import av.error
import av.filter
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.types import MediaPlan
from easyvideor1.video.canvas import TIME_TOLERANCE_S, Canvas
from easyvideor1.video.container import Orientation, be_strict, frames_from_start, opened
from easyvideor1.video.packets import NO_TIME, Packets, scan
from easyvideor1.video.sampling import video_header
from easyvideor1.video.source import Source

NO_PACKET = -1
NO_STRETCH = (-1, -1)


def draw(source: Source, plan: MediaPlan, canvas: Canvas, *, threads: int) -> None:
    """Put the wanted frames of a video file on the canvas."""
    header = video_header(plan.media, source)
    if not _is_as_planned(plan, header.times_s):
        raise MediaError("the file is not the one that was planned", where=source.name, remedy="plan it again")
    packets = _at_times(scan(source), header.times_s, source)
    if packets.has_times and not packets.is_cut and not plan.spec.deinterlace:
        _draw_jumping(source, packets, canvas, RgbConverter(header.orientation), threads=threads)
    if packets.has_times and canvas.missing:
        _draw_from_start(source, packets, canvas, RgbConverter(header.orientation), threads=threads, is_strict=True)
    if not packets.has_times or canvas.is_too_empty:
        _draw_from_start(source, packets, canvas, RgbConverter(header.orientation), threads=threads, is_strict=False)


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


def _by_time(packets: Packets, numbers: list[int]) -> dict[int, int]:
    """Display time in stream units -> number, of the frames that there are."""
    shown = {number: packets.shown[number] for number in numbers}
    return {int(packets.pts[packet]): number for number, packet in shown.items() if packet != NO_PACKET}


def _draw_jumping(source: Source, packets: Packets, canvas: Canvas, to_rgb: RgbConverter, *, threads: int) -> None:
    """Decode only the stretches between a key frame and the last frame wanted after it."""
    wanted = _by_time(packets, canvas.missing)
    if not wanted:
        return
    stretches = iter(_stretches(packets, list(wanted.values())))
    start, stop = next(stretches)
    with opened(source) as (container, stream):
        context = stream.codec_context
        context.thread_type, context.thread_count = "AUTO", threads
        be_strict(stream)
        try:
            for number, packet in enumerate(packet for packet in container.demux(stream) if packet.size):
                if number < start or (packet.pts is not None and packet.pts < packets.pts[start]):
                    continue  # not needed, or leans on pictures before the key frame (open GOP)
                context.skip_frame = "DEFAULT" if packet.pts in wanted else "NONREF"
                _draw(context.decode(packet), wanted, canvas, to_rgb)
                if number < stop:
                    continue
                _draw(context.decode(None), wanted, canvas, to_rgb)
                context.flush_buffers()
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
        if runs and start <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], int(packet))
        else:
            runs.append((start, int(packet)))
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
        stream.codec_context.thread_count = 1 if is_strict else threads
        frames = frames_from_start(container, stream, is_strict=is_strict)
        if canvas.plan.spec.deinterlace:
            frames = deinterlaced(frames)
        for count, frame in enumerate(frames):
            number = by_time.get(frame.pts, -1) if packets.has_times and frame.pts is not None else count
            if number in missing:
                to_rgb.draw(frame, number, canvas)
                missing.discard(number)
            if not missing:
                break
    if packets.has_times and not is_strict:
        canvas.warnings.append("most of the stream is damaged; frames are what the decoder made of it")


def deinterlaced(frames: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """The frames with both fields of interlaced ones at the time of the first (yadif); others pass as they are."""
    graph: av.filter.Graph | None = None
    base = Fraction(1)
    for frame in frames:
        if graph is None:
            graph, base = _graph(frame, ("yadif", "mode=send_frame:deint=interlaced")), _clock(frame)
        graph.vpush(frame)
        yield from _pulled(graph, base)
    if graph is not None:
        graph.vpush(None)
        yield from _pulled(graph, base)


def _pulled(graph: av.filter.Graph, base: Fraction) -> Iterator[av.VideoFrame]:
    """What a filter graph gives so far, on the clock it was fed with."""
    while True:
        try:
            frame = graph.vpull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return
        if frame.pts is not None:
            frame.pts, frame.time_base = round(frame.pts * _clock(frame) / base), base
        yield frame


def _graph(frame: av.VideoFrame, step: tuple[str, str]) -> av.filter.Graph:
    """One filter, fed with frames like this one."""
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=_clock(frame), name="in"
    )
    to_step, sink = graph.add(*step), graph.add("buffersink")
    source.link_to(to_step)
    to_step.link_to(sink)
    graph.configure()
    return graph


class RgbConverter:
    """8-bit RGB as the ffmpeg program makes it: through a filter graph, which knows interlacing and bit depth."""

    def __init__(self, orientation: Orientation) -> None:
        # Of the whole file: asked of every frame, some would have none, and its side data keeps memory for long.
        self.orientation = orientation
        self.layout: tuple = ()
        self.graph: av.filter.Graph | None = None

    def draw(self, frame: av.VideoFrame, number: int, canvas: Canvas) -> None:
        layout = (frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range)
        if self.graph is None or layout != self.layout:
            self.layout, self.graph = layout, _graph(frame, ("format", "rgb24"))
        self.graph.vpush(frame)
        rgb = self.graph.vpull()
        plane = rgb.planes[0]
        lines = np.frombuffer(memoryview(cast(bytes, plane)), np.uint8).reshape(-1, plane.line_size)[: rgb.height]
        if self.orientation == Orientation():
            canvas.put(number, lines, width=rgb.width)
        else:
            pixels = lines[:, : 3 * rgb.width].reshape(rgb.height, rgb.width, 3)
            canvas.put(number, np.ascontiguousarray(self.orientation.apply(pixels)))


def _clock(frame: av.VideoFrame) -> Fraction:
    return frame.time_base or Fraction(1, 1000)
