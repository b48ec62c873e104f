"""Rewards of `reward_input` dictionaries, the form of EasyR1 and its descendants."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from easyvideor1.errors import JobError, UsageError
from easyvideor1.rewards.input_functions import Answered, InputFunction, reward_input, takes_list
from easyvideor1.rewards.own_code import load_function
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample, Score

GIVEN = {"problem_type": "Video QA", "answer": "<answer>red</answer>", "data_type": "video", "problem_id": 7}
SAMPLE = Sample(id="7#1", problem_type="video qa", problem="Which?", gold="red", given=GIVEN)
OTHER = Sample(id="8", problem_type="numerical", problem="How many?", gold="3")
BATCH = """
REWARD_NAME, REWARD_TYPE = "mine", "batch"
CALLS = []
def compute_score(reward_inputs, format_weight=0.1, **kwargs):
    CALLS.append(len(reward_inputs))
    results = []
    for item in reward_inputs:
        right = float(item["response"] in item["ground_truth"])
        form = float("<answer>" in item["response"])
        overall = (1 - format_weight) * right + format_weight * form - item["response_length"] / 1000
        results.append({"overall": overall, "accuracy": right, "format": form, "calls": len(CALLS), "name": "text"})
    return results
def compute_one(reward_input):
    return {"overall": 0.25}
"""


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., str]:
    def write(text: str = BATCH, name: str = "compute_score") -> str:
        path = tmp_path / "theirs.py"
        path.write_text(text)
        return f"{path}:{name}"

    return write


def test_an_input_holds_what_the_row_writes() -> None:
    assert reward_input(Answered(SAMPLE, "red", 5)) == {
        "response": "red",
        "response_length": 5,
        "ground_truth": "<answer>red</answer>",
        "data_type": "video",
        "problem_type": "Video QA",
        "problem": "Which?",
        "problem_id": 7,
    }
    assert "response_length" not in reward_input(Answered(OTHER, "red", None))


def test_one_function_scores_all_types_in_one_call_as_it_says(place: Callable[..., str]) -> None:
    with RewardPool(rewards={"*": place()}, arguments={"*": {"format_weight": 0.2}}, workers=1) as pool:
        scores = pool.score([(SAMPLE, "red", 10), (OTHER, "<answer>4</answer>", 20), (SAMPLE, "blue", 0)])
    assert [round(score.value, 6) for score in scores] == [0.79, 0.18, 0.0]  # 0.8 - 0.01, 0.2 - 0.02
    assert [score.parts["calls"] for score in scores] == [1, 1, 1]
    assert scores[0].parts == {"accuracy": 1.0, "format": 0.0, "calls": 1.0}


def test_a_type_with_a_reward_of_its_own_keeps_it(place: Callable[..., str]) -> None:
    text = BATCH + "\nfrom easyvideor1.types import Score\ndef own(sample, text): return Score(value=0.5)\n"
    where = place(text)
    own = where.replace("compute_score", "own")
    with RewardPool(rewards={"*": where, "numerical": own}, workers=1) as pool:
        scores = pool.score([(SAMPLE, "red", 0), (OTHER, "x", 0)])
    assert (scores[0].value, scores[1].parts["accuracy"]) == (0.9, 0.5)


def test_one_by_one(place: Callable[..., str]) -> None:
    text = BATCH.replace('REWARD_NAME, REWARD_TYPE = "mine", "batch"', "")
    assert not takes_list(load_function(place(text, "compute_one")))
    assert takes_list(load_function(place(text)))
    with RewardPool(rewards={"*": place(text, "compute_one")}, workers=1) as pool:
        assert pool.score([(SAMPLE, "red")])[0] == Score(value=0.25, parts={"accuracy": 0.25, "format": 0.0}, parsed="")


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ("[]", "1 reward inputs gave 0 results"),
        ("None", "1 reward inputs gave NoneType results"),
        ("[0.5]", "a reward is a dictionary with 'overall', got 0.5"),
        ('[{"accuracy": 1}]', "a reward is a dictionary with 'overall'"),
        ('[{"overall": float("nan")}]', "'overall' must be a finite number, got nan"),
        ('[{"overall": 1, "x": float("inf")}]', "at most 64 finite numbers"),
        ('[{"overall": 1 / 0}]', r"unexpected ZeroDivisionError: division by zero \(.*theirs.py:1"),
    ],
)
def test_wrong_results_are_told(place: Callable[..., str], results: str, problem: str) -> None:
    where = place(f"def compute_score(reward_inputs): return {results}\n")
    with pytest.raises(JobError, match=problem):
        InputFunction(load_function(where), is_batch=True, place=where).scores([Answered(SAMPLE, "red", 1)])


def test_a_call_that_hangs_costs_its_deadline_and_leaves_its_responses_unscored(place: Callable[..., str]) -> None:
    where = place("import time\ndef compute_score(reward_inputs): time.sleep(60)\n")
    with RewardPool(rewards={"*": where}, workers=1, deadline_s=0.3) as pool:
        scores = pool.score([(SAMPLE, "red", 1), (SAMPLE, "blue", 1)])
    assert [score.is_scored for score in scores] == [False, False]


def test_numbers_of_numpy_are_numbers() -> None:
    made = InputFunction(lambda item: {"overall": np.float32(0.5), "long": np.int64(3)}, is_batch=False)
    assert made.scores([Answered(SAMPLE, "", 0)])[0].parts == {"accuracy": 0.5, "long": 3.0}


def test_arguments_that_a_function_does_not_take_are_named(place: Callable[..., str]) -> None:
    own = place("def compute_score(reward_inputs, weight=1): ...\n")
    with pytest.raises(UsageError, match=r"reward.arguments: .*unexpected keyword argument 'wieght'; it takes"):
        RewardPool(rewards={"*": own}, arguments={"*": {"wieght": 2}})
    with pytest.raises(UsageError, match=r"reward.arguments: 'math' is none of reward.rewards"):
        RewardPool(rewards={"*": own}, arguments={"math": {"weight": 2}})


def test_a_part_may_look_at_accuracy_and_length(tmp_path: Path) -> None:
    path = tmp_path / "parts.py"
    path.write_text(
        "def short(sample, text, *, accuracy, num_tokens, limit):\n    return accuracy * (num_tokens < limit)\n"
    )
    weights = {"accuracy": 0.5, "short": 0.5}
    with RewardPool(
        parts={"short": f"{path}:short"}, arguments={"short": {"limit": 10}}, weights=weights, workers=1
    ) as pool:
        answers = ("<answer>3</answer>", 5), ("<answer>3</answer>", 50), ("<answer>4</answer>", 5)
        scores = pool.score([(OTHER, *answer) for answer in answers])
        assert [score.value for score in scores] == [1.0, 0.5, 0.0]
        assert "came without its length" in pool.score([(OTHER, "<answer>3</answer>")])[0].reason
