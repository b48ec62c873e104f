"""`easyvideor1 reward score` and `reward test`."""

import json
from pathlib import Path

import pytest

from easyvideor1.cli import main
from easyvideor1.rewards.registry import REGISTRY


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


CASES = [
    {
        "id": "a",
        "problem_type": "multiple_choice",
        "ground_truth": "B",
        "response": "<think>x</think><answer>(B) cat</answer>",
        "options": ["A. dog", "B. cat"],
        "response_length": 850,
        "max_response_length": 1000,
        "overlong_buffer_length": 200,
    },
    {"id": "b", "problem_type": "numerical", "ground_truth": 12, "response": "<answer>a dozen</answer>"},
    {
        "id": "c",
        "problem_type": "temporal grounding",
        "ground_truth": {"time": [2, 6]},
        "response": "<answer>4 to 6</answer>",
    },
    {"id": "d", "problem_type": "tracing", "ground_truth": "x", "response": "<answer>x</answer>"},
    {"id": "e", "problem_type": "numerical", "ground_truth": "many", "response": "<answer>many</answer>"},
    {"id": "f", "problem_type": "OCR", "ground_truth": "<answer>EXIT</answer>", "response": None},
    {"id": "g", "problem_type": "boolean", "ground_truth": "Yes", "response": "yes"},
]


def test_every_case_gets_a_row_of_its_own(tmp_path, capsys):
    cases, out = write_rows(tmp_path / "cases.jsonl", CASES), tmp_path / "scores.jsonl"
    assert main(["reward", "score", str(cases), "--out", str(out)]) == 0
    rows = {row["id"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert list(rows) == list("abcdefg")
    assert rows["a"] == {
        "id": "a", "accuracy": 1.0, "format": 1.0, "overall": 1.0, "overlong": -0.25, "status": "scored",
        "reason": "", "parsed": "B",
    }  # fmt: skip
    assert [rows[name]["accuracy"] for name in "bcfg"] == [1.0, 0.5, 0.0, 0.0]
    assert rows["c"]["overall"] == pytest.approx(0.9 * 0.5 + 0.1)
    assert rows["d"]["status"] == rows["e"]["status"] == "error"
    assert "did you mean 'tracking'" in rows["d"]["reason"]
    assert "one finite number" in rows["e"]["reason"]
    assert rows["d"]["accuracy"] is None
    assert "2 error, 5 scored" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lengths", "field"),
    [
        ({"response_length": 5}, "max_response_length"),
        ({"response_length": "5", "max_response_length": 9}, "response_length"),
        ({"format_weight": "much"}, "format_weight"),
    ],
)
def test_a_case_with_a_number_missing_is_named_with_its_line(tmp_path, capsys, lengths, field):
    cases = write_rows(tmp_path / "cases.jsonl", [CASES[1], CASES[1] | lengths])
    assert main(["reward", "score", str(cases), "--out", str(tmp_path / "scores.jsonl")]) == 1
    assert f"cases.jsonl:2: field '{field}': must be a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["reward.workers=0"], "reward.workers"),
        (["reward.deadline_s=-1"], "reward.deadline_s"),
        (["--out", "nowhere/scores.jsonl"], "the folder nowhere does not exist"),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_is_judged(tmp_path, capsys, options, message):
    cases = write_rows(tmp_path / "cases.jsonl", CASES)
    assert main(["reward", "score", str(cases), "--out", str(tmp_path / "scores.jsonl"), *options]) == 2
    assert message in capsys.readouterr().err


def test_thinking_is_wanted_where_it_is_asked_for(tmp_path):
    cases, out = write_rows(tmp_path / "cases.jsonl", CASES[:2]), tmp_path / "scores.jsonl"
    main(["reward", "score", str(cases), "--out", str(out), "--thinking"])
    assert [json.loads(line)["format"] for line in out.read_text().splitlines()] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "place"), [('{"id": "a"\n', "cases.jsonl:1"), ('{"id": "a", "problem_type": "ocr"}\n', "ground_truth")]
)
def test_a_broken_case_file_is_named_and_ends_with_one(tmp_path, capsys, rows, place):
    path = tmp_path / "cases.jsonl"
    path.write_text(rows)
    assert main(["reward", "score", str(path), "--out", str(tmp_path / "out.jsonl")]) == 1
    assert place in capsys.readouterr().err


DATA = [
    {"problem_id": 1, "problem_type": "multiple choice", "problem": "?", "options": ["cat", "dog"], "answer": "A"},
    {"problem_id": 2, "problem_type": "multiple choice", "problem": "?", "options": ["cat", "dog"], "answer": "B"},
    {"problem_id": 3, "problem_type": "numerical", "problem": "?", "answer": "3"},
    {"problem_id": 4, "problem_type": "numerical", "problem": "?", "solution": "<answer>4</answer>"},
    {"problem_id": 5, "problem_type": "ocr", "problem": "?", "answer": "EXIT"},
]


def test_sound_data_passes_with_a_line_per_type(tmp_path, capsys):
    assert main(["reward", "test", str(write_rows(tmp_path / "data.jsonl", DATA))]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "\u2502" in line]
    assert [line.split("\u2502")[1].strip() for line in lines] == ["multiple choice", "numerical", "ocr"]
    assert all("1.000" in line and " ok " in line for line in lines)


def test_a_reward_that_fails_its_own_golds_ends_with_one(tmp_path, capsys):
    (tmp_path / "own.py").write_text(
        "from easyvideor1.types import Score\n\ndef stingy(sample, text):\n    return Score(value=0.25)\n"
    )
    try:
        data = write_rows(tmp_path / "data.jsonl", DATA[2:4])
        assert main(["reward", "test", str(data), f"reward.rewards={{numerical: {tmp_path / 'own.py'}:stingy}}"]) == 1
    finally:
        for table in (REGISTRY.rewards, REGISTRY.parts, REGISTRY.places):
            table.clear()
    assert "data.jsonl:1: its own gold answer scores 0.25" in capsys.readouterr().out


def test_a_row_with_an_unknown_type_or_gold_is_named_and_the_others_are_tried(tmp_path, capsys):
    rows = [*DATA, {"problem_id": 6, "problem_type": "numerical", "problem": "?", "answer": "some"}]
    assert main(["reward", "test", str(write_rows(tmp_path / "data.jsonl", rows))]) == 1
    out = capsys.readouterr().out
    assert "data.jsonl:6: field 'answer'" in out
    assert "1 rows could not be tried" in out
    assert "multiple choice" in out
