"""What the prompt of a type asks for is what its reward accepts, and training and evaluation judge by one function."""

import json
import re

import pytest

from easyvideor1.data.prompts import TEMPLATES, instruction
from easyvideor1.problem_types import CANONICAL
from easyvideor1.rewards import router
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Media, Sample

BOX = [10, 20, 110, 220]
POINTS = [[20, 30], [60, 120], [100, 200]]
PICTURE = '<svg viewBox="0 0 20 10"><circle cx="5" cy="5" r="4" fill="teal"/></svg>'
ASKED_FOR = {
    "multiple choice": "B",
    "multiple select": "A, C",
    "numerical": "17",
    "regression": "2.75",
    "temporal grounding": json.dumps({"time": [3.5, 9]}),
    "spatial grounding": json.dumps({"boxes": BOX}),
    "tracking": json.dumps({"boxes": {"1": BOX, "2": BOX}}),
    "spatial-temporal grounding": json.dumps({"time": [3.5, 5], "boxes": {"4": BOX, "5": BOX}}),
    "segmentation": json.dumps({"time": 2, "boxes": BOX, "positive_points": POINTS, "negative_points": POINTS}),
    "open-ended": "A man waters the garden.",
    "math": "\\frac{3}{4}",
    "ocr": "EXIT / GATE 9",
    "boolean": "No",
    "svg code": PICTURE,
    "html code": "<html><body><p>Hello</p></body></html>",
    "python code": "def f(x):\n    return 2 * x",
    "preference": "Response 2",
}
OTHER = {
    "multiple choice": "A", "multiple select": "A, B", "numerical": "19", "regression": "9",
    "temporal grounding": "20 to 30",
    "spatial grounding": "[500, 500, 600, 600]", "tracking": "{}", "spatial-temporal grounding": "{}",
    "segmentation": "{}", "open-ended": "Purple mountains shimmer", "math": "\\frac{4}{3}", "ocr": "way in 7",
    "boolean": "Yes", "svg code": '<svg viewBox="0 0 20 10"/>', "html code": "none", "python code": "f = 2",
    "preference": "Tie",
}  # fmt: skip


def sample(problem_type: str) -> Sample:
    options = ("cat", "dog", "boat") if problem_type.startswith("multiple") else ()
    answer = ASKED_FOR[problem_type]
    media = (Media(kind="video", path="v.mp4"),)
    return Sample(id=problem_type, problem_type=problem_type, problem="?", gold=answer, options=options, media=media)


def responses(problem_type: str) -> list[str]:
    answers = (ASKED_FOR[problem_type], OTHER[problem_type], "", "\x00\ud7ff{[(<")
    return [f"<think>so</think><answer>{answer}</answer>" for answer in answers] + ["", ASKED_FOR[problem_type]]


def test_every_type_has_a_task_a_template_and_an_example():
    assert set(CANONICAL) == set(router.TASKS) == set(ASKED_FOR) == set(OTHER)
    names = {re.sub(r"[ -]", "_", problem_type) for problem_type in CANONICAL}
    assert names == {path.stem for path in TEMPLATES.glob("[a-z]*.jinja")} - {"default"}


@pytest.mark.parametrize("problem_type", CANONICAL)
@pytest.mark.parametrize("thinking", [True, False])
def test_an_answer_in_the_asked_for_form_scores_one(problem_type, thinking):
    text = instruction(sample(problem_type), thinking=thinking)
    keys = re.findall(r'"([a-z_]+)":', ASKED_FOR[problem_type])
    assert all(f'"{key}"' in text for key in keys), text
    response = f"<answer>{ASKED_FOR[problem_type]}</answer>"
    if thinking:
        assert "<think>" in text
        response = f"<think>I look at the frames.</think>\n{response}"
    score = router.score(sample(problem_type), response, thinking=thinking)
    assert score.parts["format"] == 1
    assert score.value == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("problem_type", CANONICAL)
def test_another_answer_scores_little_and_nothing_scores_zero(problem_type):
    scores = [router.score(sample(problem_type), response) for response in responses(problem_type)]
    assert scores[0].value > 0.99
    assert scores[1].parts["accuracy"] < 0.3
    assert scores[2].value == 0
    assert scores[4].value == 0
    assert scores[5].parts == {"accuracy": 0, "format": 0}  # no answer tag


def test_training_and_evaluation_get_the_same_score_from_the_same_function_for_every_type():
    items = [(sample(problem_type), text) for problem_type in CANONICAL for text in responses(problem_type)]
    with RewardPool(workers=1) as training, RewardPool(workers=2) as evaluation:
        scores = training.score(items)
        assert type(training).score is type(evaluation).score
        assert scores == evaluation.score(items) == [router.score(*item) for item in items]
        assert scores == evaluation.score(items[::-1])[::-1]  # the order of a batch does not matter
