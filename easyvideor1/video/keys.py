"""What stored frames depend on: the key of an entry, what entries share frames, and their frame setting in words."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from easyvideor1.types import FrameSpec, Media, VisionSpec

DECODER_RULE = "pyav-2"
"""Part of the cache key; count it up when decoding gives other pixels or times for some file."""
RESIZE_RULE = "bicubic-antialias-float32-1"
"""Part of the cache key; count it up when any value of `resize.resize` changes."""
TONE_RULE = "bt2390-1"
"""Part of the cache key of what is tone-mapped; count it up when any value of `tone_map.tone_map` changes."""


def cache_key(
    media: Media,
    content: str,
    spec: FrameSpec,
    vision: VisionSpec,
    *,
    is_list: bool,
    treatment: tuple[str, ...] = (),
) -> str:
    """Hex digest of everything the frames depend on, and of nothing else.

    Args:
        content: as of `sampling.content_digest`.
        is_list: it is a folder or list of frames.
        treatment: what is done about this medium that is not done about a plain one.
    """
    is_video = media.kind == "video"
    return _digest(
        _origin(media, content, spec, is_list=is_list, treatment=treatment)
        | {
            "frames": [spec.fps, spec.min_frames, spec.max_frames, spec.total_pixels] if is_video else None,
            "pixels": [spec.min_pixels, spec.max_pixels],
            "factor": [vision.factor_px, vision.temporal_patch if is_video else 1],
        }
    )


def origin_of(
    media: Media,
    content: str,
    spec: FrameSpec,
    size: tuple[int, int],
    *,
    is_list: bool,
    treatment: tuple[str, ...] = (),
) -> str:
    """Hex digest of everything that one frame depends on: entries that share it have the same pixels and time for the
    same frame number, whichever frames they hold.

    Args:
        size: height and width after resizing, in pixels.
    """
    return _digest(_origin(media, content, spec, is_list=is_list, treatment=treatment) | {"size": size})


def setting_of(kind: str, spec: FrameSpec, vision: VisionSpec) -> str:
    """The frame setting of an entry in words, such as "video fps=2 min_frames=4 max_frames=128 ..".

    What is off is left out.
    """
    pixels = {"min_pixels": spec.min_pixels, "max_pixels": spec.max_pixels, "factor_px": vision.factor_px}
    if kind != "video":
        return _words(kind, pixels)
    frames = {"fps": spec.fps, "min_frames": spec.min_frames, "max_frames": spec.max_frames}
    more = {
        "total_pixels": spec.total_pixels,
        "temporal_patch": vision.temporal_patch,
        "deinterlace": spec.deinterlace,
        "tone_map": spec.tone_map,
        "backend": spec.backend,
    }
    return _words(kind, frames | pixels | more)


def _words(kind: str, values: dict[str, Any]) -> str:
    return " ".join([kind, *(f"{name}={shown(value)}" for name, value in values.items() if value not in (None, False))])


def shown(value: object) -> str:
    """A value of a setting in one spelling.

    >>> shown(2.0), shown("2"), shown("0.50"), shown(262144), shown("pyav"), shown(True)
    ('2', '2', '0.5', '262144', 'pyav', 'true')
    """
    try:
        return format(float(str(value)), ".12g")
    except ValueError:
        return str(value).lower()


def _origin(
    media: Media, content: str, spec: FrameSpec, *, is_list: bool, treatment: tuple[str, ...]
) -> dict[str, Any]:
    is_video = media.kind == "video"
    return {
        "content": content,
        "kind": media.kind,
        "clip": [media.start_s, media.end_s] if is_video else None,
        # The rate at which a file is sampled stands with the frame rules, wherever it was asked for.
        "times": [media.fps if is_list else None, media.times_s] if is_video else None,
        "decoder": [spec.backend, spec.deinterlace] if is_video else None,
        "rules": [DECODER_RULE, RESIZE_RULE, *treatment],
    }


def _digest(parts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
