"""`easyvideor1 explain DATA --id ID --out DIR`: one sample as the model sees it."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.cli.frame_options import (
    FrameOptions,
    add_cache_argument,
    add_data_arguments,
    add_frame_arguments,
    data_sources,
    frame_options,
)
from easyvideor1.config import CacheConfig, DataConfig
from easyvideor1.data.prompts import instruction
from easyvideor1.data.schema import read_samples
from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.types import Clip, FrameSpec, Media, MediaKind, MediaPlan, Sample, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.contact_sheet import contact_sheet
from easyvideor1.video.sampling import plan_media

DEFAULTS = DataConfig(train=())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write explain.json, prompt.txt and one picture per medium (its frames with their times) into a folder. "
        "Token ids need --model or --recipe."
    )
    add_data_arguments(parser)
    parser.add_argument("--id", required=True, help="id of the sample")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder to write into")
    add_cache_argument(parser)
    parser.add_argument("--deadline-s", type=float, default=120.0, help="seconds until the decoder is killed")
    parser.add_argument("--json", action="store_true", help="print explain.json as one line too")
    add_frame_arguments(parser)


def run(args: argparse.Namespace) -> int:
    options = frame_options(args)
    sample = _find(args, options)
    out = Path(args.out)
    cache = options.cache(args.cache) or CacheConfig(dir=str(out), mode="realtime_only")
    seen = _seen(sample, Look(specs=options.specs, vision=options.vision, cache=cache), deadline_s=args.deadline_s)
    answer = _prompt(sample, [plan for plan, _ in seen], options)
    answer["media"] = [
        _describe(plan, clip) | {"sheet": f"media-{number}.png"} for number, (plan, clip) in enumerate(seen)
    ]
    try:
        _write(answer, [clip for _, clip in seen], out)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
    if args.json:
        print(json.dumps(answer))
    else:
        _print(sample, answer, out)
    return 0


@dataclass(frozen=True, kw_only=True)
class Look:
    """Plan and decode one medium; picklable, for a worker process."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    cache: CacheConfig

    def __call__(self, media: Media) -> tuple[MediaPlan, Clip]:
        plan = plan_media(media, self.specs[media.kind], self.vision)
        return plan, FrameCache.open(self.cache).load(plan)


def _seen(sample: Sample, look: Look, *, deadline_s: float) -> list[tuple[MediaPlan, Clip]]:
    """The media of a sample, looked at in a process that may hang or die."""
    seen = []
    with Pool(look, workers=1, deadline_s=deadline_s) as pool:
        for media in sample.media:
            try:
                seen.append(pool.call(media))
            except DataError as error:
                raise naming(error, media.name) from None
    return seen


def _find(args: argparse.Namespace, options: FrameOptions) -> Sample:
    samples = {}
    for source in data_sources(args, options.recipe):
        samples |= {sample.id: sample for sample in read_samples(source.path, media_root=source.media_root)}
    if args.id not in samples:
        near = difflib.get_close_matches(args.id, samples, n=3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UsageError(f"no sample has the id '{args.id}' among {len(samples)}{hint}")
    return samples[args.id]


def _prompt(sample: Sample, plans: list[MediaPlan], options: FrameOptions) -> dict[str, Any]:
    data = options.recipe.data if options.recipe else DEFAULTS
    answer: dict[str, Any] = {
        "id": sample.id,
        "where": sample.where,
        "problem_type": sample.problem_type,
        "gold": sample.gold,
        "text": instruction(sample, thinking=data.thinking, templates=data.templates),
        "prompt": None,
        "num_tokens": None,
        "num_vision_tokens": sum(plan.num_tokens for plan in plans),
        "input_ids": None,
    }
    if options.model_path is not None:
        from easyvideor1.data.encode import Encoder  # imports the tokenizer's library

        prompt = Encoder.from_pretrained(options.model_path).encode(sample, plans, answer["text"])
        answer |= {"prompt": prompt.text, "num_tokens": len(prompt), "input_ids": prompt.input_ids.tolist()}
    return answer


def _describe(plan: MediaPlan, clip: Clip) -> dict[str, Any]:
    return {
        "name": plan.media.name,
        "kind": plan.media.kind,
        "times_s": list(plan.times_s),
        "width": plan.width,
        "height": plan.height,
        "grid_thw": list(plan.grid_thw),
        "num_tokens": plan.num_tokens,
        "source_fps": plan.source_fps,
        "duration_s": plan.duration_s,
        "cache_key": plan.cache_key,
        "backend": clip.backend,
        "warnings": list(clip.warnings),
    }


def _write(answer: dict[str, Any], clips: list[Clip], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "prompt.txt").write_text(answer["prompt"] or answer["text"], encoding="utf-8")
    for description, clip in zip(answer["media"], clips, strict=True):
        contact_sheet(clip).save(out / description["sheet"])
    (out / "explain.json").write_text(json.dumps(answer, indent=1) + "\n")


def _print(sample: Sample, answer: dict[str, Any], out: Path) -> None:
    print(f"{sample.id} ({sample.where}), {sample.problem_type}, gold answer: {sample.gold}")
    tokens = f"{answer['num_tokens']} tokens, {answer['num_vision_tokens']} of them vision"
    print(tokens if answer["num_tokens"] else f"{answer['num_vision_tokens']} vision tokens")
    for media in answer["media"]:
        seen = f"{len(media['times_s'])} frames of {media['width']}x{media['height']}, grid {media['grid_thw']}"
        print(f"  {media['kind']} {media['name']}: {seen}; {out / media['sheet']}")
        for warning in media["warnings"]:
            print(f"    warning: {warning}")
    print(f"prompt: {out / 'prompt.txt'}; everything: {out / 'explain.json'}")
