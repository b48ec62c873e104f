"""`easyvideor1 ask MODEL FILE QUESTION`: one question to a model, with the frames that it sees."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from easyvideor1.cli.settings import only_settings
from easyvideor1.errors import UsageError
from easyvideor1.extras import need
from easyvideor1.recipe import load_settings

EXAMPLES = ('easyvideor1 ask demo-run demo-run/data/videos/train-000.mp4 "Which way does the circle move?"',)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Ask a model one question about a video or an image. The question is sent word for word, the answer is greedy. "
        "The model is a folder in Transformers' format, a run, or one of its checkpoints."
    )
    parser.add_argument("model", metavar="MODEL", help="folder of a model, of a run, or of a checkpoint")
    parser.add_argument("file", metavar="FILE", help="a video, an image, an animation, or a folder of frames")
    parser.add_argument("question", metavar="QUESTION", help="what the user says")
    parser.add_argument(
        "words", nargs="*", metavar="section.key=value", help="settings, such as data.video.max_frames=16"
    )
    parser.add_argument("--recipe", help="take settings from a recipe, such as the config.yaml of a run")
    parser.add_argument("--frames", type=Path, metavar="PICTURE.png", help="write the frames with their times")


def run(args: argparse.Namespace) -> int:
    need("torch", "transformers", for_what="ask")
    only_settings(args.words)
    if not args.question.strip():
        raise UsageError("the question is empty; write it in quotes after the file")
    settings = load_settings(args.recipe, [*args.words, f"model.path={json.dumps(args.model)}"])
    from easyvideor1.runs.asking import ask  # imports torch

    answer = ask(args.file, args.question, settings, out=args.frames)
    clip = answer.clip
    height, width = clip.frames.shape[2:]
    times = ", ".join(f"{time_s:.2f}" for time_s in clip.times_s)
    picture = f"; {args.frames}" if args.frames else ""
    print(f"seen: {len(clip.frames)} frames of {width}x{height} at {times} s{picture}", file=sys.stderr)
    print(f"prompt: {answer.num_prompt_tokens} tokens", file=sys.stderr)
    for warning in clip.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if answer.is_cut:
        print("warning: the answer is cut at rollout.max_response_tokens", file=sys.stderr)
    print(answer.text)
    return 0
