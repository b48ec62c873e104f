"""torchcodec: the same frames from another reader of FFmpeg.

Optional: `pip install torchcodec` in the version that fits your torch, and FFmpeg with its libraries. For intact files
only: what is damaged is an error here, where PyAV saves what can be saved.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np

from easyvideor1.errors import MediaError, UsageError
from easyvideor1.types import MediaPlan
from easyvideor1.video.canvas import TIME_TOLERANCE_S, Canvas
from easyvideor1.video.container import opened
from easyvideor1.video.container_notes import WHOLE
from easyvideor1.video.known_files import Files
from easyvideor1.video.source import Source

REMEDY = "use backend pyav"
FRAMES_AT_ONCE = 4
"""Frames at native size that are in memory at once."""


def draw(source: Source, plan: MediaPlan, canvas: Canvas, files: Files, *, threads: int) -> None:
    """Put the wanted frames of a video file on the canvas.

    Raises:
        MediaError: torchcodec cannot read the file, or gives frames of other times than planned.
        UsageError: it is not installed, or does not find FFmpeg; or the plan asks for what it cannot do.
    """
    if plan.spec.deinterlace:
        raise UsageError("backend torchcodec cannot deinterlace; use backend pyav")
    if plan.spec.tone_map:
        raise UsageError("backend torchcodec cannot tone-map; use backend pyav")
    try:
        from torchcodec.decoders import VideoDecoder  # pyright: ignore[reportMissingImports]
    except (ImportError, RuntimeError) as error:
        problem = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"backend torchcodec does not load ({problem}); install the torchcodec that fits your torch, "
            "and FFmpeg with its libraries, or use backend pyav"
        ) from None
    packets = files.packets(source)
    if not packets.has_times:
        raise MediaError(
            "its packets carry no display times; torchcodec would guess them", where=source.name, remedy=REMEDY
        )
    header = files.header(source)
    if header.has_alpha:
        raise MediaError("it has transparency, which torchcodec leaves out", where=source.name, remedy=REMEDY)
    if header.crop != WHOLE:
        raise MediaError("its container crops it, which torchcodec does not do", where=source.name, remedy=REMEDY)
    if header.orientation.is_mirrored:
        raise MediaError("it is to be shown mirrored, which torchcodec does not do", where=source.name, remedy=REMEDY)
    with opened(source) as (_, stream):
        stream_index, base = stream.index, cast(Fraction, stream.time_base)
    stamps_s = packets.pts[packets.shown] * base.numerator / base.denominator
    content = source.data if source.data is not None else source.path
    options = {"stream_index": stream_index, "dimension_order": "NHWC", "num_ffmpeg_threads": threads}
    numbers = list(canvas.slots)
    try:
        decoder = VideoDecoder(content, **options)
        for start in range(0, len(numbers), FRAMES_AT_ONCE):
            some = numbers[start : start + FRAMES_AT_ONCE]
            for number, pixels in zip(some, _frames_at(decoder, stamps_s[some], source), strict=True):
                canvas.put(number, pixels)
    except (RuntimeError, ValueError, IndexError) as error:
        problem = str(error).strip().partition("\n")[0]
        raise MediaError(f"torchcodec cannot decode it: {problem}", where=source.name, remedy=REMEDY) from None


def _frames_at(decoder: Any, stamps_s: np.ndarray, source: Source) -> np.ndarray:
    """uint8 [len(stamps_s), H, W, 3], the frames whose display begins at these times of the container's clock."""
    found = decoder.get_frames_played_at((stamps_s + TIME_TOLERANCE_S / 2).tolist())
    off_s = np.abs(found.pts_seconds.numpy() - stamps_s).max()
    if off_s > TIME_TOLERANCE_S:
        raise MediaError(
            f"torchcodec gives frames {off_s:.3f} s off the planned times", where=source.name, remedy=REMEDY
        )
    return found.data.numpy()
