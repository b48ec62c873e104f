"""How validation questions are answered, and when: the settings of a recipe seen in the answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.made_trainer import low_tokens, made_config, made_trainer

from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.runs.training import answer_questions
from easyvideor1.training.trainer import Trainer
from easyvideor1.types import Rollout, Sample, Score, ScoredResponse

SAMPLED = "train.validation_samples=4"


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    return made_trainer(made_config(tmp_path_factory.mktemp("run")))


def answers(trainer: Trainer, *words: str, engine: Engine | None = None) -> list[list[str]]:
    """The responses to each of two questions: the greedy one, then the sampled ones."""
    preparer: Any = trainer._collector._prepare
    parts: Any = SimpleNamespace(
        prepare_question=lambda sample: preparer.example(preparer.prompt(sample), ()),
        rewards=SimpleNamespace(score=low_tokens),
    )
    found: dict[str, list[str]] = {}
    with trainer._engine.awake():
        for answer in answer_questions(
            preparer.samples[:2], made_config("unused", *words), parts=parts, engine=engine or trainer._engine
        ):
            found.setdefault(answer.sample.id, []).append(answer.response)
    return list(found.values())


def test_filters_and_temperature_of_validation_shape_its_sampled_answers(trainer: Trainer) -> None:
    """Among the one likeliest token, sampled answers are the greedy one; far above temperature 1 no two are alike."""
    greedy = answers(trainer)
    assert [len(of_one) for of_one in greedy] == [1, 1]
    for word in ("validation.top_k=1", "validation.top_p=1e-6", "validation.temperature=1e-4"):
        found = answers(trainer, SAMPLED, word)
        assert found == [of_one * 5 for of_one in greedy], word
    for word in ("validation.temperature=50", "rollout.top_k=1"):  # the latter is of training only
        found = answers(trainer, SAMPLED, word)
        assert [of_one[:1] for of_one in found] == greedy, "the greedy answer is what checkpoints are chosen by"
        assert all(len(set(of_one)) > 1 for of_one in found), word


def test_validation_has_a_token_limit_of_its_own(trainer: Trainer) -> None:
    for word, limit in (("validation.max_response_tokens=2", 2), ("rollout.max_response_tokens=3", 3)):
        lengths = [len(json.loads(text)) for of_one in answers(trainer, SAMPLED, word) for text in of_one]
        assert max(lengths) == limit, word


class Noting(FakeEngine):
    """Notes how it is asked."""

    def __init__(self) -> None:
        super().__init__(lambda example, index, seed: "[1]", lambda text: (1,))
        self.asked: list[Sampling] = []

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        listed = list(requests)
        self.asked += [request.sampling for request in listed if request is not None]
        return super().generate(listed)


def test_penalties_of_validation_reach_the_engine_with_its_sampled_answers_only(trainer: Trainer) -> None:
    engine = Noting()
    words = (SAMPLED, "rollout.engine=vllm", "validation.presence_penalty=1.5", "validation.repetition_penalty=1.05")
    answers(trainer, *words, engine=engine)
    told = [(asked.n, asked.presence_penalty, asked.repetition_penalty) for asked in engine.asked]
    assert told == [(1, 0.0, 1.0), (4, 1.5, 1.05)] * 2


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["train.validate_every=1"], [0, 1, 2]),
        (["validation.before_training=false"], [2]),
        (["train.steps=0"], [0]),
    ],
)
def test_when_a_run_validates(tmp_path: Path, words: list[str], steps: list[int]) -> None:
    config = made_config(tmp_path, "train.steps=2", "train.prompts_per_step=2", "rollout.n=2", *words)
    validated: list[int] = []

    def evaluate(engine: Engine) -> list[ScoredResponse]:
        validated.append(trainer._state.step)
        sample = Sample(id="v", problem_type="numerical", problem="?", gold="3")
        return [ScoredResponse(sample=sample, index=None, response="3", score=Score(value=1.0, parts={"accuracy": 1}))]

    trainer = made_trainer(config, evaluate=evaluate)
    state = trainer.run()
    assert validated == steps
    assert state.step == (0 if "train.steps=0" in words else 2)
    trained = [record for record in comparable(read_metrics(tmp_path / "metrics.jsonl")) if "loss/total" in record]
    assert len(trained) == state.step
