"""The rows in docs/data.md are rows."""

import json
import re
from pathlib import Path

from easyvideor1.data.schema import USED_FIELDS, parse_row
from easyvideor1.rewards.router import check

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text()


def test_every_row_of_the_page_loads_and_its_gold_answer_is_read(tmp_path: Path) -> None:
    rows = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    assert len(rows) == 6
    for row in rows:
        check([parse_row(row, where="docs/data.md", media_root=tmp_path)])


def test_the_table_names_every_field_that_is_read() -> None:
    table = PAGE.partition("## Fields")[2].partition("## A part")[0]
    named = set(re.findall(r"`(\w+)", table))
    times = {"start_s", "start", "video_start", "start_time", "clip_start", "fps", "data_source", "duration"}
    ends = {"end_s", "end", "video_end", "end_time", "clip_end"}
    assert not USED_FIELDS - named - times - ends
