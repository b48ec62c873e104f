"""`easyvideor1 video plan|decode FILE`: what of a video or image will be seen, and the frames themselves."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.cli.frame_options import add_frame_arguments, frame_options
from easyvideor1.errors import DataError, EasyVideoError, UsageError
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.clip_file import write_clip
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a worker process is asked to look at."""

    media: Media
    spec: FrameSpec
    vision: VisionSpec
    with_frames: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    plan = actions.add_parser("plan", help="frame times, size and tokens, from the header alone")
    decode_parser = actions.add_parser("decode", help="the same, and decode the frames")
    decode_parser.add_argument("--out", metavar="CLIP.safetensors", help="write frames uint8 [T, C, H, W] and times_s")
    for action in (plan, decode_parser):
        action.add_argument("file", metavar="FILE", help="a video, an image, an animation, or a folder of frames")
        action.add_argument("--image", action="store_true", help="take it as an image, not as a video")
        action.add_argument("--start", type=float, metavar="S", help="start of the clip, seconds")
        action.add_argument("--end", type=float, metavar="S", help="end of the clip, seconds")
        action.add_argument("--frames-fps", type=float, help="frame rate of a folder of frames")
        action.add_argument("--deadline-s", type=float, default=120.0, help="seconds until the decoder is killed")
        action.add_argument("--json", action="store_true", help="print one line of JSON")
        add_frame_arguments(action)


def run(args: argparse.Namespace) -> int:
    """Returns 0 if it can be seen (verdict ok or warn), 1 if not (verdict error)."""
    options = frame_options(args)
    kind = "image" if args.image else "video"
    media = Media(kind=kind, path=args.file, start_s=args.start, end_s=args.end, fps=args.frames_fps)
    request = Request(media=media, spec=options.specs[kind], vision=options.vision, with_frames=args.action == "decode")
    # In a process of its own: a file that hangs or crashes the decoder ends with a verdict all the same.
    try:
        with Pool(look, workers=1, deadline_s=args.deadline_s) as pool:
            plan, clip = pool.call(request)
    except DataError as error:
        return _show(args, refused(naming(error, media.name)))
    if clip is not None and args.out:
        _write(Path(args.out), clip)
    return _show(args, seen(plan, clip))


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


def _show(args: argparse.Namespace, answer: dict[str, Any]) -> int:
    if args.json:
        print(json.dumps(answer))
    elif answer["verdict"] == "error":
        print(f"error: {answer['reason']}")
    else:
        times = ", ".join(f"{time:.2f}" for time in answer["times_s"])
        print(f"{args.file}: {answer['verdict']}")
        print(f"  source: {answer['duration_s']:.3f} s, {answer['source_fps']:.3f} fps")
        print(f"  seen: {answer['stored_frames']} frames of {answer['width']}x{answer['height']} pixels at {times} s")
        print(f"  patches: {' x '.join(map(str, answer['grid_thw']))}, {answer['num_tokens']} tokens")
        for warning in answer["warnings"]:
            print(f"  warning: {warning}")
    return 1 if answer["verdict"] == "error" else 0
