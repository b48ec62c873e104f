"""How the actions of `easyvideor1 eval` name a benchmark, its annotation files, responses and protocol."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

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
        help="JSON Lines of {id, response}, a sample file of lmms-eval, a prediction table of VLMEvalKit, files as the "
        "authors publish them, or a folder of any of these",
    )  # fmt: skip


def add_protocol(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol", default="official", metavar="P", help=f"{', '.join(FAMILIES)}, or a YAML file (official)"
    )


def json_object(text: str) -> dict[str, Any]:
    """The type of an option that takes a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"a JSON object is needed, such as '{{\"max_num_seqs\": 64}}', got {text}")
    return value
