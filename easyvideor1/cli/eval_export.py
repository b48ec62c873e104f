"""`easyvideor1 eval export --to submission|csv`: responses as the authors take them, scores as a table."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from easyvideor1.cli.benchmarks import add_benchmark, add_protocol, add_responses
from easyvideor1.errors import UsageError
from easyvideor1.evals.export import write_submission, write_table
from easyvideor1.runs.benchmarks import outcome_records, score_saved


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser)
    add_responses(parser)
    add_protocol(parser)
    parser.add_argument("--to", required=True, choices=("submission", "csv"), help="which form")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="file to write")


def run(args: argparse.Namespace) -> int:
    if not args.out.parent.is_dir():
        raise UsageError(f"--out {args.out}: the folder {args.out.parent} does not exist; make it first")
    scored = score_saved(args.benchmark, args.annotations, args.responses, args.protocol)
    if args.to == "submission":
        write_submission(scored, args.out)
    else:
        write_table(outcome_records(scored), args.out)
    Console().print(escape(f"{len(scored.strict)} items in {args.out}"))
    return 0
