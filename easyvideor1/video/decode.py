"""From a plan to pixels: exactly the frames it names, upright, resized one by one; nothing else is kept.

A video is decoded from the key frame before each wanted frame up to it. Packets that no wanted frame needs never reach
the decoder; frames nobody asked for and nobody refers to are skipped inside it. What does not come out that way (a
damaged file, one without display times) is decoded from the start; what is still missing is replaced by the nearest
frame that came, with a warning. Damage counts as missing: the decoder's attempts to cover it up are used only where too
little else is left.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import cast

import av
import av.error
import av.filter
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.types import Clip, MediaPlan
from easyvideor1.video.probe import (
    NO_TIME,
    Orientation,
    Packets,
    be_strict,
    frames_from_start,
    opened,
    orientation_of,
    scan,
)
from easyvideor1.video.resize import resize
from easyvideor1.video.sampling import content_digest, video_header
from easyvideor1.video.source import Source, locate
from easyvideor1.video.stills import picture_header, read_animation, read_picture

BACKEND = "pyav"
LEAST_USABLE_FRAC = 0.5
"""With fewer of the wanted frames than this, a file is an error instead of a warning."""
TIME_TOLERANCE_S = 1e-3
NO_STRETCH = (-1, -1)


def decode(plan: MediaPlan, *, threads: int | None = None) -> Clip:
    """The frames of a plan.

    Args:
        threads: of the decoder; None: one per core, at most 4.

    Raises:
        MediaError: the file cannot be decoded, changed since it was planned, or too few of its frames are intact.
    """
    located = locate(plan.media)
    if plan.content and content_digest(located) != plan.content:
        raise MediaError("the file is not the one that was planned", where=plan.media.name, remedy="plan it again")
    canvas = Canvas(plan)
    if isinstance(located, tuple):
        for number in plan.frame_numbers:
            canvas.put(number, read_picture(located[number]))
    elif plan.media.kind == "image":
        canvas.put(0, read_picture(located))
    elif located.content == "picture":
        _draw_picture(located, canvas)
    else:
        _draw_video(located, plan, canvas, threads=threads or min(os.cpu_count() or 1, 4))
    return canvas.clip()


class Canvas:
    """The wanted frames, filled in any order."""

    def __init__(self, plan: MediaPlan) -> None:
        self.plan = plan
        self.slots = {number: slot for slot, number in enumerate(plan.frame_numbers)}
        self.frames = np.empty((len(plan.frame_numbers), 3, plan.height, plan.width), np.uint8)
        self.is_filled = np.zeros(len(plan.frame_numbers), bool)
        self.warnings: list[str] = []

    @property
    def missing(self) -> list[int]:
        """Numbers of the frames that have not come yet, rising."""
        return [number for number, slot in self.slots.items() if not self.is_filled[slot]]

    @property
    def is_too_empty(self) -> bool:
        return self.is_filled.sum() < max(1, len(self.is_filled) * LEAST_USABLE_FRAC)

    def put(self, number: int, pixels: np.ndarray, *, width: int | None = None) -> None:
        """Resize uint8 [H, W, 3], or [H, line bytes] with its width in pixels, into the slot of a frame."""
        slot = self.slots[number]
        rows = pixels.reshape(len(pixels), -1)
        resize(rows, width=pixels.shape[1] if width is None else width, out=self.frames[slot])
        self.is_filled[slot] = True

    def clip(self) -> Clip:
        """The finished clip; frames that never came are copies of their nearest neighbour."""
        filled = np.flatnonzero(self.is_filled)
        total = len(self.is_filled)
        if self.is_too_empty:
            raise MediaError(
                f"damaged: only {len(filled)} of {total} wanted frames can be decoded", where=self.plan.media.name
            )
        for slot in np.flatnonzero(~self.is_filled):
            self.frames[slot] = self.frames[filled[np.abs(filled - slot).argmin()]]
        if len(filled) < total:
            self.warnings.append(f"{total - len(filled)} of {total} frames cannot be decoded; the nearest stands in")
        if not self.frames.any():
            self.warnings.append("every pixel of every frame is black")
        return Clip(
            frames=self.frames,
            times_s=self.plan.times_s,
            source_fps=self.plan.source_fps,
            duration_s=self.plan.duration_s,
            backend=BACKEND,
            warnings=self.plan.warnings + tuple(self.warnings),
        )


def _draw_picture(source: Source, canvas: Canvas) -> None:
    if picture_header(source).num_frames == 1:
        canvas.put(0, read_picture(source))
        return
    for number, pixels in read_animation(source, frozenset(canvas.slots)):
        canvas.put(number, pixels)


def _draw_video(source: Source, plan: MediaPlan, canvas: Canvas, *, threads: int) -> None:
    packets = scan(source)
    times_s = video_header(plan.media, source).times_s
    if len(times_s) != len(packets.shown) or not _is_as_planned(plan, times_s):
        raise MediaError("the file is not the one that was planned", where=source.name, remedy="plan it again")
    if packets.has_times and not packets.is_cut:
        _draw_jumping(source, packets, canvas, threads=threads)
    if packets.has_times and canvas.missing:
        _draw_from_start(source, packets, canvas, threads=threads, is_strict=True)
    if not packets.has_times or canvas.is_too_empty:
        _draw_from_start(source, packets, canvas, threads=threads, is_strict=False)


def _is_as_planned(plan: MediaPlan, times_s: np.ndarray) -> bool:
    origin_s = plan.media.start_s or 0.0
    return all(
        number < len(times_s) and abs(max(0.0, times_s[number] - origin_s) - planned_s) <= TIME_TOLERANCE_S
        for number, planned_s in zip(plan.frame_numbers, plan.times_s, strict=True)
    )


def _by_time(packets: Packets, numbers: list[int]) -> dict[int, int]:
    """Display time in stream units -> number."""
    return {int(packets.pts[packets.shown[number]]): number for number in numbers}


def _draw_jumping(source: Source, packets: Packets, canvas: Canvas, *, threads: int) -> None:
    """Decode only the stretches between a key frame and the last frame wanted after it."""
    wanted = _by_time(packets, canvas.missing)
    stretches = iter(_stretches(packets, list(wanted.values())))
    start, stop = next(stretches)
    with opened(source) as (container, stream):
        context, to_rgb = stream.codec_context, RgbConverter()
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


def _draw_from_start(source: Source, packets: Packets, canvas: Canvas, *, threads: int, is_strict: bool) -> None:
    """Decode everything up to the last missing frame; where packets have no times, frames are counted."""
    missing = set(canvas.missing)
    by_time = _by_time(packets, canvas.missing)
    to_rgb = RgbConverter()
    with opened(source) as (container, stream):
        # with one thread an error is reported for the packet that caused it
        stream.codec_context.thread_count = 1 if is_strict else threads
        for count, frame in enumerate(frames_from_start(container, stream, is_strict=is_strict)):
            number = by_time.get(frame.pts, -1) if packets.has_times and frame.pts is not None else count
            if number in missing:
                to_rgb.draw(frame, number, canvas)
                missing.discard(number)
            if not missing:
                break
    if packets.has_times and not is_strict:
        canvas.warnings.append("most of the stream is damaged; frames are what the decoder made of it")


class RgbConverter:
    """8-bit RGB as the ffmpeg program makes it: through a filter graph, which knows interlacing and bit depth."""

    def __init__(self) -> None:
        self.layout: tuple = ()
        self.graph: av.filter.Graph | None = None
        self.orientation = Orientation()

    def draw(self, frame: av.VideoFrame, number: int, canvas: Canvas) -> None:
        layout = (frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range, frame.rotation)
        if self.graph is None or layout != self.layout:
            self.layout, self.graph = layout, self._build(frame)
            # Not for every frame: asking for side data ties a frame into a cycle, which keeps its memory for long.
            self.orientation = orientation_of(frame)
        self.graph.vpush(frame)
        rgb = self.graph.vpull()
        plane = rgb.planes[0]
        lines = np.frombuffer(memoryview(cast(bytes, plane)), np.uint8).reshape(-1, plane.line_size)[: rgb.height]
        if self.orientation == Orientation():
            canvas.put(number, lines, width=rgb.width)
        else:
            pixels = lines[:, : 3 * rgb.width].reshape(rgb.height, rgb.width, 3)
            canvas.put(number, np.ascontiguousarray(self.orientation.apply(pixels)))

    @staticmethod
    def _build(frame: av.VideoFrame) -> av.filter.Graph:
        graph = av.filter.Graph()
        time_base = frame.time_base or Fraction(1, 1000)
        source = graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format, time_base=time_base, name="in"
        )
        to_format, sink = graph.add("format", "rgb24"), graph.add("buffersink")
        source.link_to(to_format)
        to_format.link_to(sink)
        graph.configure()
        return graph
