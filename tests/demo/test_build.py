from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3VLForConditionalGeneration

from easyvideor1.cli import main
from easyvideor1.data.encode import Encoder
from easyvideor1.demo import build, tower
from easyvideor1.demo.build import Lesson, Teacher, response_loss, teach
from easyvideor1.demo.clips import COLOURS, DIRECTIONS, Scene, Thing
from easyvideor1.demo.demonstrations import careful
from easyvideor1.demo.model import new_model
from easyvideor1.demo.tower import token_labels
from easyvideor1.types import FrameSpec, Media, MediaPlan

FEW = ["--seed", "5", "--tower-steps", "2", "--skill-steps", "2", "--habit-steps", "1"]


@pytest.fixture(scope="module", autouse=True)
def small_steps() -> Iterator[None]:
    """A quarter of what a step learns from usually."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "EXAMS_PER_STEP", 8)
        patch.setattr(tower, "SCENES_PER_STEP", 8)
        yield


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The model folder that the command writes after very few steps."""
    out = tmp_path_factory.mktemp("model")
    assert main(["demo", "build-model", "--out", str(out), *FEW]) == 0
    return out


@pytest.fixture(scope="module")
def teacher(built, tmp_path_factory) -> Teacher:
    return Teacher(Encoder.from_pretrained(built), seed="1", folder=tmp_path_factory.mktemp("plans"))


def split(lesson: Lesson) -> list[Lesson]:
    """Each question of a lesson as a row of its own."""
    rows = []
    for number in range(1, len(lesson.families) + 1):
        keep = (lesson.segments == 0) | (lesson.segments == number)
        rows.append(
            Lesson(
                input_ids=lesson.input_ids[keep],
                position_ids=lesson.position_ids[:, keep],
                segments=np.minimum(lesson.segments[keep], 1),
                is_response=lesson.is_response[keep],
                families=(lesson.families[number - 1],),
                plan=lesson.plan,
                pixels=lesson.pixels,
            )
        )
    return rows


def test_the_command_writes_a_model_that_transformers_loads(built):
    model = Qwen3VLForConditionalGeneration.from_pretrained(built)
    assert sum(parameter.numel() for parameter in model.parameters()) <= 4_000_000
    assert model.config.to_dict()["vision_config"]["deepstack_visual_indexes"] == [0, 1]
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_the_same_seed_makes_the_same_model(built, tmp_path):
    assert main(["demo", "build-model", "--out", str(tmp_path), *FEW]) == 0
    assert (tmp_path / "model.safetensors").read_bytes() == (built / "model.safetensors").read_bytes()
    assert (tmp_path / "tokenizer.json").read_bytes() == (built / "tokenizer.json").read_bytes()


def test_every_digit_is_a_token_of_its_own_and_the_tags_of_thought_are_one_token_each(built):
    tokenizer = Encoder.from_pretrained(built).tokenizer
    assert tokenizer.tokenize("12.5") == ["1", "2", ".", "5"]
    assert tokenizer.tokenize("<think></think>") == ["<think>", "</think>"]
    assert tokenizer.decode(tokenizer("naïve 完 {}")["input_ids"]) == "naïve 完 {}"


def test_an_answer_is_read_back_as_written(built):
    encoder = Encoder.from_pretrained(built)
    text = '<think>The red one comes and goes.</think><answer>{"time": [0.5, 2.0]}</answer>'
    ids = encoder.response_ids(text)
    assert encoder.response_text(ids) == text
    assert len(ids) <= 32


def test_a_row_of_several_questions_costs_what_rows_of_their_own_cost(built, teacher):
    model = Qwen3VLForConditionalGeneration.from_pretrained(built).eval()
    lessons = [teacher.lesson(careful) for _ in range(6)]
    lesson = next(lesson for lesson in lessons if len(lesson.families) >= 3 and lesson.plan is not None)
    with torch.no_grad():
        together, hits_together = response_loss(model, [lesson])
        apart, hits_apart = response_loss(model, split(lesson))
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=0)  # float32 sums in another order
    assert hits_together == hits_apart


def test_lessons_show_the_same_frames_as_clips_of_the_data_set_would(teacher):
    lesson = next(lesson for lesson in iter(lambda: teacher.lesson(careful), None) if lesson.plan is not None)
    t, h, w = lesson.plan.grid_thw
    assert lesson.pixels.shape == (t * h * w, 3 * 2 * 16 * 16)
    assert (lesson.segments[lesson.is_response] > 0).all()


def test_the_labels_of_a_token_are_the_colours_and_directions_in_its_cell():
    red = Thing(colour="red", shape="square", x=0.4, y=0.7, radius=0.1, dx_per_s=0.2)
    yellow = Thing(colour="yellow", shape="circle", x=0.9, y=0.1, radius=0.1, start_s=0.5, end_s=9.0)
    scene = Scene(things=(red, yellow), duration_s=3.0, background="plain", shade=50, texture_seed=0)
    plan = MediaPlan(
        media=Media(kind="video", path=""), times_s=(0.0, 1.0), height=64, width=64, grid_thw=(1, 4, 4), num_tokens=4,
        spec=FrameSpec(), source_fps=8.0, duration_s=3.0, cache_key="",
    )  # fmt: skip
    labels = token_labels(scene, plan)
    names = [*(f"{colour} {frame}" for frame in (0, 1) for colour in COLOURS), *DIRECTIONS]
    found = [{name for name, label in zip(names, token, strict=True) if label} for token in labels]
    # Cells in rows of two; at 1 s red is at x = 0.6, in the right half.
    assert found == [set(), {"yellow 1"}, {"red 0", "right"}, {"red 1", "right"}]


def test_learning_on_one_batch_lowers_its_loss(built, teacher):
    model = new_model(Encoder.from_pretrained(built).tokenizer, seed=0)
    lessons = [teacher.lesson(careful) for _ in range(4)]
    with torch.no_grad():
        before = response_loss(model, lessons)[0].item()
    teach(model, iter([lessons] * 8), steps=8, learning_rate=2e-3)
    with torch.no_grad():
        assert response_loss(model, lessons)[0].item() < 0.7 * before


def test_options_of_build_model_without_its_word_are_refused(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path), "--skill-steps", "3"]) == 2
    assert "build-model" in capsys.readouterr().err


def test_build_model_refuses_overrides(tmp_path, capsys):
    assert main(["demo", "build-model", "train.steps=3", "--out", str(tmp_path)]) == 2
    assert "train.steps=3" in capsys.readouterr().err
