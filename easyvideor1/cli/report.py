"""`easyvideor1 report RUN`: write the HTML report of a run and print where it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from easyvideor1.report.page import write_report

EXAMPLES = ("easyvideor1 report demo-run",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="folder of the run (the recipe's `out`); it may still be running")


def run(args: argparse.Namespace) -> int:
    print(write_report(args.run))
    return 0
