"""`easyvideor1 data convert SRC --out OUT.jsonl`: rows of another project made into rows of this one."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easyvideor1.data.convert.formats import FORMATS
from easyvideor1.errors import UsageError
from easyvideor1.runs.converting import Converted, Source, convert, rejected_path

SHOWN_CHARS = 60

EXAMPLES = ("easyvideor1 data convert demo-run/data/train.jsonl --out rows.jsonl",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Reads JSON, JSONL (.gz too), CSV, Parquet, Arrow, and folders of Hugging Face datasets; recognises the rows "
        "of ms-swift (messages), LLaVA-Video (conversations), verl (prompt), VideoChat-R1, Time-R1, OneThinker, "
        "Video-R1 and EasyR1. Rows that cannot be converted are listed with reasons in OUT.rejected.jsonl; pictures "
        "and clips inside tables are written to OUT-media/. Returns 1 if a row could not be converted."
    )
    parser.add_argument("source", metavar="SRC", type=Path, help="a file, or a folder of a data set")
    parser.add_argument("--out", required=True, metavar="OUT.jsonl", type=Path, help="file to write")
    parser.add_argument("--format", metavar="NAME", help=f"one of {', '.join(FORMATS)} (default: recognised)")
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        dest="columns",
        metavar="FIELD=COLUMN",
        help="the column that is a field of a row (problem=question), or several that are its items (options=a,b,c)",
    )
    parser.add_argument(
        "--type", metavar="TYPE", help="problem type of all rows (default: as the format says, or fits)"
    )
    parser.add_argument(
        "--media-root", metavar="DIR", type=Path, help="where relative media paths start (SRC's folder)"
    )
    parser.add_argument("--split", metavar="NAME", help="which split of a folder")


def run(args: argparse.Namespace) -> int:
    """Returns 0 if every row was converted, else 1."""
    source = Source(
        path=args.source,
        format=args.format,
        columns=dict(map(_column, args.columns)),
        problem_type=args.type,
        media_root=args.media_root,
        split=args.split,
    )
    found = convert(source, args.out)
    _print(found, args.out)
    return 1 if found.num_rejected or not found.num_rows else 0


def _column(word: str) -> tuple[str, tuple[str, ...]]:
    name, equals, columns = word.partition("=")
    if not name or not equals or not columns:
        raise UsageError(f"--map {word} is not of the form FIELD=COLUMN, such as problem=question")
    return name, tuple(columns.split(","))


def _print(found: Converted, out: Path) -> None:
    console = Console()
    if found.shown:
        table = Table("id", "type", "problem", "gold answer", "media")
        for sample in found.shown:
            texts = (sample.id, sample.problem_type, sample.problem, sample.gold)
            media = ", ".join(medium.name for medium in sample.media)
            table.add_row(*(escape(" ".join(text.split())[:SHOWN_CHARS]) for text in texts), escape(media))
        console.print(table)
    for error in found.errors:
        console.print(escape(f"not converted: {error}"), soft_wrap=True, highlight=False)
    formats = ", ".join(f"{name} {count}" for name, count in found.by_format.items())
    kinds = ", ".join(f"{name} {count}" for name, count in found.by_problem_type.items())
    console.print(escape(f"formats: {formats or 'none'}; problem types: {kinds or 'none'}"), soft_wrap=True)
    if found.num_guessed:
        console.print(f"{found.num_guessed} problem types were guessed from the gold answers; --type sets another one")
    for name, count in found.left_out.items():
        console.print(
            escape(f"{name} of {count} media is left out; data.video and data.image decide frame rate and size")
        )
    if found.num_media:
        folder = out.parent / f"{out.stem}-media"
        console.print(escape(f"{found.num_media} media were written to {folder}"), soft_wrap=True)
    rejected = f"; {found.num_rejected} rows not converted, in {rejected_path(out)}" if found.num_rejected else ""
    console.print(escape(f"{found.num_rows} rows in {out}{rejected}"), soft_wrap=True)
