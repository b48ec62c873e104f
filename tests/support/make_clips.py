"""Tiny clips that say their own frame number: the grey of the middle is 20 + 4 * number, a red block marks the top left
and a blue one the bottom right of the upright picture."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

BLOCK = 16


def numbered(number: float, *, width: int = 96, height: int = 64, slope: float = 4.0) -> np.ndarray:
    """uint8 [H, W, 3] picture of a frame number."""
    picture = np.full((height, width, 3), round(20 + slope * number) % 256, np.uint8)
    picture[:BLOCK, :BLOCK] = (255, 0, 0)
    picture[-BLOCK:, -BLOCK:] = (0, 0, 255)
    return picture


def read_number(picture: np.ndarray, *, slope: float = 4.0) -> float:
    """The number drawn into uint8 [3, H, W]."""
    _, height, width = picture.shape
    middle = picture[:, height // 2 - 2 : height // 2 + 2, width // 2 - 2 : width // 2 + 2]
    return (float(middle.mean()) - 20) / slope


@contextlib.contextmanager
def usual_priority() -> Iterator[None]:
    """As root, SVT-AV1 gives the thread that encodes a real-time priority. Another encoder that spins while it waits
    for threads of its own would then wait for ever, and every process started later would have that priority too."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def write_clip(
    path: Path,
    pictures: Iterable[np.ndarray],
    *,
    codec: str = "libx264",
    rate: Fraction | int = 10,
    pix_fmt: str = "yuv420p",
    codec_options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    container_format: str | None = None,
    times_ms: Sequence[int] | None = None,
    rotation: int | None = None,
    aspect: Fraction | None = None,
) -> Path:
    """Encode RGB pictures; at `times_ms`, or evenly at `rate`."""
    options = container_options or {}
    with usual_priority(), av.open(str(path), "w", format=container_format, options=options) as container:
        stream = container.add_stream(codec, rate=Fraction(rate), options=codec_options or {})
        assert isinstance(stream, av.VideoStream)
        stream.pix_fmt = pix_fmt
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if rotation is not None:
            stream.set_display_rotation(rotation)
        base = Fraction(1, 1000) if times_ms is not None else 1 / Fraction(rate)
        stream.codec_context.time_base = base
        for number, picture in enumerate(pictures):
            if number == 0:
                stream.height, stream.width = picture.shape[:2]
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), "rgb24")
            frame.time_base = base
            frame.pts = times_ms[number] if times_ms is not None else number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
