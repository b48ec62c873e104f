"""`easyvideor1 video plan|decode FILE`: the frames of a video or image that a model sees."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from easyvideor1.config import ModelConfig, Settings
from easyvideor1.runs.looking import Request, look_at
from easyvideor1.runs.media import media_specs, model_vision
from easyvideor1.types import FrameSpec, Media, MediaKind

EXAMPLES = ("easyvideor1 video plan demo-run/data/videos/train-000.mp4 --fps 1",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    plan = actions.add_parser("plan", help="frame times, size and tokens, from the header alone")
    decode = actions.add_parser("decode", help="the same, and decode the frames")
    decode.add_argument("--out", metavar="CLIP.safetensors", help="write frames uint8 [T, C, H, W] and times_s")
    for action in (plan, decode):
        action.add_argument("file", metavar="FILE", help="a video, an image, an animation, or a folder of frames")
        action.add_argument("--image", action="store_true", help="take it as an image, not as a video")
        action.add_argument("--start", type=float, metavar="S", help="start of the clip, seconds")
        action.add_argument("--end", type=float, metavar="S", help="end of the clip, seconds")
        action.add_argument("--frames-fps", type=float, help="frame rate of a folder of frames")
        action.add_argument("--deadline-s", type=float, default=120.0, help="seconds until the decoder is killed")
        action.add_argument("--json", action="store_true", help="print one line of JSON")
        action.add_argument("--model", help="folder of the model whose patch sizes count (default: those of Qwen3-VL)")
        _add_frame_arguments(action.add_argument_group("frames", "Defaults are those of data.video and data.image."))


def _add_frame_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fps", type=float, help="frames per second to sample")
    group.add_argument("--min-frames", type=int, help="fewest frames")
    group.add_argument("--max-frames", type=int, help="most frames")
    group.add_argument("--min-pixels", type=int, help="smallest height*width of a frame after resizing")
    group.add_argument("--max-pixels", type=int, help="largest height*width of a frame after resizing")
    group.add_argument("--total-pixels", type=int, help="largest frames*height*width")
    group.add_argument("--deinterlace", action=argparse.BooleanOptionalAction, help="of interlaced video")
    group.add_argument("--backend", choices=get_args(get_type_hints(FrameSpec)["backend"]), help="decoder of videos")


def run(args: argparse.Namespace) -> int:
    """Returns 0 if it can be seen (verdict ok or warn), 1 if not (verdict error)."""
    kind: MediaKind = "image" if args.image else "video"
    given = {item.name: getattr(args, item.name) for item in fields(FrameSpec) if hasattr(args, item.name)}
    request = Request(
        media=Media(kind=kind, path=args.file, start_s=args.start, end_s=args.end, fps=args.frames_fps),
        spec=replace(
            media_specs(Settings().data)[kind], **{name: value for name, value in given.items() if value is not None}
        ),
        vision=model_vision(ModelConfig(path=args.model) if args.model else None),
        with_frames=args.action == "decode",
    )
    out = Path(args.out) if args.action == "decode" and args.out else None
    answer = look_at(request, deadline_s=args.deadline_s, out=out)
    if args.json:
        print(json.dumps(answer))
    else:
        _print(args.file, answer)
    return 1 if answer["verdict"] == "error" else 0


def _print(file: str, answer: dict[str, Any]) -> None:
    if answer["verdict"] == "error":
        print(f"error: {answer['reason']}")
        return
    times = ", ".join(f"{time:.2f}" for time in answer["times_s"])
    print(f"{file}: {answer['verdict']}")
    print(f"  source: {answer['duration_s']:.3f} s, {answer['source_fps']:.3f} fps")
    print(f"  seen: {answer['stored_frames']} frames of {answer['width']}x{answer['height']} pixels at {times} s")
    print(f"  patches: {' x '.join(map(str, answer['grid_thw']))}, {answer['num_tokens']} tokens")
    for warning in answer["warnings"]:
        print(f"  warning: {warning}")
