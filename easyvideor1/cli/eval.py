"""`easyvideor1 eval ..`: a model on public video benchmarks, and actions around it, each a module eval_ACTION."""

from __future__ import annotations

import argparse
import importlib

from easyvideor1.cli import describe

ACTIONS = {
    "list": "all benchmarks with their metrics, items and layouts on disk",
    "items": "what a benchmark asks: a line per item",
    "score": "score saved responses to a benchmark, of this program or of another harness",
    "prepare": "turn the authors' download of a benchmark into the layout that evaluation reads",
    "export": "write responses in the authors' own submission format, or scores as a table",
    "show": "what stands behind one score of a run: protocol, exact prompt, frame times, response",
    "diff": "compare two scored folders: protocols, items, and the paired difference of their scores",
}
"""Action -> a line of help. The module cli.eval_ACTION has `add_arguments(parser)` and `run(args) -> int`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _module("run").add_arguments(parser)
    subparsers = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, help_line in ACTIONS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line)
        subparser.add_argument(
            "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="log progress, not only warnings"
        )
        describe(subparser, _module(name))


def run(args: argparse.Namespace) -> int:
    return _module(args.action or "run").run(args)


def _module(action: str):
    return importlib.import_module(f"easyvideor1.cli.eval_{action}")
