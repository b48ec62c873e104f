"""The command line: one module per command, imported only when its command runs."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import textwrap
from collections.abc import Sequence
from types import ModuleType

from easyvideor1 import __version__
from easyvideor1.cli.interrupts import INTERRUPTED, LINE, ends_at_once
from easyvideor1.cli.logs import set_up_logging
from easyvideor1.cli.places import require_working_folder
from easyvideor1.errors import EasyVideoError, Ended, RunError, UsageError
from easyvideor1.records.drafts import REMEDIES, reason

COMMANDS = {
    "demo": "train a tiny model on made-up video questions, end to end, on a CPU",
    "train": "train a model by a recipe",
    "plan": "say what a run will need: tokens, memory, disk and time, without weights or a GPU",
    "config": "list every key of a recipe with its type, default, unit and meaning",
    "reward": "score responses, and try the grader on a data set",
    "eval": "evaluate a model on public video benchmarks; list, items, score, prepare, export, show, diff",
    "ask": "ask a model one question about a video or an image",
    "export": "write the model of a checkpoint as a folder of its own",
    "report": "write the HTML report of a run",
    "data": "check, clean, convert and filter data files",
    "explain": "show one sample as the model sees it: prompt, token ids, frames with their times",
    "preprocess": "decode every video of a data set once, into the frame cache",
    "cache": "look after a frame cache",
    "video": "plan or decode one video or image",
}
"""Command -> a line of help. The module easyvideor1.cli.NAME has `add_arguments(parser)` and `run(args) -> int`."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors say how settings are given."""

    def error(self, message: str) -> None:  # type: ignore[override] - it never returns
        if message.startswith("unrecognized arguments"):
            message += " (settings are written section.key=value; `easyvideor1 config` lists them)"
        super().error(message)


def describe(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    """Fill a command's parser from its module, with its examples at the end of the help."""
    module.add_arguments(parser)
    if examples := getattr(module, "EXAMPLES", ()):
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.description = textwrap.fill(parser.description or "", 100)
        parser.epilog = "\n  ".join(["examples, after `easyvideor1 demo`:", *examples])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 done, 1 the checked thing is wrong, 2 wrong usage, 3 a run failed, 130 interrupted by Ctrl-C, 143 ended by
        SIGTERM, 129 ended by SIGHUP.
    """
    try:
        return _main(argv)
    except KeyboardInterrupt:
        print(LINE.decode(), end="", file=sys.stderr)
        return INTERRUPTED


def _main(argv: Sequence[str] | None) -> int:
    with ends_at_once():
        args = _parsed(list(sys.argv[1:] if argv is None else argv))
        set_up_logging(verbose=args.verbose)
        run = importlib.import_module(f"easyvideor1.cli.{args.command}").run
    try:
        require_working_folder()
        return run(args)
    except EasyVideoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except Ended as end:
        print(end, file=sys.stderr)
        return end.exit_code
    except BrokenPipeError:  # whoever reads the output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for what is still buffered, until the process ends
        return 0
    except OSError as error:
        if error.errno not in REMEDIES:
            raise
        print(f"error: {error.filename or args.command}: {reason(error)}", file=sys.stderr)
        return RunError.exit_code if error.errno in (errno.ENOSPC, errno.EDQUOT) else UsageError.exit_code


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser(prog="easyvideor1", description="Reinforcement learning from verifiable rewards for video.")
    parser.add_argument("--version", action="version", version=f"easyvideor1 {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, help_line in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_line, description=help_line)
        subparser.add_argument("-v", "--verbose", action="store_true", help="log progress, not only warnings")
        if name == chosen:
            describe(subparser, importlib.import_module(f"easyvideor1.cli.{name}"))
    args, rest = parser.parse_known_args(argv)
    # Words after an option would be refused where words came before it (DATA --cache DIR data.video.fps=1).
    if rest and hasattr(args, "words") and not any(word.startswith("-") for word in rest):
        args.words, rest = [*args.words, *rest], []
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args
