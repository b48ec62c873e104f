"""The command line: one module per command group, imported only when its command runs."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from easyvideor1 import __version__
from easyvideor1.errors import EasyVideoError

COMMANDS = {
    "demo": "train a tiny model on made-up video questions, end to end, on a CPU",
    "train": "train a model by a recipe",
    "reward": "judge responses, and try the grader on a data set",
    "export": "write the model of a checkpoint as a folder of its own",
    "report": "write the HTML report of a run",
    "data": "check and filter data files",
    "explain": "show one sample as the model sees it: prompt, token ids, frames with their times",
    "preprocess": "decode every video of a data set once, into the frame cache",
    "cache": "look after a frame cache",
    "video": "plan or decode one video or image",
}
"""Command -> a line of help. The module easyvideor1.cli.NAME has `add_arguments(parser)` and `run(args) -> int`."""

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 done, 1 the checked thing is wrong, 2 wrong usage, 3 a run failed, 130 interrupted."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="easyvideor1", description="Reinforcement learning from verifiable rewards for video."
    )
    parser.add_argument("--version", action="version", version=f"easyvideor1 {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, help_line in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line)
        if name == chosen:
            importlib.import_module(f"easyvideor1.cli.{name}").add_arguments(subparser)
    args = parser.parse_args(argv)
    try:
        return importlib.import_module(f"easyvideor1.cli.{args.command}").run(args)
    except EasyVideoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return INTERRUPTED
