"""The reader of data files: where rows stand, what a line is that is none, and files of other kinds."""

import json
import re

import pytest

from easyvideor1.data.rows import Row, RowFile
from easyvideor1.data.samples import read_samples
from easyvideor1.errors import DataError

ROW = {"problem": "Which colour?", "answer": "B", "problem_type": "multiple choice", "options": ["A. red", "B. blue"]}
LINE = json.dumps(ROW).encode()


@pytest.mark.parametrize(
    ("content", "places"),
    [
        (LINE + b"\n" + LINE, ["1", "2"]),
        (b"\xef\xbb\xbf" + LINE + b"\r\n\r\n" + LINE + b"\r\n", ["1", "3"]),
        (LINE + b"\r" + LINE, ["1", "2"]),
        (b"\n\n" + LINE, ["3"]),
        (b"\xef\xbb\xbf\n [" + LINE + b",\n" + LINE + b"]", ["0", "1"]),
        (LINE.replace(b"Which", "Which\u2028".encode()), ["1"]),
    ],
)
def test_rows_are_found_whatever_ends_a_line(content, places, tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(content)
    rows = list(RowFile(path))
    assert all(isinstance(row, Row) for row in rows)
    assert [re.sub(r".*rows[:\[]", "", row.where).rstrip("]") for row in rows] == places


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace(b"Which", b"Which \xff"), r":2: not UTF-8 text at byte \d+ \(save the file as UTF-8\)"),
        (LINE.replace(b"Which", b"Which \\ud83d"), r":2: half a character, .ud83d"),
        (b'{"problem_id": ' + b"1" * 5000 + b"}", ":2: broken JSON: .*digits"),
        (b"[" * 100_000, ":2: broken JSON: nested too deeply"),
        (b"[1]", ":2: a row is a JSON object, got list"),
        (b'"text"', ":2: a row is a JSON object, got str"),
    ],
)
def test_a_line_that_is_no_row_is_named_and_does_not_hide_the_next(line, message, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join([LINE, line, LINE]))
    errors = []
    assert len(read_samples(path, on_bad=errors.append)) == 2
    assert len(errors) == 1
    assert re.search(message, str(errors[0])), errors[0]


def test_a_broken_list_names_the_line_in_it(tmp_path):
    path = tmp_path / "rows.json"
    path.write_bytes(b"[" + LINE + b",\n{broken]")
    with pytest.raises(DataError, match=r"rows\.json: broken JSON: .* at line 2, column 2"):
        read_samples(path)
