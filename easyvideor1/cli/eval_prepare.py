"""`easyvideor1 eval prepare BENCHMARK --raw DIR --out DIR`: the authors' download in the layout of a data root."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from easyvideor1.runs.benchmarks import prepare

SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", metavar="BENCHMARK", help="name of a benchmark (`easyvideor1 eval list`)")
    parser.add_argument("--raw", required=True, type=Path, metavar="DIR", help="the download: zips, tars, parts, files")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="data root; the layout goes into it")
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Returns 1 if videos of the annotations are missing."""
    console = Console(stderr=args.json)
    done = prepare(args.benchmark, args.raw, args.out, progress=lambda name: console.print(escape(f"unpacking {name}")))
    if args.json:
        print(json.dumps(done, ensure_ascii=False))
        return 1 if done["missing"] else 0
    console.print(f"{done['num_files']} files written, {done['num_kept']} were there, {len(done['archives'])} archives")
    for name in done["refused"][:SHOWN]:
        console.print(escape(f"refused: {name} would leave the folder, or is no file"))
    console.print(escape(f"{done['num_items']} items, {done['num_media']} videos in {done['folder']}"))
    for name, values in done["counts"].items():
        for value, (here, official) in values.items():
            if here != official:
                console.print(escape(f"{name or 'all'} {value}: {here} items here, {official} in the authors' files"))
    for video in done["missing"][:SHOWN]:
        console.print(escape(f"missing: {video}"))
    if len(done["missing"]) > SHOWN:
        console.print(f"and {len(done['missing']) - SHOWN} more videos (--json lists all)")
    return 1 if done["missing"] else 0
