import json
from pathlib import Path

import pytest

from easyvideor1.data.samples import read_samples
from easyvideor1.data.schema import parse_row
from easyvideor1.errors import DataError

ROOT = Path("media")
ROW = {"problem": "Which colour?", "answer": "B", "problem_type": "multiple choice", "options": ["A. red", "B. blue"]}


def parsed(**fields):
    return parse_row({**ROW, **fields}, where="rows.jsonl:7", media_root=ROOT)


def test_a_row_in_the_public_schema_loads_with_its_answer_unwrapped():
    sample = parsed(
        solution="<answer>B</answer>", answer=None, problem_id=12, data_type="video", path="clips/a.mp4", duration_s=3.5
    )
    assert (sample.id, sample.gold, sample.modality) == ("12", "B", "video")
    assert sample.media[0].path == "media/clips/a.mp4"
    assert sample.extra == {"duration_s": 3.5}


def test_media_stand_in_the_order_of_their_tags():
    sample = parsed(
        problem="<video> then <image> then <video>: which?",
        images=["i.png"],
        videos=["a.mp4", {"path": "b.mp4", "start": 1, "end": 2.5}],
    )
    assert [(medium.kind, medium.path) for medium in sample.media] == [
        ("video", "media/a.mp4"),
        ("image", "media/i.png"),
        ("video", "media/b.mp4"),
    ]
    assert (sample.media[2].start_s, sample.media[2].end_s) == (1.0, 2.5)


def test_tags_may_be_left_out():
    assert [medium.kind for medium in parsed(images=["i.png"], videos="a.mp4").media] == ["image", "video"]


def test_a_structured_answer_becomes_its_json():
    assert json.loads(parsed(answer={"time": [1.5, 3]}).gold) == {"time": [1.5, 3]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answer": None}, "field 'answer': missing"),
        ({"answer": "<answer> </answer>"}, "field 'answer': empty gold answer"),
        ({"problem": " "}, "field 'problem': must be a non-empty text"),
        ({"problem_type": None}, "field 'problem_type': missing"),
        ({"problem": "<video> what?"}, "field 'problem': 1 <video> tags but 0 videos"),
        ({"problem": "<image> what?", "images": ["a.png", "b.png"]}, "1 <image> tags but 2 images"),
        ({"videos": [3]}, "field 'videos': a video is a path"),
        ({"videos": [{"path": "a.mp4", "strat": 1}]}, r"unknown keys \['strat'\]"),
        ({"videos": [{"path": "a.mp4", "start": 4, "end": 2}]}, "clip ends at 2.0 s, before it starts"),
        ({"videos": [{"path": "a.mp4", "start": -1}]}, "'start_s' must be a number >= 0"),
        ({"videos": 3}, "field 'videos': must be a path or a list"),
        ({"videos": [{"path": "a", "fps": "4"}]}, "'fps' must be a number >= 0"),
        ({"videos": [{"path": "a", "times_s": 3}]}, "'times_s' must be a list of numbers"),
        ({"videos": [{"path": "a", "times_s": [0, "1"]}]}, "'times_s' must be a list of numbers"),
        ({"images": [{"path": "a.png", "start": 1.0}]}, "field 'images': an image has no start"),
        ({"path": 3, "data_type": "video"}, "field 'path': a video is a path"),
        ({"path": "a.mp4"}, "field 'data_type': must be 'image' or 'video'"),
        ({"options": "A"}, "field 'options': must be a list"),
        ({"problem_id": ["x"]}, "field 'problem_id': must be a text or an integer"),
        ({"offline_output": 3}, "field 'offline_output'"),
    ],
)
def test_a_wrong_row_names_line_and_field(fields, message):
    with pytest.raises(DataError, match=f"rows.jsonl:7: .*{message}"):
        parsed(**fields)


def test_a_file_names_the_line_of_a_broken_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({**ROW, "problem_id": 1}) + "\n\n{broken\n")
    with pytest.raises(DataError, match=r"rows\.jsonl:3: broken JSON"):
        read_samples(path)
    path.write_text("\n")
    with pytest.raises(DataError, match="no rows"):
        read_samples(path)
    with pytest.raises(DataError, match="cannot read the data file"):
        read_samples(tmp_path / "gone.jsonl")


def test_a_json_list_and_jsonl_give_the_same_samples(tmp_path):
    rows = [{**ROW, "problem_id": index, "images": ["a.png"]} for index in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    first, second = (read_samples(tmp_path / name) for name in ("a.json", "a.jsonl"))
    assert [(s.id, s.media, s.source) for s in first] == [(s.id, s.media, s.source) for s in second]
    assert first[0].media[0].path == str(tmp_path / "a.png")


def test_addresses_are_left_as_they_are_and_paths_start_at_the_media_root():
    paths = ["clips/a.mp4", "/clips/a.mp4", "file:///clips/a.mp4", "data:video/mp4;base64,AAAA", "https://host/a.mp4"]
    assert [medium.path for medium in parsed(videos=paths).media] == ["media/clips/a.mp4", *paths[1:]]


def test_a_name_in_messages_holds_no_content():
    medium = parsed(images=["data:image/png;base64," + "A" * 10_000]).media[0]
    assert medium.name == "data:image/png;base64,AAAAAAAAAAAAAAAAAA.."


MARKS = {"problem_type": "multiple choice", "problem": "Which letter comes first?"}


@pytest.mark.parametrize(
    ("options", "answer", "gold"),
    [
        (["n", "v", "e"], "e", "C"),  # the third text, not the letter E
        (["A. b", "B. a", "C. c"], "a", "B"),
        (["A. red", "B. blue"], "B", "B"),
        (["A. red", "B. blue"], "blue", "B"),
        (["A. red", "B. red"], "red", "red"),  # two of them: nobody knows which
        (["A. Opening a jar", "B. Not sure"], "Not sure", "B"),
    ],
)
def test_an_answer_that_is_the_text_of_exactly_one_option_is_that_option(options, answer, gold):
    assert parsed(**MARKS, options=options, answer=answer).gold == gold


@pytest.mark.parametrize(("kind", "answer"), [("numerical", "3"), ("open-ended", "a cook"), ("multiple choice", "B")])
def test_one_text_in_a_list_is_the_gold_answer(kind, answer):
    assert parsed(problem_type=kind, answer=[answer]).gold == answer
    assert parsed(problem_type=kind, answer=None, solution=[f"<answer>{answer}</answer>"]).gold == answer


@pytest.mark.parametrize("kind", ["open-ended", "ocr", "math"])
def test_several_texts_are_no_gold_answer(kind):
    with pytest.raises(DataError, match=r"rows.jsonl:7: field 'answer': 2 gold answers, where one is needed \(keep"):
        parsed(problem_type=kind, answer=["a", "b"])
    assert parsed(problem_type="multiple select", answer=["A", "B"]).gold == '["A", "B"]'


def test_a_solution_is_a_letter_whatever_the_options_say():
    assert parsed(**MARKS, options=["A. b", "B. a"], answer=None, solution="<answer>A</answer>").gold == "A"


def test_a_charades_row_carries_its_span_in_the_think_tag():
    solution = '<think>{"time": [24.3, 30.4], "boxes": {}}</think><[PLACEHOLDER_TOKEN]>'
    sample = parsed(problem_type="temporal grounding", options=[], answer=None, solution=solution)
    assert json.loads(sample.gold)["time"] == [24.3, 30.4]
    kept = '<think>{"time": [1, 2]}</think><answer>{"time": [3, 4]}</answer>'
    assert parsed(problem_type="temporal grounding", answer=kept).gold == kept


def test_a_tube_without_boxes_is_a_question_of_time_alone():
    for gold, kind in (
        ('{"time": [2.0, 4.0], "boxes": {}}', "temporal grounding"),
        ('{"time": [2.0, 4.0]}', "temporal grounding"),
        ('{"time": [2.0, 4.0], "boxes": {"2": [1, 2, 3, 4]}}', "spatial-temporal grounding"),
        ("no JSON", "spatial-temporal grounding"),
    ):
        assert parsed(problem_type="spatial-temporal grounding", options=[], answer=gold).problem_type == kind


def test_streaming_kinds_are_numbers_and_yes_or_no():
    kinds = {kind: parsed(problem_type=kind, answer="1").problem_type for kind in ("REC", "SSR", "CRR")}
    assert kinds == {"REC": "numerical", "SSR": "boolean", "CRR": "boolean"}
