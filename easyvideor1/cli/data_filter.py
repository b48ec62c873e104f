"""`easyvideor1 data filter DATA.. --model DIR --out DIR`: keep the rows that a model solves sometimes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from easyvideor1.cli.settings import add_settings, data_sources, read_settings
from easyvideor1.extras import need
from easyvideor1.filter.pass_rate import Bounds
from easyvideor1.runs.filtering import Filtered, Selection, filter_rows

BAR_WIDTH = 40
SHOWN_FAILURES = 10


EXAMPLES = ("easyvideor1 data filter --recipe demo-run/config.yaml --out filtered --limit 4 rollout.n=4",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Sample rollout.n responses of a model to every row, and keep the rows whose pass rate lies between --min and "
        "--max. A row's pass rate is the mean accuracy of its responses; with --threshold it is the share of responses "
        "of at least that accuracy. Writes kept.jsonl, dropped.jsonl, failed.jsonl and summary.json into DIR. Run the "
        "same command again after an interruption, or with other bounds: what was sampled is in rates.jsonl and is "
        "reused. Of a recipe only the training files are filtered."
    )
    add_settings(parser)
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="folder of the results")
    parser.add_argument("--min", type=float, default=0.0, dest="low", metavar="P", help="keep rates above this (0)")
    parser.add_argument("--max", type=float, default=1.0, dest="high", metavar="P", help="keep rates below this (1)")
    parser.add_argument("--inclusive", action="store_true", help="keep rates equal to --min or --max too")
    parser.add_argument("--threshold", type=float, metavar="A", help="a response of at least this accuracy passes")
    parser.add_argument(
        "--collect",
        action="store_true",
        help="write collected.jsonl: every row to which a response was right and well-formed, with the shortest such "
        "response as its offline trajectory (in place of those that the row had)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N readable rows")
    parser.add_argument("--json", action="store_true", help="print the summary as one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Returns 0 if every row has a pass rate, 1 if some have none."""
    need("torch", "transformers", for_what="data filter")
    bounds = Bounds(low=args.low, high=args.high, inclusive=args.inclusive)
    settings = read_settings(args)
    selection = Selection(bounds=bounds, threshold=args.threshold, collect=args.collect, limit=args.limit)
    sources = data_sources(args, settings, training_only=True)
    console = Console(stderr=args.json)
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        done = filter_rows(
            sources,
            settings,
            selection,
            out=args.out,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if args.json:
        print(json.dumps(done.summary))
    else:
        _print(console, done)
    return 1 if done.failures else 0


def _print(console: Console, done: Filtered) -> None:
    if done.kept or done.dropped:
        rates = [[row["pass_rate"] for row in rows] for rows in (done.kept, done.dropped)]
        console.print(_histogram(*rates))
    for failure in done.failures[:SHOWN_FAILURES]:
        console.print(escape(f"no pass rate: {failure.where}: {failure.error.removeprefix(f'{failure.where}: ')}"))
    if len(done.failures) > SHOWN_FAILURES:
        console.print(f"and {len(done.failures) - SHOWN_FAILURES} more in failed.jsonl")
    num_rows = len(done.kept) + len(done.dropped) + len(done.failures)
    numbers = ", ".join(f"{value} {name}" for name, value in done.summary.items() if isinstance(value, int))
    console.print(escape(f"{num_rows} rows: {numbers}; in {done.summary['out']}"))
    console.print(escape(f"use them with media_root: {done.summary['media_root']}"))


def _histogram(kept: Sequence[float], dropped: Sequence[float]) -> Table:
    """Rows by pass rate; 0 and 1 have bars of their own: a group that always or never passes teaches nothing."""
    names = ["0", *(f"0.{tenth} - {(tenth + 1) / 10:.1f}" for tenth in range(10)), "1"]
    counts = {name: [0, 0] for name in names}
    for place, rates in enumerate((kept, dropped)):
        for rate in rates:
            counts[names[0 if rate == 0 else 11 if rate == 1 else 1 + int(rate * 10)]][place] += 1
    scale = BAR_WIDTH / max(map(sum, counts.values()))
    table = Table("pass rate", Column("rows", justify="right"), Column("kept", justify="right"), "")
    for name, (num_kept, num_dropped) in counts.items():
        bar = f"[green]{'#' * round(num_kept * scale)}[/green][dim]{'-' * round(num_dropped * scale)}[/dim]"
        table.add_row(name, str(num_kept + num_dropped), str(num_kept), bar)
    return table
