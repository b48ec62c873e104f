import hashlib
import json
from collections import Counter
from pathlib import Path
from random import Random

import av
import numpy as np
import pytest
from support.values import present

from easyvideor1.data.samples import read_samples
from easyvideor1.demo.clips import COLOURS, Scene, Thing, draw
from easyvideor1.demo.dataset import build_dataset
from easyvideor1.demo.questions import YES_FRAC, reading_exam, text_exam, video_exam


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("demo-data")
    build_dataset(out, seed=3)
    return out


def rows_of(data: Path, split: str) -> list[dict]:
    return [json.loads(line) for line in (data / f"{split}.jsonl").read_text().splitlines()]


def media_of(rows: list[dict]) -> set[str]:
    return {path for row in rows for path in row.get("videos", []) + row.get("images", [])}


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_files_and_another_seed_others(data, tmp_path):
    build_dataset(tmp_path / "again", seed=3)
    build_dataset(tmp_path / "other", seed=4)
    assert digest(tmp_path / "again") == digest(data)
    assert digest(tmp_path / "other") != digest(data)


def test_train_and_validation_share_no_clip_not_even_under_another_name(data):
    train, validation = media_of(rows_of(data, "train")), media_of(rows_of(data, "validation"))
    assert len(train) + len(validation) == 300
    content = {split: {(data / name).read_bytes() for name in names} for split, names in
               (("train", train), ("validation", validation))}  # fmt: skip
    assert not content["train"] & content["validation"]


def test_every_kind_of_question_is_there_and_validation_has_200_or_more(data):
    rows = rows_of(data, "validation")
    assert len(rows) >= 200
    assert len(read_samples(data / "validation.jsonl")) == len(rows)
    types = Counter(row["problem_type"] for row in rows)
    assert set(types) == {"multiple choice", "numerical", "boolean", "temporal grounding"}
    assert set(Counter(row["data_type"] for row in rows)) == {"video", "image", "text"}
    assert {"direction", "colour", "order", "count", "when", "existence", "seen"} <= {row["family"] for row in rows}


def test_no_answer_can_be_had_by_always_saying_the_same(data):
    rows = rows_of(data, "train")
    for problem_type, limit in (("multiple choice", 0.45), ("boolean", YES_FRAC + 0.1), ("numerical", 0.4)):
        answers = Counter(row["answer"] for row in rows if row["problem_type"] == problem_type)
        assert max(answers.values()) / sum(answers.values()) < limit, problem_type


def test_a_clip_is_h264_with_its_promised_rate_and_length(data):
    row = next(row for row in rows_of(data, "train") if row["data_type"] == "video")
    with av.open(str(data / row["videos"][0])) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.average_rate == 8
        assert float(present(stream.duration) * present(stream.time_base)) in (3.0, 4.0)


def test_a_thing_is_drawn_where_it_moves_to_and_only_while_it_is_visible():
    red = Thing(colour="red", shape="square", x=0.25, y=0.5, radius=0.1, dx_per_s=0.25, start_s=0.5, end_s=2.5)
    scene = Scene(things=(red,), duration_s=3.0, background="plain", shade=50, texture_seed=0)
    pictures = draw(scene, (0.0, 1.0, 2.5), side_px=40)
    assert pictures.shape == (3, 40, 40, 3)
    assert tuple(pictures[1, 20, 20]) == COLOURS["red"]  # x = 0.25 + 1.0 * 0.25 = 0.5 of 40 px
    assert np.ptp(pictures[0]) == 0
    assert np.ptp(pictures[2]) == 0


def test_backgrounds_are_grey_so_that_colour_belongs_to_things_only():
    for background in ("plain", "gradient", "stripes", "speckle"):
        scene = Scene(things=(), duration_s=0.0, background=background, shade=70, texture_seed=5)
        picture = draw(scene, (0.0,), side_px=64)
        assert (picture == picture[..., :1]).all()


def test_the_right_option_of_a_direction_question_is_the_way_the_shape_moves():
    rng = Random(0)
    exams = [video_exam(rng) for _ in range(60)]
    checked = 0
    for exam in exams:
        for question in exam.questions:
            if question.family == "direction":
                (mover,) = present(exam.scene).things
                told = question.options["ABCD".index(question.gold)][3:]
                ways = {"left": mover.dx_per_s < 0, "right": mover.dx_per_s > 0,
                        "up": mover.dy_per_s < 0, "down": mover.dy_per_s > 0}  # fmt: skip
                assert [way for way, is_so in ways.items() if is_so] == [told]
                checked += 1
    assert checked > 5


def test_a_reading_exam_tells_what_a_video_exam_shows():
    exam = reading_exam(Random(2))
    assert exam.scene is None
    for question in exam.questions:
        assert question.problem.startswith(f"{question.fact}. ")


def test_sums_add_up():
    rng = Random(1)
    for question in (text_exam(rng).questions[0] for _ in range(20)):
        assert question.family == "sum"
        left, right = question.problem.removeprefix("What is ").rstrip("?").split(" + ")
        assert question.gold == str(int(left) + int(right))
