"""`easyvideor1 eval diff A B`: what differs between two scored folders."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from easyvideor1.evals.differences import differences, read_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A", help="a folder of `easyvideor1 eval score --out`")
    parser.add_argument("second", type=Path, metavar="B", help="another one")
    parser.add_argument("--json", action="store_true", help="print one JSON object, all items included")


def run(args: argparse.Namespace) -> int:
    found = differences(read_folder(args.first), read_folder(args.second))
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    console = Console()
    for part in ("protocol", "results"):
        for name, (first, second) in found[part].items():
            console.print(escape(f"{part} {name}: {first!r} -> {second!r}"))
    if not found["protocol"]:
        console.print("the protocols are the same")
    for side in ("first", "second"):
        if found[f"only_{side}"]:
            console.print(f"{len(found[f'only_{side}'])} items only in the {side}")
    change = found["change_of_item_mean"]
    console.print(f"{found['num_compared']} items compared: {len(found['gained'])} gained, {len(found['lost'])} lost")
    if change is not None:
        low_high = f"95 % [{change['low']:+.2f}, {change['high']:+.2f}] over {change['num_clusters']} videos"
        console.print(f"item mean {change['value']:+.2f}, {low_high}")
    for name, value in (found["knowledge"] or {}).items():
        console.print(f"track adaptation, {name.replace('_', ' ')}: {value:+.2f}")
    return 0
