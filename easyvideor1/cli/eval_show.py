"""`easyvideor1 eval show RUN ID`: what stands behind the score of one item."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from easyvideor1.evals.show import traced


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the --out folder of `easyvideor1 eval`")
    parser.add_argument("id", metavar="ID", help="of an item, or BENCHMARK/ID where several benchmarks have it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    found = traced(args.run, args.id)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    console = Console()
    console.print(escape(f"{found['benchmark']}, item {found['id']}, model {found['model']}"))
    console.print(escape(f"protocol {found['protocol']['family']} ({found['protocol']['hash']})"))
    for medium in found["frames"].get("media", ()):
        times = ", ".join(f"{time_s:g}" for time_s in medium["times_s"])
        width, height = medium["size_px"]
        console.print(escape(f"{medium['file']}: {len(medium['times_s'])} frames of {width}x{height} px at {times} s"))
    for name, text in found["prompt"].items():
        if text:
            console.print(escape(f"{name}:\n{text}"))
    for repeat in found["repeats"]:
        console.print(escape(f"response {repeat['repeat']} ({repeat['stop']}, {repeat['num_tokens']} tokens):"))
        console.print(escape(repeat["error"] if repeat["response"] is None else repeat["response"]))
        scores = f"score {repeat['score']}, official {repeat['official_score']}"
        console.print(escape(f"read: {repeat['parsed']}, {scores} {repeat['reason']}"))
    console.print(escape(f"right answer: {found['gold']}"))
    return 0
