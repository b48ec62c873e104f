"""The public functions, and the script of docs/python.md."""

import re
from pathlib import Path

import pytest
from support import small_demo
from support.small_run import environment
from support.warm_start import WarmProcess

import easyvideor1
from easyvideor1.cli import main
from easyvideor1.demo import dataset
from easyvideor1.errors import UsageError
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.types import Sample

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SMALL = [
    "train.steps=2",
    "train.prompts_per_step=2",
    "data.validation=[]",
    "optimizer.schedule=constant",
    "data.workers=1",
]


def run(script: Path, folder: Path) -> str:
    """What it prints, in a process of its own."""
    with WarmProcess(small_demo.run_script, script, folder, SMALL, env=environment()) as process:
        printed, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return printed


def test_the_script_of_the_page_gives_the_metrics_of_the_command_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "SPLITS", small_demo.SPLITS)
    [script] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "script.py").write_text(script)
    printed = run(tmp_path / "script.py", tmp_path)
    assert main(["demo", "--out", str(tmp_path / "command" / "demo-run"), *SMALL]) == 0
    assert "step 2, best accuracy None" in printed
    assert len(script.strip().splitlines()) <= 12
    folders = [tmp_path / "demo-run", tmp_path / "command" / "demo-run"]
    found = [comparable(read_metrics(folder / "metrics.jsonl")) for folder in folders]
    assert found[0] == found[1]
    assert [record["step"] for record in found[0]] == [1, 2]


def test_evaluate_answers_every_question_greedily_and_by_sampling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from easyvideor1.demo.setup import demo_config, write_data

    monkeypatch.setattr(dataset, "SPLITS", small_demo.SPLITS)
    monkeypatch.chdir(tmp_path)
    write_data(Path("demo"), seed=0)
    lines = Path("demo/data/validation.jsonl").read_text().splitlines()[:6]
    Path("demo/data/validation.jsonl").write_text("\n".join(lines) + "\n")
    config = demo_config(Path("demo"), seed=0, overrides=["train.validation_samples=2"])
    responses = easyvideor1.evaluate(config)
    assert len(responses) == 6 * 3
    assert {response.index for response in responses} == {None, 1, 2}
    assert all(response.score.is_scored for response in responses)


def test_evaluate_without_questions_is_refused(tmp_path):
    from easyvideor1.demo.setup import demo_config

    config = demo_config(tmp_path, seed=0, overrides=["data.validation=[]"])
    with pytest.raises(UsageError, match=r"data\.validation names no file"):
        easyvideor1.evaluate(config)


def test_responses_of_any_origin_are_scored():
    sample = Sample(id="1", problem_type="mcq", problem="?", gold="B", options=("red", "blue"))
    scores = easyvideor1.score([(sample, "<answer>B</answer>"), (sample, "<answer>A</answer>")])
    assert [score.value for score in scores] == [1.0, 0.1]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        easyvideor1.trian  # noqa: B018 # pyright: ignore[reportAttributeAccessIssue]
