"""From a plan to pixels: exactly the frames it names, upright, resized one by one; nothing else is kept."""

from __future__ import annotations

import os

from easyvideor1.errors import MediaError
from easyvideor1.types import Clip, MediaPlan
from easyvideor1.video import pyav_decoder, torchcodec_decoder
from easyvideor1.video.canvas import Canvas
from easyvideor1.video.known_files import FRESH, Files
from easyvideor1.video.sampling import content_digest
from easyvideor1.video.source import Source, locate
from easyvideor1.video.stills import picture_header, read_animation, read_picture

MOST_READS = 2
"""A file that was touched while it was read (its owner changed, say) is read once more."""
BACKENDS = {"pyav": pyav_decoder.draw, "torchcodec": torchcodec_decoder.draw}
"""FrameSpec.backend -> what puts the wanted frames of a video file on a canvas."""


def decode(plan: MediaPlan, *, threads: int | None = None, files: Files = FRESH) -> Clip:
    """The frames of a plan.

    Args:
        threads: of the decoder; None: one per core, at most 4.
        files: who is asked about a video file (see `sampling.plan_media`).

    Raises:
        MediaError: the file cannot be decoded, changed since it was planned or while it was read, or too few of its
            frames are intact.
        UsageError: the backend is not installed, or cannot do what the plan asks for.
    """
    for _ in range(MOST_READS):
        located = locate(plan.media)
        if plan.content and content_digest(located) != plan.content:
            raise MediaError("the file is not the one that was planned", where=plan.media.name, remedy="plan it again")
        clip = _read(plan, located, files, threads=threads or min(os.cpu_count() or 1, 4))
        if all(source.is_unchanged for source in (located if isinstance(located, tuple) else (located,))):
            return clip
    raise MediaError("it changes while it is read", where=plan.media.name, remedy="wait until it is complete")


def _read(plan: MediaPlan, located: Source | tuple[Source, ...], files: Files, *, threads: int) -> Clip:
    canvas = Canvas(plan)
    if isinstance(located, tuple):
        for number in plan.frame_numbers:
            canvas.put(number, read_picture(located[number]))
    elif plan.media.kind == "image":
        canvas.put(0, read_picture(located))
    elif located.content == "picture":
        _draw_picture(located, canvas)
    else:
        BACKENDS[plan.spec.backend](located, plan, canvas, files, threads=threads)
    return canvas.clip()


def _draw_picture(source: Source, canvas: Canvas) -> None:
    if picture_header(source).num_frames == 1:
        canvas.put(0, read_picture(source))
        return
    for number, pixels in read_animation(source, frozenset(canvas.slots)):
        canvas.put(number, pixels)
