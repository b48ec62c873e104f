"""What people write wrong in rows: each mistake has its exit code and one line of place, field and remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.public_rows import write_media

from easyvideor1.cli import main

Row = dict[str, Any]

NUMBER: Row = {"problem": "How many?", "problem_type": "numerical", "answer": "3"}
VIDEO = NUMBER | {"videos": ["a.mp4"]}
CHOICE: Row = {"problem": "Which?", "problem_type": "multiple choice", "options": ["red", "blue"], "answer": "A"}
SPAN = VIDEO | {"problem_type": "temporal grounding", "answer": {"time": [1, 3]}}
BOX = NUMBER | {"problem_type": "spatial grounding", "answer": {"boxes": [1, 2, 30, 40]}, "images": ["c.png"]}
TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "A cook."}]


def renamed(row: Row, **names: str) -> Row:
    """The row with fields under other names."""
    return {names.get(name, name): value for name, value in row.items()}


def without(row: Row, *names: str) -> Row:
    return {name: value for name, value in row.items() if name not in names}


ERRORS: Sequence[tuple[Row, str, str]] = [
    # a row, the field to blame, words of the line
    (renamed(VIDEO, videos="video"), "video", "did you mean 'videos'? `data convert --map videos=video`"),
    (renamed(VIDEO, videos="vidoes"), "vidoes", "did you mean 'videos'?"),
    (renamed(VIDEO, videos="video_path"), "video_path", "did you mean 'videos'?"),
    (renamed(BOX, images="image"), "image", "did you mean 'images'?"),
    (renamed(CHOICE, options="option"), "option", "did you mean 'options'?"),
    (renamed(CHOICE, options="choices"), "choices", "did you mean 'options'?"),
    (renamed(NUMBER, answer="answers"), "answers", "did you mean 'answer'?"),
    (renamed(NUMBER, answer="gt"), "gt", "did you mean 'answer'?"),
    (renamed(NUMBER, problem="question"), "question", "did you mean 'problem'?"),
    (renamed(NUMBER, problem_type="problem_typ"), "problem_typ", "did you mean 'problem_type'?"),
    (NUMBER | {"history": [["a", "b"]]}, "history", "did you mean 'turns'?"),
    (NUMBER | {"system_prompt": "Look."}, "system_prompt", "did you mean 'system'?"),
    (NUMBER | {"data_type": "video"}, "data_type", "the model would answer blindly (name the files in 'videos'"),
    (NUMBER | {"data_type": "image", "images": []}, "data_type", "the model would answer blindly"),
    ({"text": "?", "mark": 3}, "problem", "missing; the row has text, mark"),
    (without(NUMBER, "problem_type"), "problem_type", "tells it by the gold answers"),
    (NUMBER | {"problem": 5}, "problem", "must be a non-empty text, got 5"),
    (NUMBER | {"problem_type": "numercal"}, "problem_type", "did you mean 'numerical'?"),
    (NUMBER | {"id": [1]}, "id", "must be a text or an integer, got [1]"),
    (NUMBER | {"answer": "many"}, "answer", "one finite number, got 'many'"),
    (NUMBER | {"answer": ["3", "4"]}, "answer", "one finite number"),
    (NUMBER | {"answer": " "}, "answer", "empty gold answer"),
    (NUMBER | {"answer": float("nan")}, "answer", "missing"),
    (CHOICE | {"answer": "F"}, "answer", "one of the letters A, B, got 'F'"),
    (CHOICE | {"options": "red, blue"}, "options", "must be a list of texts"),
    (CHOICE | {"options": [f"x{number}" for number in range(27)]}, "options", "27 options, but there are 26 letters"),
    (CHOICE | {"options": [{"label": "A", "text": "red"}]}, "options", "must be a list of texts"),
    (CHOICE | {"options": {"label": ["A"], "text": ["red"]}}, "options", "must be a list of texts"),
    (SPAN | {"answer": {"time": [3, 1]}}, "answer", "0 <= start < end"),
    (BOX | {"answer": {"boxes": [30, 40, 1, 2]}}, "answer", "x1 < x2 and y1 < y2"),
    (VIDEO | {"start": 3, "end": 1}, "start", "before it starts (give start < end"),
    (VIDEO | {"start": 30}, "start_s", "beyond its end at 4.000 s"),
    (VIDEO | {"start": "soon"}, "start", "got 'soon' (give seconds, or a time such as 01:05.5)"),
    (VIDEO | {"start": 1, "clip_start": 2}, "start", "say different things (leave one"),
    (NUMBER | {"end": 2}, "end", "the row has no video for it"),
    (VIDEO | {"fps": 0}, "fps", "is 0 (give frames per second"),
    (VIDEO | {"fps": "fast"}, "fps", "must be a number"),
    (VIDEO | {"videos": [3]}, "videos", "got 3 (such as ["),
    (VIDEO | {"videos": ["a.mp4", None]}, "videos", "got None"),
    (VIDEO | {"videos": [{"path": "a.mp4", "max_pixels": 9}]}, "videos", "unknown keys ['max_pixels']"),
    (VIDEO | {"problem": "<video><video>?"}, "problem", "2 <video> tags but 1 videos (write one <video> tag per video"),
    (VIDEO | {"problem": "<image>?"}, "problem", "1 <image> tags but 0 images"),
    (NUMBER | {"problem": "What is a <video>?"}, "problem", "\\<video> is the word itself"),
    (NUMBER | {"turns": TURNS[:1]}, "turns", "the last turn is the user's"),
    (NUMBER | {"turns": TURNS[::-1]}, "turns", "must be what user and assistant said in turn"),
    (NUMBER | {"system": ""}, "system", "must be a non-empty text"),
    (NUMBER | {"offline_output": [["<answer>3</answer>"]]}, "offline_output", "lists within the list are no responses"),
    (NUMBER | {"offline_output": "x", "has_offline_trajectory": "yes"}, "has_offline_trajectory", "true or false"),
    (VIDEO | {"videos": ["gone.mp4"]}, "", "gone.mp4: cannot be read: No such file or directory (check the path"),
]

WARNINGS: Sequence[tuple[Row, str, str]] = [
    (VIDEO | {"data_type": "image"}, "data_type", "is 'image', but the row has videos"),
    (VIDEO | {"data_type": "vidoe"}, "data_type", "'vidoe' is none of image, video, text"),
    (CHOICE | {"options": ["red", "red"]}, "options", "A and B are the same"),
    (CHOICE | {"options": ["red", " "]}, "options", "option B is empty (leave it out)"),
    (SPAN | {"answer": {"time": [1, 40]}}, "answer", "names second 40, but what is seen lasts 4.0 s"),
    (SPAN | {"start": 2, "answer": {"time": [1, 3.9]}}, "answer", "lasts 2.0 s (count from the start of the clip)"),
    (BOX | {"answer": {"boxes": [0, 0, 5000, 20]}}, "answer", "lies outside the picture of 64x64 pixels"),
    (NUMBER | {"problem": "<|video_pad|>?"}, "problem", "<|video_pad|> in it is read as plain text"),
    (NUMBER | {"problem": "<audio> Who?"}, "audios", "nothing is heard"),
    (NUMBER | {"has_offline_trajectory": True}, "offline_output", "empty, but has_offline_trajectory is true"),
    (
        NUMBER | {"offline_output": ["<answer>3</answer>", ""]},
        "offline_output",
        "1 of 2 offline trajectories are empty",
    ),
    (NUMBER | {"offline_output": "<answer>4</answer>"}, "offline_output", "is wrong: its accuracy is 0"),
    (NUMBER | {"offline_output": "<think>x</think><answer>3"}, "offline_output", "ends without </answer>"),
    (VIDEO | {"fps": 30}, "", "asks for every frame of the file"),
]
FORMATS: Sequence[tuple[Row, str]] = [
    ({"messages": [{"role": "user", "content": "?"}], "solution": "3"}, "ms-swift's `messages` rows"),
    (NUMBER | {"messages": [{"role": "system", "content": "Look."}]}, "ms-swift's `messages` rows"),
    ({"conversations": [{"from": "human", "value": "?"}], "video": "a.mp4"}, "the `conversations` rows of LLaVA-Video"),
    ({"prompt": [{"role": "user", "content": "?"}], "reward_model": {"ground_truth": "3"}}, "verl's `prompt` rows"),
    ({"sentence": "?", "timestamp": [1, 2], "video": "a.mp4"}, "Time-R1's rows"),
    ({"question": "?", "answer": "3", "video": "a.mp4"}, "VideoChat-R1's rows"),
    ({"data": [NUMBER, NUMBER]}, "one JSON object that holds the rows under 'data'"),
    ({"problem": ["a?", "b?"], "answer": ["1", "2"]}, "one JSON object of columns"),
]
FILES: Sequence[tuple[str, bytes, str, str]] = [
    # name, content, place, words of the line
    ("cut.jsonl", b'{"problem": "cut\n', ":1", "broken JSON: Unterminated string"),
    ("python.jsonl", b"{'problem': 'x'}\n", ":1", "this is Python's notation: write the row with json.dumps"),
    ("joined.jsonl", json.dumps(NUMBER).encode() * 2, ":1", "two rows on one line: begin a new line for each"),
    ("cut.json", json.dumps([NUMBER, NUMBER]).encode()[:-20], "", "broken JSON: Unterminated string"),
    ("number.jsonl", b"3\n", ":1", "a row is a JSON object, got int (such as {"),
    ("empty.jsonl", b"\n", "", "no rows (the file must hold JSON objects"),
    ("page.jsonl", b"<html>404</html>", "", "a page of HTML or XML, where rows of JSON are expected (the download"),
    (
        "utf16.jsonl",
        json.dumps(NUMBER).encode("utf-16"),
        "",
        "text in UTF-16, where rows of JSON are expected (save it",
    ),
    ("latin.jsonl", '{"problem": "caf\u00e9"}\n'.encode("latin-1"), ":1", "not UTF-8 text at byte 16 (save the file"),
    (
        "table.csv",
        b"problem,answer\n?,3\n",
        "",
        "a CSV table, where rows of JSON are expected (convert it: easyvideor1",
    ),
    ("rows.parquet", b"PAR1....", "", "a Parquet file, where rows of JSON are expected (convert it: easyvideor1"),
    ("torn.jsonl.gz", b"\x1f\x8b\x08\x00torn", "", "damaged gzip file"),
    ("pickle.jsonl", b"\x80\x04.", "", "pickles are never read, because they can run code"),
    ("half.jsonl", b'{"problem": "\\ud800"}\n', ":1", "half a character"),
    (
        "pretty.json",
        json.dumps(NUMBER, indent=1).encode(),
        "",
        "where rows are expected (write a list of objects, or try: ",
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    write_media(folder)
    return folder


def write(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def checked(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit code and lines of `data check`."""
    code = main(["data", "check", str(path), "--workers", "1", "--verdicts", f"{path}.known"])
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    lines = (said.out + said.err).splitlines()
    return code, [line for line in lines if line]  # old versions of rich end with an empty one


def line_of(lines: Sequence[str], place: str) -> str:
    found = [line for line in lines if f"{place}: " in line]
    assert found, (place, lines)
    return found[0]


@pytest.mark.parametrize(("level", "mistakes", "code"), [("error", ERRORS, 1), ("warning", WARNINGS, 0)])
def test_each_row_has_a_line_with_its_place_its_field_and_what_to_do(
    level: str, mistakes: Sequence[tuple[Row, str, str]], code: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbered = [
        row | {"problem": f"{number}: {row['problem']}"} if isinstance(row.get("problem"), str) else row
        for number, (row, _, _) in enumerate(mistakes)
    ]
    data = write(folder / f"{level}s.jsonl", numbered)
    found, lines = checked(data, capsys)
    assert found == code
    assert f"{len(mistakes)} rows: " in lines[-1]
    for number, (_, field, words) in enumerate(mistakes, start=1):
        line = line_of(lines, f"{data}:{number}")
        assert line.startswith(f"{level}: "), line
        assert not field or f"field '{field}': " in line, line
        assert words in line, line
        assert "(" in line or "; " in line or ":" in line.rpartition(words)[2], line


@pytest.mark.parametrize(("row", "words"), FORMATS)
def test_a_row_of_another_project_is_named_with_the_command_that_converts_it(
    row: Row, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write(folder / "foreign.jsonl", [row])
    code, lines = checked(data, capsys)
    assert code == 1
    line = line_of(lines, f"{data}:1")
    assert f"this looks like {words}" in line
    assert f"(convert it: easyvideor1 data convert {data} --out foreign-rows.jsonl)" in line


@pytest.mark.parametrize(("name", "content", "place", "words"), FILES)
def test_a_file_that_holds_no_rows_says_what_it_is(
    name: str, content: bytes, place: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / name
    path.write_bytes(content)
    code, lines = checked(path, capsys)
    assert code == 1
    line = line_of(lines, f"{path}{place}")
    assert words in line
    assert "(" in line


def test_a_folder_is_named_with_the_command_that_converts_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = folder / "saved"
    saved.mkdir()
    (saved / "dataset_info.json").write_text("{}")
    code, lines = checked(saved, capsys)
    assert code == 1
    assert "a folder of Hugging Face datasets" in line_of(lines, str(saved))
    assert "easyvideor1 data convert" in line_of(lines, str(saved))


def test_ids_that_occur_twice_are_numbered_with_one_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [NUMBER | {"id": "a", "problem": f"{n}?"} for n in range(3)]
    data = write(folder / "twice.jsonl", rows)
    code, lines = checked(data, capsys)
    assert code == 0
    line = line_of(lines, f"{data}:1")
    assert line.startswith("warning: ")
    assert "1 id occurs on 3 rows (a): they are called ID#1, ID#2, .. in the order of the rows" in line


def test_one_question_with_two_golds_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(folder / "golds.jsonl", [VIDEO, VIDEO | {"answer": "4"}, NUMBER | {"answer": "5"}, VIDEO])
    code, lines = checked(data, capsys)
    assert code == 0
    line = line_of(lines, f"{data}:2")
    assert f"field 'answer': another one than that of {data}:1 to the same question (keep one)" in line
    assert f"{len([line for line in lines if 'another one' in line])}" == "1"


def test_a_literal_tag_is_escaped_and_labels_are_not_doubled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        VIDEO | {"problem": "<video>What does \\<video> mean?"},
        CHOICE | {"problem": "1: Which?", "options": ["\uff21\uff0e red", "\uff22\uff0e blue"]},
        CHOICE | {"problem": "2: Which? \uff21\uff0ered \uff22\uff0eblue"},
    ]
    data = write(folder / "fine.jsonl", rows)
    assert checked(data, capsys)[0] == 0
    for place, words in enumerate(
        ("What does <video> mean?", "\nA. red\nB. blue\n", "\uff21\uff0ered \uff22\uff0eblue")
    ):
        words_of_it = ["--id", f"fine.jsonl:{place + 1}", "--model", "easyvideor1/demo/model"]
        assert main(["explain", str(data), *words_of_it, "--out", str(folder / "seen")]) == 0
        said = (folder / "seen" / "prompt.txt").read_text()
        assert words in said
        assert said.count("red") == said.count("blue") <= 1


def recipe(folder: Path, train: Path, validation: Path | None = None, **more: Any) -> str:
    tree = {
        "out": str(folder / "run"),
        "model": {"path": "easyvideor1/demo/model"},
        "data": {
            "train": [{"path": str(train)}],
            "validation": [{"path": str(validation)}] if validation else [],
            "video": {"max_frames": 4, "max_pixels": 4096, "min_pixels": 4096},
        },
        "cache": {"dir": str(folder / "cache")},
        "train": {"steps": 1, "prompts_per_step": 4},
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(tree | more))
    return str(path)


def test_validation_shares_nothing_with_training(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write(folder / "train.jsonl", [VIDEO, NUMBER | {"problem": "Other?"}])
    validation = write(folder / "validation.jsonl", [NUMBER | {"problem": "New?"}, VIDEO | {"problem": "When?"}])
    path = recipe(folder, train, validation)
    assert main(["data", "check", "--recipe", path, "--workers", "1"]) == 0
    line = line_of(capsys.readouterr().out.splitlines(), f"{validation}:2")
    assert line.startswith("warning: ")
    assert f"a.mp4 is also seen in the training row {train}:1" in line
    assert main(["train", path]) == 1
    said = capsys.readouterr().err
    assert f"{validation}:2: validation must not share questions or media with training" in said
    assert "(take other rows for validation, or set data.allow_shared_validation=true)" in said


def test_a_batch_larger_than_the_data_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(folder / "few.jsonl", [NUMBER, VIDEO])
    assert main(["data", "check", "--recipe", recipe(folder, data), "--workers", "1"]) == 0
    line = line_of(capsys.readouterr().out.splitlines(), str(data))
    assert line.startswith("warning: ")
    assert "train.prompts_per_step is 4, but only 2 rows can be used" in line
    assert "lower it, or add rows" in line


@pytest.mark.parametrize("command", ["train", "reward"])
def test_other_commands_say_the_same(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(folder / "bad.jsonl", [NUMBER, renamed(VIDEO, videos="vidoes")])
    words = ["train", recipe(folder, data)] if command == "train" else ["reward", "test", str(data)]
    assert main(words) == 1
    said = capsys.readouterr()
    line = line_of((said.out + said.err).splitlines(), f"{data}:2")
    assert "field 'vidoes': no field of a row (did you mean 'videos'?" in line
    assert command == "reward" or "data clean" in line


def test_unknown_keys_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(folder / "keys.jsonl", [NUMBER | {"mood": 1}, NUMBER | {"problem": "2?", "mood": 2, "id": "x"}])
    code, lines = checked(data, capsys)
    assert code == 0
    assert "unknown keys: distinct 1, mood 2" in lines
