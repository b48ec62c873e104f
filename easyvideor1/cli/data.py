"""`easyvideor1 data ACTION DATA ..`: work on data files; each action is a module data_ACTION of this folder."""

from __future__ import annotations

import argparse
import importlib

from easyvideor1.cli import describe

ACTIONS = {
    "check": "find everything that is wrong with rows, media, gold answers and prompt lengths",
    "clean": "write the rows that can be used, and list the others with reasons",
    "convert": "make rows out of a data set of another project",
    "filter": "keep the rows that a model solves sometimes, by the pass rate of k responses",
}
"""Action -> a line of help. The module cli.data_ACTION has `add_arguments(parser)` and `run(args) -> int`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, help_line in ACTIONS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line)
        subparser.add_argument(
            "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="log progress, not only warnings"
        )
        describe(subparser, _module(name))


def run(args: argparse.Namespace) -> int:
    return _module(args.action).run(args)


def _module(action: str):
    return importlib.import_module(f"easyvideor1.cli.data_{action}")
