"""`easyvideor1 data convert`: what becomes of the rows of public formats, and of tables of all forms."""

import base64
import gzip
import json
from pathlib import Path

import pytest
from support.public_rows import FORMATS, TABLE_MAP, write_media

from easyvideor1.cli import main
from easyvideor1.data.samples import read_samples


@pytest.fixture
def folder(tmp_path):
    write_media(tmp_path)
    return tmp_path


def converted(folder, name, *words):
    """The samples of a made-up data set, converted into another folder."""
    source, out = FORMATS[name](folder), folder / "new" / "rows.jsonl"
    if name == "table":
        words = (*words, *(word for pair in TABLE_MAP for word in ("--map", pair)))
    assert main(["data", "convert", str(source), "--out", str(out), *words]) == 0
    assert not (folder / "new" / "rows.rejected.jsonl").exists()
    return out, read_samples(out)


def test_llava_video_gives_options_turns_and_a_video_where_its_text_says_image(folder):
    _, (choice, talk) = converted(folder, "llava-video")
    assert (choice.id, choice.problem_type, choice.gold) == ("1006-8968804598", "multiple choice", "B. red.")
    assert choice.options == ("A. green.", "B. red.", "C. blue.")
    assert choice.problem.startswith("<video>\nWhich colour")
    assert [medium.kind for medium in choice.media] == ["video"]
    assert (talk.problem, talk.gold) == ("Where does it go?", "The ball moves slowly to the right.")
    assert [(turn.role, turn.content) for turn in talk.turns] == [
        ("user", "<video>\nWho is seen?"),
        ("assistant", "Nobody, only a ball."),
    ]
    assert talk.problem_type == "open-ended"


def test_ms_swift_keeps_its_system_message_and_finds_media_in_the_parts_of_a_message(folder):
    _, (count, colour) = converted(folder, "ms-swift")
    assert (count.system, count.gold, count.problem_type) == ("You look closely.", "1", "numerical")
    assert (colour.problem, colour.gold, colour.problem_type) == ("<image>Is it red?", "Yes", "boolean")
    assert colour.media[0].path == str(folder / "new" / "../c.png")


def test_verl_has_its_pictures_written_and_its_frame_rate_kept(folder, capsys):
    out, (geometry, count) = converted(folder, "verl")
    shown = " ".join(capsys.readouterr().out.split())
    assert "videos.max_pixels of 1 media is left out" in shown
    (picture,) = (folder / "new" / "rows-media").iterdir()
    assert picture.read_bytes() == (folder / "c.png").read_bytes()
    assert picture.suffix == ".png"
    assert geometry.media[0].path == str(picture)
    assert (geometry.id, geometry.problem_type, geometry.gold) == ("train-0", "math", "3")
    assert (count.system, count.media[0].fps) == ("You look closely.", 1.0)
    assert json.loads(out.read_text().splitlines()[0])["extra_info"]["split"] == "train"


def test_video_r1_thoughts_and_answer_become_an_offline_trajectory(folder):
    _, (choice, other) = converted(folder, "video-r1")
    assert choice.trajectories == ("<think>It looks red.</think>\n<answer>B</answer>",)
    assert other.trajectories == ()
    assert other.problem_type == "open-ended"


def test_time_r1_spans_and_clip_ranges(folder):
    _, (whole, part) = converted(folder, "time-r1")
    assert json.loads(whole.gold) == {"time": [1.0, 2.5]}
    assert whole.problem == 'When in the video does this happen: "The ball crosses the middle"?'
    assert (whole.media[0].start_s, whole.media[0].end_s) == (None, None)
    assert (part.media[0].start_s, part.media[0].end_s, part.id) == (0.5, 3.5, "my|didemo|b|a ball moves")


def test_videochat_r1_spans_and_boxes_are_gold_answers(folder):
    _, (choice, span, box) = converted(folder, "videochat-r1")
    assert (choice.problem_type, choice.gold, choice.extra["glue"]) == ("multiple choice", "B", [[0.0, 2.0]])
    assert (span.problem_type, json.loads(span.gold)) == ("temporal grounding", {"time": [0.5, 3.0]})
    assert (box.problem_type, json.loads(box.gold)) == ("spatial grounding", {"boxes": [10, 20, 40, 50]})


def test_a_table_is_read_through_a_map_of_its_columns(folder):
    _, (first, second) = converted(folder, "table")
    assert (first.problem, first.options, first.gold) == ("Which colour,\nplease?", ("green", "red"), "B")
    assert (first.media[0].start_s, first.media[0].end_s) == (1.0, 3.5)
    assert (second.id, second.media[0].end_s) == ("2", None)


def test_rows_that_cannot_be_converted_are_listed_with_reasons(folder, capsys):
    rows = [
        {"messages": [{"role": "user", "content": "<video>Who?"}], "videos": ["a.mp4"], "solution": "a cook"},
        {"messages": [{"role": "user", "content": "<video>Who?"}], "videos": ["a.mp4"]},
        {"messages": [{"role": "tool", "content": "5"}], "solution": "x"},
        {"messages": [{"role": "user", "content": "<video>Who?"}], "videos": ["a.mp4", "b.mp4"], "solution": "x"},
        {"nothing": 1},
    ]
    source, out = folder / "rows.jsonl", folder / "new.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    assert main(["data", "convert", str(source), "--out", str(out)]) == 1
    assert len(read_samples(out)) == 1
    lines = [json.loads(line) for line in (folder / "new.rejected.jsonl").read_text().splitlines()]
    said = [(line["where"].rpartition(":")[2], line["reasons"][0]) for line in lines]
    words = ("'answer': missing", "'tool'", "1 tags for 2 media", "no known format", "broken JSON")
    assert [place for place, _ in said] == ["2", "3", "4", "5", "6"]
    assert all(word in text for (_, text), word in zip(said, words, strict=True)), said
    assert lines[2]["row"]["videos"] == ["a.mp4", "b.mp4"]
    assert "5 rows not converted" in " ".join(capsys.readouterr().out.split())


ASKED = [{"question": "Who?", "answer": "a", "id": "x"}, {"question": "Where?", "answer": "b", "id": "y"}]
COLUMNS = {name: [row[name] for row in ASKED] for name in ASKED[0]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"info": {"version": 1}, "data": ASKED}, indent=2),
        json.dumps({row["id"]: {name: row[name] for name in ("question", "answer")} for row in ASKED}),
        json.dumps(COLUMNS, indent=2),
        json.dumps({name: {"0": column[0], "1": column[1]} for name, column in COLUMNS.items()}),
        json.dumps({"columns": list(COLUMNS), "index": [0, 1], "data": [list(row.values()) for row in ASKED]}),
        json.dumps({"features": [{"name": "id"}], "rows": [{"row_idx": 0, "row": row} for row in ASKED]}),
        "\n".join(json.dumps(row, indent=2) for row in ASKED),
        "\ufeff" + "\r\n".join(map(json.dumps, ASKED)),
    ],
    ids=["key", "by key", "lists", "pandas", "pandas split", "hub server", "spread", "windows"],
)
def test_rows_are_found_in_every_form_that_json_has_them_in(text, folder):
    (folder / "whole.json").write_text(text, newline="")
    out = folder / "rows.jsonl"
    assert main(["data", "convert", str(folder / "whole.json"), "--out", str(out)]) == 0
    found = [(sample.id, sample.problem, sample.gold) for sample in read_samples(out)]
    assert found == [("x", "Who?", "a"), ("y", "Where?", "b")]
    packed = folder / "whole.json.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert main(["data", "convert", str(packed), "--out", str(folder / "again.jsonl")]) == 0
    assert (folder / "again.jsonl").read_text() == out.read_text()


def test_one_row_over_several_lines_is_one_row(folder):
    (folder / "one.json").write_text(json.dumps(ASKED[0] | {"choices": [{"label": "A", "text": "a"}]}, indent=1))
    assert main(["data", "convert", str(folder / "one.json"), "--out", str(folder / "rows.jsonl")]) == 0
    (sample,) = read_samples(folder / "rows.jsonl")
    assert (sample.options, sample.gold) == (("A. a",), "A")


def test_an_object_of_several_lists_asks_which_one(folder, capsys):
    (folder / "splits.json").write_text(json.dumps({"train": ASKED, "test": ASKED[:1]}))
    command = ["data", "convert", str(folder / "splits.json"), "--out", str(folder / "rows.jsonl")]
    assert main(command) == 2
    assert "holds train, test; choose one with --split NAME" in capsys.readouterr().err
    assert main([*command, "--split", "test"]) == 0
    assert len(read_samples(folder / "rows.jsonl")) == 1


@pytest.mark.parametrize(
    ("fields", "options", "gold"),
    [
        ({"choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "B"}, ("A. a", "B. b"), "B"),
        ({"options": [{"key": "A", "value": "a"}, {"key": "B", "value": "b"}], "answer": "B"}, ("A. a", "B. b"), "B"),
        ({"options": {"A": "a", "B": "b", "C": None}, "answer": "B"}, ("A. a", "B. b"), "B"),
        ({"options": "['a', \"it's b\"]", "answer": "B"}, ("a", "it's b"), "B"),
        ({"options": "A. a\nB. b", "answer": "B"}, ("A. a", "B. b"), "B"),
        ({"candidates": ["a", "b"], "answer": "b"}, ("a", "b"), "B"),
        ({"a0": "a", "a1": "b", "a2": "c", "answer": 1}, ("a", "b", "c"), "B"),
        ({"option1": "a", "option2": "b", "answer": "2"}, ("a", "b"), "B"),
        ({"A": "a", "B": "b", "C": "N/A", "answer": "B"}, ("a", "b"), "B"),
    ],
)
def test_options_come_in_many_forms(fields, options, gold, folder, write_rows):
    source = write_rows([{"question": "Which?", **fields}], "source.jsonl")
    assert main(["data", "convert", str(source), "--out", str(folder / "rows.jsonl")]) == 0
    (sample,) = read_samples(folder / "rows.jsonl")
    assert (sample.options, sample.gold, sample.problem_type) == (options, gold, "multiple choice")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"system": "S", "query": "<video>Q2?", "response": "3", "history": [["Q1", "A1"]], "videos": ["a.mp4"]},
            ("S", ["Q1", "A1"], "<video>Q2?", "3"),
        ),
        ({"instruction": "Count.", "input": "3 balls", "output": "3"}, (None, [], "Count.\n3 balls", "3")),
        ({"conversation": [{"human": "Q?", "assistant": "A"}]}, (None, [], "Q?", "A")),
        (
            {"messages": json.dumps([{"role": "user", "content": "Q?"}, {"role": "assistant", "content": "A"}])},
            (None, [], "Q?", "A"),
        ),
        (
            {"prompt": [{"role": "user", "content": "Q?"}], "reward_model": json.dumps({"ground_truth": ["A"]})},
            (None, [], "Q?", "A"),
        ),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "c.png"}},
                            {"type": "text", "text": "Q?"},
                        ],
                    },
                    {"role": "assistant", "content": "A"},
                ]
            },
            (None, [], "<image>Q?", "A"),
        ),
    ],
)
def test_conversations_in_all_their_dresses(row, said, folder, write_rows):
    source = write_rows([row], "source.jsonl")
    assert main(["data", "convert", str(source), "--out", str(folder / "rows.jsonl")]) == 0
    (sample,) = read_samples(folder / "rows.jsonl")
    assert (sample.system, [turn.content for turn in sample.turns], sample.problem, sample.gold) == said
    assert len(sample.media) == ("<" in sample.problem)


def test_rows_of_one_file_need_not_be_alike(folder, write_rows):
    """What a table of fixed columns stumbles over: media as text, list or nothing, content as text or parts, ids."""

    def row(content, **more):
        return {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "1"}], **more}

    rows = [
        row("Q?", id=1),
        row("Q?", id="b", images=[]),
        row("<image>Q?", id=None, images="c.png", weight=0.5),
        row("<image><image>Q?", images=["c.png", "c.png"], weight="high"),
        row([{"type": "video", "video": "a.mp4"}, {"type": "text", "text": "Q?"}], images=None),
    ]
    source = write_rows(rows, "mixed.jsonl")
    assert main(["data", "convert", str(source), "--out", str(folder / "rows.jsonl")]) == 0
    assert [len(sample.media) for sample in read_samples(folder / "rows.jsonl")] == [0, 0, 1, 2, 1]


def test_a_tag_in_what_the_assistant_said_is_a_word(folder, write_rows):
    turns = ["Name tags of HTML.", "The tags <video> and <image>.", "<image>Which one is it?", "The first."]
    roles = ("human", "gpt", "human", "gpt")
    said = [{"from": role, "value": text} for role, text in zip(roles, turns, strict=True)]
    source = write_rows([{"conversations": said, "image": "c.png"}], "source.jsonl")
    assert main(["data", "convert", str(source), "--out", str(folder / "rows.jsonl")]) == 0
    (sample,) = read_samples(folder / "rows.jsonl")
    assert sample.turns[1].content == "The tags \\<video> and \\<image>."
    assert len(sample.media) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": None, "reward_model": {"ground_truth": "3"}}, "field 'prompt': missing"),
        (
            {"system": "S", "messages": [{"role": "system", "content": "T"}, {"role": "user", "content": "?"}]},
            "field 'system': another system message",
        ),
        (
            {"messages": [{"role": "user", "content": "<ref-object>?"}], "objects": {"ref": ["x"]}, "answer": "x"},
            "field 'objects': <ref-object> and <bbox>",
        ),
        (
            {"prompt": [{"role": "user", "content": "?"}], "reward_model": {"ground_truth": ["a", "b"]}},
            "field 'ground_truth': 2 gold answers, where one is needed",
        ),
        ({"query": "?", "response": "x", "history": ["a"]}, "field 'history': must be pairs"),
        ({"question": "?", "options": "['a' 'b']", "answer": "B"}, "field 'options': must be a list of texts"),
        ({"question": "?", "a0": "x", "a1": "y", "answer": 2}, "field 'answer': names option 2, counted from 0, of 2"),
        ({"sentence": "?", "timestamp": "[1]", "video": "a.mp4"}, "field 'timestamp': must be [start, end] in seconds"),
    ],
)
def test_what_would_be_lost_is_refused(row, message, folder, write_rows):
    source = write_rows([row], "source.jsonl")
    assert main(["data", "convert", str(source), "--out", str(folder / "rows.jsonl")]) == 1
    (line,) = (folder / "rows.rejected.jsonl").read_text().splitlines()
    assert message in json.loads(line)["reasons"][0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("problem;answer;fps;videos\nHow many?;3;1;a.mp4\n", (1.0, ())),
        (",problem,answer,options\n0,How many?,B,\"['3', '4']\"\n", (None, ("3", "4"))),
    ],
)
def test_tables_of_other_programs(text, found, folder):
    (folder / "table.csv").write_text(text)
    assert main(["data", "convert", str(folder / "table.csv"), "--out", str(folder / "rows.jsonl")]) == 0
    (sample,) = read_samples(folder / "rows.jsonl")
    assert (sample.media[0].fps if sample.media else None, sample.options) == found


def test_two_columns_of_one_name_are_an_error(folder, capsys):
    (folder / "table.csv").write_text("problem,answer,answer\n?,3,4\n")
    assert main(["data", "convert", str(folder / "table.csv"), "--out", str(folder / "rows.jsonl")]) == 1
    assert "two columns are called 'answer' (rename one)" in capsys.readouterr().err


@pytest.mark.parametrize("head", ["", "data:image/png;base64,"])
def test_a_picture_in_a_cell_is_written_and_nan_is_nothing(head, folder):
    content = (folder / "c.png").read_bytes()
    row = {"question": "?", "answer": "3", "image": head + base64.b64encode(content).decode(), "start": float("nan")}
    (folder / "source.json").write_text(json.dumps([row]))
    assert main(["data", "convert", str(folder / "source.json"), "--out", str(folder / "rows.jsonl")]) == 0
    (sample,) = read_samples(folder / "rows.jsonl")
    assert isinstance(sample.media[0].path, str)
    assert Path(sample.media[0].path).read_bytes() == content


def test_a_folder_of_splits_asks_which_one(folder, capsys):
    parts = folder / "hub" / "data"
    parts.mkdir(parents=True)
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        (parts / f"{name}.parquet").write_bytes(FORMATS["verl"](folder).read_bytes())
    command = ["data", "convert", str(folder / "hub"), "--out", str(folder / "rows.jsonl")]
    assert main(command) == 2
    assert "holds test, train; choose one with --split NAME" in capsys.readouterr().err
    assert main([*command, "--split", "train"]) == 0
    assert [sample.id for sample in read_samples(folder / "rows.jsonl")] == [
        "train-0#1", "train-1#1", "train-0#2", "train-1#2"
    ]  # fmt: skip


def test_a_damaged_table_and_a_wrong_map_are_errors_in_words(folder, capsys):
    (folder / "cut.parquet").write_bytes(FORMATS["verl"](folder).read_bytes()[:-100])
    out = str(folder / "rows.jsonl")
    assert main(["data", "convert", str(folder / "cut.parquet"), "--out", out]) == 1
    assert "cut.parquet: cannot be read" in capsys.readouterr().err
    assert main(["data", "convert", str(FORMATS["table"](folder)), "--out", out, "--map", "problem=frage"]) == 1
    assert "field 'problem': no column 'frage'; there are uid, text" in " ".join(capsys.readouterr().out.split())
    assert main(["data", "convert", str(folder / "table.csv"), "--out", out, "--map", "problem"]) == 2
    assert main(["data", "convert", str(folder / "table.csv"), "--out", str(folder / "table.csv")]) == 2
