"""The plan and the frames of one video or image, or the reason why it cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError, EasyVideoError, UsageError
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.clip_file import write_clip
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media


@dataclass(frozen=True, kw_only=True)
class Request:
    """The task of a worker process: one medium to plan or decode."""

    media: Media
    spec: FrameSpec
    vision: VisionSpec
    with_frames: bool


def look_at(request: Request, *, deadline_s: float, out: Path | None = None) -> dict[str, Any]:
    """The answer about a medium: verdict ok, warn or error, with what a plan says; the work runs in a process of its
    own, so that a file that hangs or crashes the decoder ends with a verdict all the same.

    Args:
        out: file to write the decoded frames to.

    Raises:
        UsageError: contradicting frame settings, or `out` cannot be written.
    """
    try:
        with Pool(look, workers=1, deadline_s=deadline_s) as pool:
            plan, clip = pool.call(request)
    except DataError as error:
        return refused(naming(error, request.media.name))
    if clip is not None and out is not None:
        _write(out, clip)
    return seen(plan, clip)


def look(request: Request) -> tuple[MediaPlan, Clip | None]:
    """Plan a medium, and decode it if asked to."""
    plan = plan_media(request.media, request.spec, request.vision)
    return plan, decode(plan) if request.with_frames else None


def seen(plan: MediaPlan, clip: Clip | None) -> dict[str, Any]:
    """The answer about a medium that can be read; where it was decoded, as it was decoded."""
    warnings = clip.warnings if clip is not None else plan.warnings
    return {
        "verdict": "warn" if warnings else "ok",
        "reason": warnings[0] if warnings else "",
        "warnings": list(warnings),
        "width": plan.width,
        "height": plan.height,
        "times_s": list(clip.times_s if clip is not None else plan.times_s),
        "source_fps": plan.source_fps,
        "duration_s": plan.duration_s,
        "num_tokens": plan.num_tokens,
        "grid_thw": list(plan.grid_thw),
        "backend": plan.spec.backend,
        "stored_frames": len(clip.frames) if clip is not None else len(plan.times_s),
        "cache_key": plan.cache_key,
    }


def refused(error: EasyVideoError) -> dict[str, Any]:
    """The answer about a medium that cannot be read."""
    nothing = dict.fromkeys(("width", "height", "source_fps", "duration_s", "grid_thw", "backend", "cache_key"))
    return {
        "verdict": "error",
        "reason": str(error),
        "warnings": [],
        "times_s": [],
        "num_tokens": 0,
        "stored_frames": 0,
    } | nothing


def _write(path: Path, clip: Clip) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_clip(path, clip)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written: {error.strerror}") from None
