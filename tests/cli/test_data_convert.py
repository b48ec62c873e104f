"""`easyvideor1 data convert`: public formats become rows that check, score and train."""

import json

import pytest
import yaml
from support.public_rows import FORMATS, TABLE_MAP, write_media

from easyvideor1.cli import main
from easyvideor1.data.samples import read_samples
from easyvideor1.demo.model import new_model, save, train_tokenizer

SMALL = {"fps": 2.0, "min_frames": 2, "max_frames": 4, "min_pixels": 4096, "max_pixels": 4096}
TEXTS = ["Which colour is it? A. red B. blue Think in <think> tags, then give the option letter in <answer> tags."] * 50


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(TEXTS)
    save(new_model(tokenizer, seed=0), tokenizer, folder)
    return folder


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


@pytest.mark.parametrize("name", FORMATS)
def test_a_public_format_is_converted_checked_tried_and_trained_on(name, folder, model, capsys):
    out, samples = converted(folder, name)
    assert f"{len(samples)} rows in {out}" in " ".join(capsys.readouterr().out.split())
    settings = [f"data.{kind}.{key}={value}" for kind in ("video", "image") for key, value in SMALL.items()]
    assert main(["data", "check", str(out), "--workers", "1", "--json", *settings]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["errors"], found["warnings"]) == (0, 0), found["problems"]
    assert main(["reward", "test", str(out)]) == 0
    recipe = folder / "run.yaml"
    tree = {
        "out": str(folder / "run"),
        "model": {"path": str(model)},
        "data": {"train": [{"path": str(out)}], "video": SMALL, "image": SMALL, "max_prompt_tokens": 2000},
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"n": 2, "max_response_tokens": 4},
        "train": {"steps": 1, "prompts_per_step": 2, "stop": {"zero_reward_steps": 0}},
    }
    recipe.write_text(yaml.safe_dump(tree))
    assert main(["train", str(recipe)]) == 0


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


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ({"data": [{"id": "x", "question": "Who?", "answer": "a", "video": "a.mp4"}]}, ["x"]),
        (
            {"x": {"question": "Who?", "answer": "a", "video": "a.mp4"}, "y": {"question": "?", "answer": "b"}},
            ["x", "y"],
        ),
        ({"question": ["Who?", "Where?"], "answer": ["a", "b"], "id": ["p", "q"]}, ["p", "q"]),
    ],
)
def test_one_object_holds_rows_under_a_key_by_key_or_by_column(content, ids, folder):
    (folder / "whole.json").write_text(json.dumps(content, indent=2))
    out = folder / "rows.jsonl"
    assert main(["data", "convert", str(folder / "whole.json"), "--out", str(out)]) == 0
    assert [sample.id for sample in read_samples(out)] == ids


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
