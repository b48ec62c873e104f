"""`easyvideor1 eval items --benchmark B --annotations F..`: what a benchmark asks."""

from __future__ import annotations

import argparse
import json

from rich.console import Console
from rich.markup import escape

from easyvideor1.cli.benchmarks import add_benchmark, add_protocol
from easyvideor1.runs.benchmarks import asked_items


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser)
    add_protocol(parser)
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N items")
    parser.add_argument("--json", action="store_true", help="a JSON object per item: id, video, prompt, labels ..")


def run(args: argparse.Namespace) -> int:
    lines = asked_items(args.benchmark, args.annotations, args.protocol, limit=args.limit)
    if args.json:
        for line in lines:
            print(json.dumps(line, ensure_ascii=False))
        return 0
    console = Console()
    for line in lines:
        console.print(f"[bold]{escape(line['id'])}[/bold]  {escape(line['video'])}  {escape(str(line['labels']))}")
        for name in ("system", "prompt", "prefix"):
            if line.get(name):
                console.print(escape(f"{name}: {line[name]}"))
    return 0
