"""How the actions of `easyvideor1 eval` name a benchmark, its annotation files, responses and protocol."""

from __future__ import annotations

import argparse
from pathlib import Path

from easyvideor1.evals.protocol import FAMILIES


def add_benchmark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--benchmark", required=True, metavar="B", help="name of a benchmark (`easyvideor1 eval list`)")
    parser.add_argument(
        "--annotations", required=True, nargs="+", type=Path, metavar="F",
        help="the authors' annotation files, or a prepared file of EasyVideoR1",
    )  # fmt: skip


def add_responses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--responses", required=True, type=Path, metavar="R",
        help="JSON Lines of {id, response}, a sample file of lmms-eval, or a prediction table of VLMEvalKit",
    )  # fmt: skip


def add_protocol(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol", default="official", metavar="P", help=f"{', '.join(FAMILIES)}, or a YAML file (official)"
    )
