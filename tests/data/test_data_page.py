"""What docs/data.md says of rows is so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from easyvideor1.data.convert.formats import FORMATS
from easyvideor1.data.media_fields import END_NAMES, START_NAMES
from easyvideor1.data.memory import Memory, Remembered
from easyvideor1.data.schema import READ_FIELDS, parse_row
from easyvideor1.rewards import router
from easyvideor1.runs.steps import MEMORY_FOLDER

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
TABLE_NAMES = set(re.findall(r"`([a-z_]+)`", PAGE))


def examples() -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL):
        text = block.strip()
        while text:
            row, end = decoder.raw_decode(text)
            yield row
            text = text[end:].strip()


@pytest.mark.parametrize("row", list(examples()), ids=lambda row: row["problem"][:20])
def test_every_example_is_a_row_with_a_gold_answer_that_can_be_judged(row: dict[str, Any]) -> None:
    sample = parse_row(row, where="data.md", media_root=Path())
    assert sample.extra == {}
    router.check([sample])


def test_every_field_has_an_example_or_a_line() -> None:
    shown = {name for row in examples() for name in row}
    assert READ_FIELDS - shown - TABLE_NAMES == set()
    assert {"problem", "answer", "options", "images", "videos", "path", "system", "turns", "offline_output"} <= shown


def test_every_spelling_of_a_clip_range_is_named() -> None:
    assert {*START_NAMES, *END_NAMES} <= TABLE_NAMES


def test_every_form_that_is_converted_is_named() -> None:
    assert all(f"`{name}`" in PAGE for name in FORMATS)


def test_what_is_remembered_lies_where_the_page_says(tmp_path: Path) -> None:
    assert f"`CACHE/{MEMORY_FOLDER}/`" in PAGE
    memory = Memory(tmp_path / MEMORY_FOLDER, "")
    memory.keep(tmp_path / "rows.jsonl", Remembered())
    assert len(list((tmp_path / MEMORY_FOLDER).iterdir())) == 1
