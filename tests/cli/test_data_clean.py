"""`easyvideor1 data clean`: the rows that can be used, under ids of their own; the others with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.public_rows import write_media

from easyvideor1.cli import main
from easyvideor1.data.samples import read_samples

GOOD = {"id": "a", "problem": "How many?", "problem_type": "numerical", "answer": "3", "videos": ["a.mp4"]}


def clean(data: Path, out: Path) -> int:
    return main(["data", "clean", str(data), "--out", str(out), "--workers", "1", "--verdicts", f"{data}.known"])


def test_good_rows_are_written_and_the_others_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_media(tmp_path)
    rows = [GOOD, GOOD | {"answer": "many"}, GOOD | {"videos": ["gone.mp4"]}, GOOD | {"problem": "Who?", "mood": 1}]
    data, out = tmp_path / "rows.jsonl", tmp_path / "new" / "good.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    before = data.read_bytes()
    assert clean(data, out) == 0
    assert "2 rows in" in capsys.readouterr().out
    first, last = read_samples(out)
    assert (first.id, last.id, last.extra) == ("a#1", "a#4", {"mood": 1})
    assert isinstance(first.media[0].path, str)
    assert Path(first.media[0].path).samefile(tmp_path / "a.mp4")
    lines = [json.loads(line) for line in (out.parent / "good.rejected.jsonl").read_text().splitlines()]
    assert [line["where"].rpartition(":")[2] for line in lines] == ["2", "3", "5"]
    for line, words in zip(lines, ("got 'many'", "gone.mp4: cannot be read", "broken JSON"), strict=True):
        assert words in line["reasons"][0]
    assert (lines[0]["row"]["answer"], lines[2]["text"]) == ("many", "{broken")
    assert data.read_bytes() == before
    assert clean(out, tmp_path / "again.jsonl") == 0
    assert not (tmp_path / "again.rejected.jsonl").exists()


def test_a_list_that_breaks_off_keeps_the_rows_before(tmp_path: Path) -> None:
    data, out = tmp_path / "rows.json", tmp_path / "good.jsonl"
    row = {name: value for name, value in GOOD.items() if name != "videos"}
    data.write_text(json.dumps([row, row])[:-20])
    assert clean(data, out) == 0
    assert len(read_samples(out)) == 1
    (line,) = (tmp_path / "good.rejected.jsonl").read_text().splitlines()
    assert "broken JSON: Unterminated string" in json.loads(line)["reasons"][0]


def test_without_a_good_row_it_ends_with_one_and_the_source_is_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text("{broken\n")
    assert clean(data, tmp_path / "good.jsonl") == 1
    assert clean(data, data) == 2
    assert "is one of the data files; name another file" in capsys.readouterr().err
    assert data.read_text() == "{broken\n"
