"""`easyvideor1 data clean DATA.. --out GOOD.jsonl`: the rows that can be used, apart from the others."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from easyvideor1.cli.settings import add_settings, add_worker_arguments, data_sources, read_settings
from easyvideor1.runs.cleaning import clean

EXAMPLES = ("easyvideor1 data clean demo-run/data/train.jsonl --out good.jsonl",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Checks rows as `data check` does and writes those without errors: ids that several rows have become ID#1, "
        "ID#2, .., media paths start from the folder of the new file. The others are listed in GOOD.rejected.jsonl "
        "with what is wrong with them. The data files stay as they are."
    )
    add_settings(parser)
    parser.add_argument("--out", required=True, metavar="GOOD.jsonl", type=Path, help="file to write")
    parser.add_argument(
        "--verdicts", metavar="FILE", type=Path, help="results about media (default: DATA.verdicts.jsonl)"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as one line of JSON")
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 0, or 1 if no row can be used."""
    settings = read_settings(args)
    sources = data_sources(args, settings, training_only=True)
    done = clean(sources, settings, args.out, verdicts=args.verdicts, workers=args.workers)
    if args.json:
        print(json.dumps(asdict(done), default=str))
    else:
        renamed = f", {done.num_renamed} of them under a new id" if done.num_renamed else ""
        print(f"{done.num_good} rows in {args.out}{renamed}")
        if done.num_rejected:
            print(f"{done.num_rejected} rows cannot be used; why stands in {done.rejected}")
    return 0 if done.num_good else 1
