"""`easyvideor1 explain DATA --id ID --out DIR`: one sample as the model sees it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from easyvideor1.cli.settings import add_settings, data_sources, read_settings
from easyvideor1.runs.explaining import explain, find_sample
from easyvideor1.types import Sample

EXAMPLES = ("easyvideor1 explain demo-run/data/train.jsonl --id train-000-0 --out seen --recipe demo-run/config.yaml",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write explain.json, prompt.txt and one picture per medium (its frames with their times) into a folder. "
        "Token ids need --model or a --recipe."
    )
    add_settings(parser)
    parser.add_argument("--id", required=True, help="id of the sample")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to write into")
    parser.add_argument("--json", action="store_true", help="print explain.json as one line too")


def run(args: argparse.Namespace) -> int:
    settings = read_settings(args)
    sample = find_sample(data_sources(args, settings), args.id)
    found = explain(sample, settings, args.out)
    if args.json:
        print(json.dumps(found))
    else:
        _print(sample, found, args.out)
    return 0


def _print(sample: Sample, found: dict[str, Any], out: Path) -> None:
    print(f"{sample.id} ({sample.where}), {sample.problem_type}, gold answer: {sample.gold}")
    tokens = f"{found['num_tokens']} tokens, {found['num_vision_tokens']} of them vision"
    print(tokens if found["num_tokens"] else f"{found['num_vision_tokens']} vision tokens")
    for media in found["media"]:
        seen = f"{len(media['times_s'])} frames of {media['width']}x{media['height']}, grid {media['grid_thw']}"
        print(f"  {media['kind']} {media['name']}: {seen}; {out / media['sheet']}")
        for warning in media["warnings"]:
            print(f"    warning: {warning}")
    print(f"prompt: {out / 'prompt.txt'}; everything: {out / 'explain.json'}")
