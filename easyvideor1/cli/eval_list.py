"""`easyvideor1 eval list`: all benchmarks, and what of them lies in a data root."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easyvideor1.runs.benchmarks import listed

EXAMPLES = ("easyvideor1 eval list", "easyvideor1 eval list --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-root", type=Path, metavar="D", help="look for annotations and media in this folder")
    parser.add_argument("--json", action="store_true", help="a JSON object per benchmark, with all that is known of it")


def run(args: argparse.Namespace) -> int:
    rows = listed(args.data_root)
    if args.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return 0
    table = Table("name", "benchmark", "kind", "items", "metrics", *(["on disk"] if args.data_root else []))
    for row in rows:
        cells = [row["name"], row["title"], row["category"], str(row["paper_items"]), ", ".join(row["metric"])]
        table.add_row(*map(escape, cells), *([escape(_on_disk(row["found"]))] if args.data_root else []))
    Console().print(table)
    return 0


def _on_disk(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not found"
    if "error" in found:
        return found["error"]
    return f"{found['num_items']} items, {found['num_media']} videos, {found['num_missing']} missing"
