"""Rollouts of the next step beside the update of this one: what overlaps, what trains on what, what a kill leaves."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.made_trainer import OFTEN, Killed, low_tokens, made_config, made_trainer

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.errors import MediaError, UsageError
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.training import shelf
from easyvideor1.types import Rollout, Sample, Score, ScoredResponse

ASYNC = "train.async_level=1"


class Watched(FakeEngine):
    """Answers of two tokens; notes the samples and weights of each step, and calls `during` while it samples."""

    def __init__(self, during: Callable[[int], object] = lambda call: None) -> None:
        super().__init__(
            lambda example, index, seed: json.dumps([index * 20, 50]), lambda text: tuple(json.loads(text))
        )
        self.asked: list[tuple[list[str], int]] = []
        self._during = during

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        found = list(requests)
        self.asked.append(([request.example.sample.id for request in found if request], self._version))
        self._during(len(self.asked))
        yield from super().generate(found)


def records(folder: Path) -> list[dict[str, Any]]:
    return comparable(read_metrics(folder / "metrics.jsonl"))


def test_each_step_trains_on_rollouts_of_one_update_before_and_in_the_usual_order(tmp_path: Path) -> None:
    usual, overlapped = Watched(), Watched()
    made_trainer(made_config(tmp_path / "usual"), engine=usual).run()
    made_trainer(made_config(tmp_path / "overlapped", ASYNC), engine=overlapped).run()
    assert [version for _, version in usual.asked] == [0, 1, 2, 3]
    assert [version for _, version in overlapped.asked] == [0, 0, 1, 2]
    assert [ids for ids, _ in usual.asked] == [ids for ids, _ in overlapped.asked]
    assert [record["rollout/staleness"] for record in records(tmp_path / "overlapped")] == [0, 1, 1, 1]
    assert all("rollout/staleness" not in record for record in records(tmp_path / "usual"))


def test_sampling_goes_on_while_a_step_trains(tmp_path: Path) -> None:
    """Each waits for the other: without an overlap neither would come to its end."""
    is_training, is_sampling = threading.Event(), threading.Event()
    waited: list[bool] = []

    def during(call: int) -> None:
        if call == 2:
            is_sampling.set()
            waited.append(is_training.wait(60))

    trainer = made_trainer(made_config(tmp_path, ASYNC, "train.steps=2"), engine=Watched(during))
    update = trainer._policy.update

    def updating(*args: Any, **kwargs: Any) -> Any:
        is_training.set()
        waited.append(is_sampling.wait(60))
        return update(*args, **kwargs)

    trainer._policy.update = updating  # type: ignore[method-assign]
    trainer.run()
    assert waited == [True, True, True]


def test_a_copy_of_the_model_samples_and_the_policy_learns(tmp_path: Path) -> None:
    made_trainer(made_config(tmp_path, ASYNC, "train.steps=12")).run()
    found = records(tmp_path)
    rewards = [record["reward/mean"] for record in found]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2
    # The first step is on policy; later ones are weighted by how likely their tokens still are.
    assert found[0]["loss/sampler_weight"] == pytest.approx(1.0, abs=1e-4)
    assert all(abs(record["loss/sampler_weight"] - 1.0) > 1e-4 for record in found[1:6])
    assert found[0]["policy/sampler_logprob_diff_max"] < 1e-4 < found[1]["policy/sampler_logprob_diff_max"]


@pytest.mark.parametrize(("place", "step"), [("rollout", 3), ("update", 1), ("update", 3)])
def test_a_killed_run_goes_on_with_the_same_prompts_and_the_weights_of_its_checkpoint(
    tmp_path: Path, place: str, step: int
) -> None:
    whole = Watched()
    made_trainer(made_config(tmp_path / "whole", ASYNC), engine=whole).run()

    def dying(call: int) -> None:
        if place == "rollout" and call == step:
            raise Killed

    config = made_config(tmp_path / "stopped", ASYNC, OFTEN)
    trainer = made_trainer(config, engine=Watched(dying))
    update, calls = trainer._policy.update, iter(range(1, 9))

    def updating(*args: Any, **kwargs: Any) -> Any:
        if place == "update" and next(calls) == step:
            raise Killed
        return update(*args, **kwargs)

    trainer._policy.update = updating  # type: ignore[method-assign]
    with pytest.raises(Killed):
        trainer.run()
    again = Watched()
    made_trainer(config, engine=again).run()
    assert [ids for ids, _ in again.asked] == [ids for ids, _ in whole.asked][step - 1 :]
    assert [version for _, version in again.asked][:2] == [step - 1] * min(2, 5 - step)
    found = records(tmp_path / "stopped")
    assert [record["step"] for record in found] == [1, 2, 3, 4]
    assert found[step - 1]["rollout/staleness"] == 0


def test_an_error_while_sampling_ahead_comes_after_the_step_that_trains(tmp_path: Path) -> None:
    ids = Watched()
    made_trainer(made_config(tmp_path / "order"), engine=ids).run()
    first = {id_ for found, _ in ids.asked[:1] for id_ in found}
    bad = next(id_ for id_ in ids.asked[1][0] if id_ not in first)
    trainer = made_trainer(made_config(tmp_path / "run", ASYNC, OFTEN), engine=Watched(), bad=(bad,))
    with pytest.raises(MediaError, match=f"{bad}.mp4"):
        trainer.run()
    assert [record["step"] for record in records(tmp_path / "run")] == [1]
    assert shelf.list_checkpoints(tmp_path / "run" / "checkpoints")[-1].name == "step-000001"


def test_validation_asks_the_newest_weights_and_waits_for_the_engine(tmp_path: Path) -> None:
    seen = []

    def evaluate(engine: Any) -> list[ScoredResponse]:
        seen.append((engine._version, len(engine.asked)))
        sample = Sample(id="v", problem_type="numerical", problem="?", gold="3")
        score = Score(value=1.0, parts={"accuracy": 1.0})
        return [ScoredResponse(sample=sample, index=None, response="3", score=score)]

    engine = Watched()
    made_trainer(made_config(tmp_path, ASYNC, "train.validate_every=2"), engine=engine, evaluate=evaluate).run()
    assert seen == [(0, 0), (2, 3), (4, 4)]
    assert [version for _, version in engine.asked] == [0, 0, 1, 2]


def test_an_engine_that_needs_the_actor_as_it_is_is_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    class Comparing(Watched):
        def load_weights(self, tensors: object, *, version: int) -> None:
            super().load_weights(tensors, version=version)
            self.needs_still_actor = version == 0

    def score(items: Any) -> list[Score]:
        order.append("scored")
        return low_tokens(items)

    trainer = made_trainer(made_config(tmp_path, ASYNC, "train.steps=2"), engine=Comparing(), score=score)
    update = trainer._policy.update

    def updating(*args: Any, **kwargs: Any) -> Any:
        order.append("update")
        return update(*args, **kwargs)

    trainer._policy.update = updating  # type: ignore[method-assign]
    trainer.run()
    assert order.index("update") == order.count("scored")


def test_what_cannot_overlap_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"async_level=1 with rollout.engine=vllm.*use vllm_server"):
        made_config(tmp_path, ASYNC, "rollout.engine=vllm")
    with pytest.raises(UsageError, match=r"async_level=1: algorithm 'sft' samples nothing"):
        fitting_algorithm(made_config(tmp_path, ASYNC, "algorithm.name=sft", "offline.enable=true"))
    with pytest.raises(UsageError, match=r"async_level=1 with algorithm.options.sampler_cap=null"):
        fitting_algorithm(made_config(tmp_path, ASYNC, "algorithm.options={sampler_cap: null}"))


def test_the_cap_of_the_weights_is_the_recipes_or_two(tmp_path: Path) -> None:
    assert fitting_algorithm(made_config(tmp_path)).sampler_cap is None
    assert fitting_algorithm(made_config(tmp_path, ASYNC)).sampler_cap == 2.0
    assert fitting_algorithm(made_config(tmp_path, ASYNC, "algorithm.options={sampler_cap: 5.0}")).sampler_cap == 5.0
