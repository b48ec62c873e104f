"""Decoded frames made into upright 8-bit RGB, as the ffmpeg program makes it: through a filter graph, which knows
interlacing and bit depth. What may be transparent is put on white; high dynamic range is tone-mapped if asked for."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import av
import av.error
import av.filter
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.canvas import Canvas
from easyvideor1.video.container import UPRIGHT, has_alpha
from easyvideor1.video.container_notes import WHOLE
from easyvideor1.video.probe import Hdr, Header
from easyvideor1.video.stills import on_white

FORMATS = {(False, False): "rgb24", (True, False): "rgba", (False, True): "rgb48le", (True, True): "rgba64le"}
"""(transparent, tone-mapped) -> layout of pixels that they are read from."""


class RgbConverter:
    """Puts frames of one file on a canvas.

    Args:
        header: of the file; asked of every frame, some would have no orientation, and its side data keeps memory for
            long.
        is_mapped: tone-map pictures of high dynamic range; otherwise they are taken as they are.
    """

    def __init__(self, header: Header, *, is_mapped: bool) -> None:
        self._orientation, self._crop = header.orientation, header.crop
        self._hdr: Hdr = header.hdr if is_mapped else ""
        self._sizes: set[tuple[int, int]] = set()
        self._layout: tuple = ()
        self._graph: av.filter.Graph | None = None

    def draw(self, frame: av.VideoFrame, number: int, canvas: Canvas) -> None:
        """Put a frame into its place.

        Raises:
            MediaError: its colours are of a kind that cannot be converted.
        """
        self._note_size(frame, canvas)
        is_clear = has_alpha(frame.format)
        layout = (frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range)
        if self._graph is None or layout != self._layout:
            self._layout, self._graph = layout, graph_of(frame, ("format", FORMATS[is_clear, self._hdr != ""]))
        try:
            self._graph.vpush(frame)
            lines = _lines(self._graph.vpull())
        except av.error.FFmpegError as error:
            colours = f"format {frame.format.name}, matrix {int(frame.colorspace)}"
            raise MediaError(
                f"its colours cannot be converted to RGB ({colours}: {error.strerror})", where=canvas.plan.media.name
            ) from None
        width, crop = frame.width, self._crop
        if not is_clear and not self._hdr and (self._orientation, crop) == (UPRIGHT, WHOLE):
            canvas.put(number, lines, width=width)
            return
        pixels = self._plain(lines, width, is_clear=is_clear)
        pixels = pixels[crop.top : len(pixels) - crop.bottom, crop.left : width - crop.right]
        if not pixels.size:
            return  # a picture smaller than the others, which nothing is left of
        canvas.put(number, np.ascontiguousarray(self._orientation.apply(pixels)))

    def _note_size(self, frame: av.VideoFrame, canvas: Canvas) -> None:
        size = frame.width, frame.height
        if len(self._sizes) == 1 and size not in self._sizes:
            ((width, height),) = self._sizes
            canvas.warnings.append(
                f"its pictures change size ({width}x{height}, then {size[0]}x{size[1]}); all are brought to one size, "
                "whatever their shape"
            )
        self._sizes.add(size)

    def _plain(self, lines: np.ndarray, width: int, *, is_clear: bool) -> np.ndarray:
        """uint8 [H, W, 3] of uint8 [H, line bytes]."""
        channels = 4 if is_clear else 3
        if self._hdr == "":
            pixels = lines[:, : channels * width].reshape(len(lines), width, channels)
            return on_white(pixels) if is_clear else pixels
        deep = lines[:, : 2 * channels * width].reshape(len(lines), width, 2 * channels).view("<u2")
        from easyvideor1.video.tone_map import tone_map  # compiled; only pictures of high dynamic range pay for it

        mapped = tone_map(deep, transfer=self._hdr)
        if not is_clear:
            return mapped
        return on_white(np.dstack([mapped, deep[..., 3] >> 8]).astype(np.uint8))


def deinterlaced(frames: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """The frames with both fields of interlaced ones at the time of the first (yadif); others pass as they are."""
    graph: av.filter.Graph | None = None
    base = Fraction(1)
    for frame in frames:
        if graph is None:
            graph, base = graph_of(frame, ("yadif", "mode=send_frame:deint=interlaced")), _clock(frame)
        graph.vpush(frame)
        yield from _pulled(graph, base)
    if graph is not None:
        graph.vpush(None)
        yield from _pulled(graph, base)


def _pulled(graph: av.filter.Graph, base: Fraction) -> Iterator[av.VideoFrame]:
    """The frames that a filter graph gives so far, on the clock it was fed with."""
    while True:
        try:
            frame = graph.vpull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return
        if frame.pts is not None:
            frame.pts, frame.time_base = round(frame.pts * _clock(frame) / base), base
        yield frame


def graph_of(frame: av.VideoFrame, step: tuple[str, str]) -> av.filter.Graph:
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


def _lines(frame: av.VideoFrame) -> np.ndarray:
    """uint8 [H, line bytes], a view."""
    plane = frame.planes[0]
    return np.frombuffer(memoryview(cast(bytes, plane)), np.uint8).reshape(-1, plane.line_size)[: frame.height]


def _clock(frame: av.VideoFrame) -> Fraction:
    return frame.time_base or Fraction(1, 1000)
