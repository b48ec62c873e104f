import json
from dataclasses import replace

import pytest
import torch
from support.made_trainer import (
    NUM_SAMPLES,
    OFTEN,
    STEPS,
    Killed,
    final_weights,
    low_tokens,
    made_config,
    made_trainer,
)

from easyvideor1.errors import MediaError, RunError
from easyvideor1.records.folder import RunFolder
from easyvideor1.report.read import comparable, read_metrics, read_validation
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.training import manifest, shelf
from easyvideor1.types import Rollout, Sample, Score, ScoredResponse, StopReason


def test_the_loop_raises_a_reward_that_the_policy_can_raise(tmp_path):
    config = made_config(tmp_path, "train.steps=12")
    made_trainer(config).run()
    rewards = [record["reward/mean"] for record in comparable(read_metrics(tmp_path / "metrics.jsonl"))]
    assert len(rewards) == 12
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2


def test_one_update_per_step_needs_no_old_logprobs_and_its_ratio_is_exactly_one(tmp_path):
    trainer = made_trainer(made_config(tmp_path))
    trainer.run()
    assert trainer._policy.num_old_forwards == 0
    for record in comparable(read_metrics(tmp_path / "metrics.jsonl")):
        assert (record["loss/ratio"], record["loss/ratio_clipped_frac"], record["loss/kl_old"]) == (1.0, 0.0, 0.0)
        assert record["policy/sampler_logprob_diff_max"] < 1e-4


def test_several_updates_per_step_compute_old_logprobs_once(tmp_path):
    trainer = made_trainer(made_config(tmp_path, "train.updates_per_step=2", "train.steps=1"))
    trainer.run()
    assert trainer._policy.num_old_forwards > 0
    assert comparable(read_metrics(tmp_path / "metrics.jsonl"))[0]["loss/ratio"] != 1.0


def test_groups_are_dealt_evenly_to_the_updates_of_a_step(tmp_path):
    trainer = made_trainer(made_config(tmp_path, "train.prompts_per_step=5", "train.updates_per_step=4"))
    collected = trainer._collector.collect(1, 0, version=0)
    groups = trainer._with_credit(collected, collected.tally)
    works = trainer._minibatches(groups, collected.candidates)
    assert [work.batch.num_groups for work in works] == [1, 1, 1, 2]
    assert [work.batch.num_groups for work in trainer._minibatches(groups[:2], collected.candidates)] == [1, 1]


def test_the_gap_to_the_engine_leaves_offline_log_probabilities_out(tmp_path):
    foreign = Rollout(
        token_ids=(1, 2), text="[1, 2]", logprobs=(-50.0, -50.0), stop_reason=StopReason.EOS, source="offline"
    )
    offline = OfflineTrajectories(by_sample={str(index): (foreign,) for index in range(NUM_SAMPLES)}, num_too_long=0)
    config = made_config(tmp_path, "offline.enable=true", "algorithm.options={offline_old: stored}", "train.steps=1")
    made_trainer(config, offline=offline).run()
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert record["rollout/offline_frac"] == 0.25
    assert record["policy/sampler_logprob_diff_max"] < 1e-4


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory):
    """(folder of a run with validations, its weights in the end)."""
    folder = tmp_path_factory.mktemp("whole")
    trainer = made_trainer(made_config(folder, OFTEN), evaluate=validation_of(read_only=True))
    trainer.run()
    return folder, final_weights(trainer)


@pytest.mark.parametrize("place", ["rollout", "reward", "update", "checkpoint"])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_killed_at_any_step_and_restarted_equals_never_killed(tmp_path, monkeypatch, place, step, never_killed):
    whole, expected = never_killed
    stopped = made_config(tmp_path / "stopped", OFTEN)
    evaluate = validation_of(read_only=True)
    trainer = made_trainer(stopped, evaluate=evaluate)
    kill(trainer, monkeypatch, place=place, call=step)
    with pytest.raises(Killed):
        trainer.run()
    monkeypatch.undo()
    resumed = made_trainer(stopped, evaluate=evaluate)
    torch.manual_seed(step)  # another process has another random state
    assert resumed._state.step == step - 1
    resumed.run()

    found = final_weights(resumed)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    runs = (whole, tmp_path / "stopped")
    records = [comparable(read_metrics(run / "metrics.jsonl")) for run in runs]
    assert records[0] == records[1]
    validations = [read_validation(run / "validation.jsonl") for run in runs]
    assert validations[0] == validations[1]


@pytest.mark.parametrize(
    "words",
    [
        ["algorithm.name=ema_grpo"],
        ["algorithm.options={kl_coef: 0.1, kl_target: 0.01, kl_horizon: 20}", "optimizer.learning_rate=0.05"],
    ],
)
def test_what_an_algorithm_remembers_goes_on_too(tmp_path, monkeypatch, words):
    whole, stopped = (made_config(tmp_path / name, OFTEN, *words) for name in ("whole", "stopped"))
    expected = made_trainer(whole)
    expected.run()
    trainer = made_trainer(stopped)
    kill(trainer, monkeypatch, place="update", call=3)
    with pytest.raises(Killed):
        trainer.run()
    monkeypatch.undo()
    resumed = made_trainer(stopped)
    carried = resumed._state.carried
    assert carried.moments if "ema_grpo" in words[0] else carried.kl_coef not in (None, 0.1)
    resumed.run()
    found = final_weights(resumed)
    for name, tensor in final_weights(expected).items():
        assert torch.equal(tensor, found[name]), name
    records = [comparable(read_metrics(tmp_path / run / "metrics.jsonl")) for run in ("whole", "stopped")]
    assert records[0] == records[1]
    if "kl_target" in words[0]:
        coefs = [record["update/kl_coef"] for record in records[0] if "update/kl_coef" in record]
        assert coefs[0] == 0.1
        assert len(set(coefs)) > 2


def kill(trainer, monkeypatch, *, place, call):
    """Let the call-th use of a stage end the process, half-way through its effects where it has any."""
    calls = 0

    def dying_score(items):
        """The scorer is called as rollouts come: the first of a step's 16 is what counts here."""
        nonlocal calls
        calls += len(items)
        if calls > 16 * (call - 1):
            raise Killed
        return low_tokens(items)

    def dying(wrapped):
        def stage(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == call:
                if place == "update":
                    wrapped(*args, **kwargs)
                raise Killed
            return wrapped(*args, **kwargs)

        return stage

    if place == "rollout":
        monkeypatch.setattr(trainer._engine, "generate", dying(trainer._engine.generate))
    elif place == "reward":
        monkeypatch.setattr(trainer._collector, "_score", dying_score)
    elif place == "update":
        monkeypatch.setattr(trainer._policy, "update", dying(trainer._policy.update))
    else:
        calls = -1  # the first checkpoint is that of step 0
        monkeypatch.setattr(manifest, "seal", dying(manifest.seal))


def validation_of(*, read_only):
    def evaluate(engine):
        sample = Sample(id="v", problem_type="numerical", problem="?", gold="3")
        return [
            ScoredResponse(sample=sample, index=None, response="3", score=Score(value=1.0, parts={"accuracy": 1.0}))
        ]

    return evaluate


def test_learning_rate_zero_changes_no_weight(tmp_path):
    trainer = made_trainer(made_config(tmp_path, "optimizer.learning_rate=0"))
    before = final_weights(trainer)
    trainer.run()
    assert all(torch.equal(tensor, before[name]) for name, tensor in final_weights(trainer).items())


def test_the_loop_runs_with_a_scripted_engine(tmp_path):
    def script(example, index, seed):
        return json.dumps([index, 50] if example.sample.modality == "text" else [60, 50])

    engine = FakeEngine(script, lambda text: tuple(json.loads(text)))
    trainer = made_trainer(made_config(tmp_path), engine=engine)
    state = trainer.run()
    assert state.step == STEPS
    with pytest.raises(ValueError, match="closed file"):  # a program that trains often keeps no file open
        trainer._metrics.log(9, {})
    records = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert {record["rollout/response_tokens_mean"] for record in records} == {2.0}


def test_a_bad_video_is_an_error_or_a_counted_skip(tmp_path):
    with pytest.raises(MediaError, match=r"2\.mp4"):
        made_trainer(made_config(tmp_path / "a"), bad=("2", "5")).run()
    made_trainer(made_config(tmp_path / "b", "data.on_bad_sample=skip"), bad=("2", "5")).run()
    noted = [json.loads(line)["where"] for line in (tmp_path / "b" / "bad_samples.jsonl").read_text().splitlines()]
    assert set(noted) == {"2.mp4", "5.mp4"}
    records = comparable(read_metrics(tmp_path / "b" / "metrics.jsonl"))
    assert len(records) == STEPS
    assert sum(record["data/skipped"] for record in records) == len(noted)
    with pytest.raises(RunError, match="no usable sample is left"):
        made_trainer(
            made_config(tmp_path / "c", "data.on_bad_sample=skip"), bad=tuple(map(str, range(NUM_SAMPLES)))
        ).run()


def test_unscored_rollouts_do_not_train_and_too_many_stop_the_run(tmp_path):
    def unscored(share):
        def score(pairs):
            scores = low_tokens(pairs)
            return [
                Score.unscored("timed out") if index % 4 < share * 4 else score for index, score in enumerate(scores)
            ]

        return score

    made_trainer(made_config(tmp_path / "a"), score=unscored(0.25)).run()
    assert {
        record["reward/unscored_frac"] for record in comparable(read_metrics(tmp_path / "a" / "metrics.jsonl"))
    } == {0.25}
    with pytest.raises(RunError, match=r"8 of 16 rollouts could not be scored.*timed out"):
        made_trainer(made_config(tmp_path / "b"), score=unscored(0.5)).run()


def test_old_checkpoints_go_and_an_unfinished_one_is_never_taken(tmp_path):
    config = made_config(tmp_path, OFTEN)
    made_trainer(config).run()
    folder = RunFolder(config.out).checkpoints
    assert [path.name for path in shelf.list_checkpoints(folder)] == ["step-000003", "step-000004"]
    (folder / "step-000009").mkdir()
    assert shelf.list_checkpoints(folder)[-1].name == "step-000004"
    assert made_trainer(replace(config, train=replace(config.train, steps=5))).run().step == 5
