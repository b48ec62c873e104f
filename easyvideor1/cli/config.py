"""`easyvideor1 config [SECTION]`: every key of a recipe with its type, default, unit and meaning; `--from` reads a
recipe of EasyVideoR1 or EasyR1."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easyvideor1.errors import UsageError
from easyvideor1.runs.foreign_recipe import converted
from easyvideor1.runs.reference import Section, markdown, sections

EXAMPLES = ("easyvideor1 config optimizer",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("section", nargs="?", metavar="SECTION", help="only this section, e.g. data.video or optimizer")
    parser.add_argument("--markdown", action="store_true", help="print the page docs/configuration.md")
    parser.add_argument(
        "--from",
        dest="theirs",
        type=Path,
        metavar="FILE",
        help="write the recipe that a YAML of EasyVideoR1 or EasyR1 means",
    )
    parser.add_argument("--out", type=Path, metavar="RECIPE", help="with --from: the file to write (default: print it)")


def run(args: argparse.Namespace) -> int:
    if args.theirs is not None:
        return _convert(args.theirs, args.out)
    if args.out is not None:
        raise UsageError("--out is the file that --from writes; give both")
    if args.markdown:
        print(markdown(), end="")
        return 0
    console = Console()
    for section in _chosen(args.section):
        console.print(f"\n[bold]{section.name or 'top level'}[/bold]: {escape(section.meaning)}", highlight=False)
        table = Table("key", "type", "default", "unit", "meaning", show_lines=False)
        for key in section.keys:
            table.add_row(*map(escape, (key.name, key.type, key.default, key.unit, key.meaning)))
        console.print(table)
    return 0


def _convert(theirs: Path, out: Path | None) -> int:
    text = converted(theirs).text(str(theirs))
    if out is None:
        print(text, end="")
        return 0
    if out.exists():
        raise UsageError(f"--out {out}: the file exists; name another one, or remove it")
    out.write_text(text, encoding="utf-8")
    print("\n".join(line for line in text.splitlines() if line.startswith("#")))
    return 0


def _chosen(name: str | None) -> list[Section]:
    found = [section for section in sections() if section.keys]
    if name is None:
        return found
    chosen = [section for section in found if section.name == name or section.name.startswith((f"{name}.", f"{name}["))]
    if not chosen:
        names = [section.name for section in found if section.name]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"sections: {', '.join(names)}"
        raise UsageError(f"no section is called '{name}'; {hint}")
    return chosen
