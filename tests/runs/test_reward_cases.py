"""The grader tried by hand, with the rewards of a recipe."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml
from support.judge_server import Server

from easyvideor1.errors import DataError, UsageError
from easyvideor1.recipe import load_settings
from easyvideor1.runs.reward_cases import RewardSetup, counts_of, exit_code, score_cases, try_rewards
from easyvideor1.types import Sample

TREE = {
    "out": "run",
    "model": {"path": "model"},
    "data": {"train": [{"path": "a.jsonl"}], "thinking": True},
    "cache": {"dir": "cache"},
    "train": {"steps": 3},
}
OWN = """
from easyvideor1.types import Score

def chess(sample, text):
    if text == "broken":
        raise KeyError("x")
    return Score(value=float(sample.gold in text))

def brevity(sample, text):
    return 1 / (1 + len(text))
"""


@pytest.fixture
def recipe(tmp_path):
    """A recipe with a reward and a part of its own, in a folder of its own."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)

    def write(**reward: object) -> str:
        tree = TREE | {"reward": {"rewards": {"chess move": "own.py:chess"}, **reward}}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(tree))
        return str(folder / "recipe.yaml")

    return write


def setup_of(recipe):
    return RewardSetup.of(load_settings(recipe))


def case(problem_type: str, gold: str, response: str, **more: object) -> dict:
    return {"id": gold, "problem_type": problem_type, "ground_truth": gold, "response": response, **more}


def test_cases_are_scored_with_the_rewards_parts_and_weights_of_a_recipe(recipe, write_rows):
    setup = setup_of(
        recipe(parts={"brevity": "own.py:brevity"}, weights={"accuracy": 0.8, "format": 0.1, "brevity": 0.1})
    )
    assert setup.thinking
    rows = [case("chess move", "e4", "e4"), case("numerical", "4", "<think>x</think><answer>4</answer>")]
    results = score_cases(write_rows(rows), setup)
    assert [result["accuracy"] for result in results] == [1, 1]
    assert results[0]["brevity"] == pytest.approx(1 / 3)
    assert results[0]["overall"] == pytest.approx(0.8 + 0.1 / 3)
    assert results[1]["format"] == 1
    assert exit_code(results) == 0


def test_cases_of_which_none_could_be_scored_end_with_one(recipe, write_rows):
    setup = setup_of(recipe())
    results = score_cases(write_rows([case("chess move", "e4", "broken"), case("tracing", "x", "x")]), setup)
    assert counts_of(results) == {"unscored": 1, "error": 1}
    assert exit_code(results) == 1
    assert "own.py:6: raise KeyError" in results[0]["reason"]
    results = score_cases(write_rows([case("chess move", "e4", "broken"), case("chess move", "e4", "e4")]), setup)
    assert exit_code(results) == 0
    assert exit_code([]) == 0


def test_a_row_that_is_no_case_is_named(write_rows):
    with pytest.raises(DataError, match=r"data\.jsonl:1: field 'response': missing"):
        score_cases(write_rows([{"problem_type": "ocr", "ground_truth": "x"}]), RewardSetup())
    with pytest.raises(DataError, match=r"data\.jsonl:1: field 'response_length': must be a number"):
        score_cases(write_rows([case("ocr", "x", "x", response_length="long")]), RewardSetup())


def test_the_judge_of_a_recipe_scores_its_types(recipe, write_rows, tmp_path):
    def reply(_: str, user: str) -> str:
        answer = user.split("====\n")[1]
        return f"VERDICT: {10 if 'water' in answer or answer.startswith('4') else 0}"

    server = Server(reply)
    try:
        judge = {
            "base_url": server.url,
            "model": "m",
            "problem_types": ["open-ended"],
            "cache_dir": str(tmp_path / "c"),
        }
        setup = setup_of(recipe(judge=judge))
        rows = [
            case("open-ended", "He waters", f"<answer>{answer}</answer>") for answer in ("he gives water", "he sleeps")
        ]
        assert [result["accuracy"] for result in score_cases(write_rows(rows), setup)] == [1, 0]
        samples = [sample("open-ended", "He waters them", 1), sample("open-ended", "A dog sleeps", 2)]
        trial = try_rewards(samples, setup)
        assert trial.exit_code == 1  # the judge knows nothing of dogs
        assert trial.types[0].gold == 0.5
        assert trial.mistakes == ["rows:2: its own gold answer scores 0.0 (judged by m)"]
    finally:
        server.close()


def test_a_judge_that_cannot_be_reached_is_a_usage_error(recipe, write_rows, tmp_path):
    judge = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "problem_types": ["open-ended"], "retries": 0}
    setup = setup_of(recipe(judge=judge | {"cache_dir": str(tmp_path / "c")}))
    with pytest.raises(UsageError, match=r"reward\.judge: m at http://127\.0\.0\.1:9/v1"):
        score_cases(write_rows([case("open-ended", "x y", "<answer>x</answer>")]), setup)


def sample(problem_type: str, gold: str, number: int) -> Sample:
    return Sample(id=str(number), where=f"rows:{number}", problem_type=problem_type, problem="?", gold=gold)


def test_rewards_are_tried_on_golds_on_golds_of_others_and_on_nothing():
    samples = [sample("numerical", gold, number) for number, gold in enumerate("3345")]
    trial = try_rewards([*samples, sample("ocr", "EXIT", 9)], RewardSetup())
    assert trial.exit_code == 0
    assert [(one.problem_type, one.num_rows, one.gold, one.other, one.empty) for one in trial.types] == [
        ("numerical", 4, 1, 0, 0),
        ("ocr", 1, 1, None, 0),
    ]
    assert [one.verdict for one in trial.types] == ["ok", "ok"]


def test_a_bad_row_is_counted_and_the_others_are_tried():
    trial = try_rewards(
        [sample("numerical", "many", 1), sample("tracing", "x", 2), sample("numerical", "4", 3)], RewardSetup()
    )
    assert [one.num_rows for one in trial.types] == [1]
    assert trial.exit_code == 1
    assert len(trial.bad) == 2
    assert "rows:1: field 'answer': a numerical answer is one finite number" in trial.bad[0]


def test_a_reward_that_scores_nothing_says_so(recipe):
    setup = setup_of(recipe())
    own = {"ocr": setup.reward.rewards["chess move"].replace(":chess", ":brevity")}
    trial = try_rewards([sample("ocr", "EXIT", 1)], replace(setup, reward=replace(setup.reward, rewards=own)))
    assert trial.types[0].verdict == "nothing scored"
    assert trial.exit_code == 1
    assert "must return a Score, got float" in trial.mistakes[0]


def test_an_unreadable_recipe_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such recipe"):
        setup_of(tmp_path / "none.yaml")


def test_the_module_loads_no_torch():
    code = "import sys, easyvideor1.runs.reward_cases; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_results_are_json(write_rows):
    (result,) = score_cases(
        write_rows([case("numerical", "4", "<answer>4</answer>", response_length=5, max_response_length=9)]),
        RewardSetup(),
    )
    assert json.loads(json.dumps(result))["overlong"] == 0
