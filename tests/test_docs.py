"""The pages agree with the program: links, files and commands that they name exist, and no word has two meanings."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from easyvideor1.cli import COMMANDS, Parser, describe

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TEXTS = [*PAGES, *sorted((ROOT / "easyvideor1").rglob("*.py")), *sorted((ROOT / "easyvideor1").rglob("*.yaml"))]
GONE = {
    r"\bone's own\b": "name whose it is: of the user, of the benchmark",
    r"\bmend\b": "correct",
    r"\bstored (trajector|response)": "offline trajectory",
    r"\bmix\.enable\b": "offline.enable",
    r"\b(tokens_per_row|rows_per_batch)\b": "tokens_per_pack, tokens_per_batch",
    r"\bdata/mixture\b": "data/order.py",
    r"could not be judged|cannot be judged": "only the judge judges; everything else scores",
}


@pytest.mark.parametrize("pattern", GONE)
def test_words_that_had_two_meanings_are_gone(pattern: str) -> None:
    places = [path for path in TEXTS if path.name != "CHANGELOG.md" and re.search(pattern, path.read_text())]
    assert not places, GONE[pattern]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page: Path) -> None:
    text = page.read_text()
    links = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert not [target for target in links if target and not (page.parent / target).exists()]
    named = re.findall(r"`((?:easyvideor1/|perf/|tests/|scripts/|docs/|[a-z]+/)[\w/]+\.(?:py|md|sh|yaml))\b", text)
    named = [name for name in named if "NAME" not in name]
    assert not [name for name in named if not ((ROOT / name).exists() or (ROOT / "easyvideor1" / name).exists())]


def commands() -> list[str]:
    """Every command line in the pages, without its comment."""
    lines = [line.strip() for page in PAGES for line in page.read_text().replace("\\\n", " ").splitlines()]
    whole = [line.partition("  #")[0].strip() for line in lines if line.startswith("easyvideor1 ")]
    return sorted({line for line in whole if "|" not in line})


@pytest.mark.parametrize("line", commands())
def test_commands_of_the_pages_are_understood(line: str) -> None:
    command, *words = shlex.split(line)[1:]
    assert command in COMMANDS
    parser = Parser()
    describe(parser, importlib.import_module(f"easyvideor1.cli.{command}"))
    _, rest = parser.parse_known_args(words)
    assert not [word for word in rest if word.startswith("-")]
