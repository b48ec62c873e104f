import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tiny_models import tiny_case, tiny_model

from easyvideor1.algo.fit import fitting_recipe
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import apply_overrides, build
from easyvideor1.data.dataset import Example
from easyvideor1.errors import MediaError, RunError
from easyvideor1.report.metrics import comparable, read
from easyvideor1.report.progress import open_progress
from easyvideor1.report.records import read_validation
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.stored import StoredRollouts
from easyvideor1.train import checkpoint, lora, shared_prefix
from easyvideor1.train.policy import Policy
from easyvideor1.train.reference import reference_of
from easyvideor1.train.trainer import Trainer
from easyvideor1.types import Answer, Rollout, Sample, Score, StopReason

NUM_SAMPLES = 6
STEPS = 4
END_ID = 7
ENCODER = SimpleNamespace(end_ids=(END_ID,), pad_id=95, banned_ids=(90, 91, 92, 93), response_text=str)


class Killed(BaseException):
    """Stands for the death of the process: no handler of the loop may see it."""


class MadePreparer:
    """Random prompts and patches of text, image and video samples; `bad` ids cannot be decoded."""

    def __init__(self, model, bad=()):
        self.bad = bad
        self.cases = {}
        for index in range(NUM_SAMPLES):
            media = ({}, {"images": [(1, 4, 4)]}, {"videos": [(2, 4, 4)]})[index % 3]
            self.cases[str(index)] = tiny_case(model, name=str(index), lengths=[1], text_len=4 + index, **media)

    @property
    def samples(self):
        return [case.group.prompt.sample for case in self.cases.values()]

    def prompt(self, sample):
        return self.cases[sample.id].group.prompt

    def clips(self, prompt):
        if prompt.sample.id in self.bad:
            raise MediaError("cannot be decoded", where=f"{prompt.sample.id}.mp4")
        return ()

    def example(self, prompt, clips):
        return Example(prompt=prompt, clips=clips, features=self.cases[prompt.sample.id].features)


def low_tokens(pairs):
    """Reward: the share of token ids below 40 (the text of a made response is the list of its ids)."""
    scores = []
    for _, text, _ in pairs:
        ids = json.loads(text)
        value = sum(token < 40 for token in ids) / len(ids)
        scores.append(Score(value=value, parts={"accuracy": value, "format": 1.0}))
    return scores


def made_config(out, *overrides):
    tree = {
        "out": str(out),
        "model": {"path": "unused"},
        "data": {"train": []},
        "cache": {"dir": "unused"},
        "rollout": {"n": 4, "max_response_tokens": 5},
        "optimizer": {"learning_rate": 0.01},
        "train": {"steps": STEPS, "prompts_per_step": 4, "tokens_per_row": 200},
    }
    return build(RunConfig, apply_overrides(tree, overrides), where="test")


def made_trainer(config, *, engine=None, score=low_tokens, bad=(), evaluate=None, stored=None):
    found = checkpoint.list_checkpoints(config_checkpoints(config))
    model = tiny_model("qwen3_vl").to(getattr(torch, config.model.dtype))
    preparer = MadePreparer(model, bad)
    if config.model.lora:
        lora.add_adapters(model, config.model.lora)
    shared_prefix.enable(model)
    algorithm = fitting_recipe(config)
    reference = reference_of(model) if algorithm.needs_reference else None
    if found:
        checkpoint.load_weights(found[-1], model=model)
    policy = Policy(
        model,
        recipe=algorithm,
        optimizer=config.optimizer,
        total_steps=STEPS,
        temperature=config.rollout.temperature,
        reference=reference,
    )
    return Trainer(
        config,
        samples=preparer.samples,
        prepare=preparer,
        engine=engine or HFEngine(model, ENCODER, rows_per_batch=16),
        policy=policy,
        recipe=algorithm,
        score=score,
        evaluate=evaluate,
        progress=open_progress(title="test", total_steps=STEPS),
        stored=stored,
    )


def config_checkpoints(config):
    from pathlib import Path

    return Path(config.out) / "checkpoints"


def final_weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer._policy.model.state_dict().items()}


def test_the_loop_raises_a_reward_that_the_policy_can_raise(tmp_path):
    config = made_config(tmp_path, "train.steps=12")
    made_trainer(config).run()
    rewards = [row["reward/mean"] for row in comparable(read(tmp_path / "metrics.jsonl"))]
    assert len(rewards) == 12
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2


def test_one_update_per_step_needs_no_old_logprobs_and_its_ratio_is_exactly_one(tmp_path):
    trainer = made_trainer(made_config(tmp_path))
    trainer.run()
    assert trainer._policy.num_old_forwards == 0
    for row in comparable(read(tmp_path / "metrics.jsonl")):
        assert (row["loss/ratio"], row["loss/ratio_clipped_frac"], row["loss/kl_old"]) == (1.0, 0.0, 0.0)
        assert row["policy/sampler_logprob_diff_max"] < 1e-4


def test_several_updates_per_step_compute_old_logprobs_once(tmp_path):
    trainer = made_trainer(made_config(tmp_path, "train.updates_per_step=2", "train.steps=1"))
    trainer.run()
    assert trainer._policy.num_old_forwards > 0
    assert comparable(read(tmp_path / "metrics.jsonl"))[0]["loss/ratio"] != 1.0


def test_groups_are_dealt_evenly_to_the_updates_of_a_step(tmp_path):
    trainer = made_trainer(made_config(tmp_path, "train.prompts_per_step=5", "train.updates_per_step=4"))
    gathered = trainer._gatherer.gather(1, 0)
    groups = trainer._with_credit(gathered, gathered.tally)
    works = trainer._minibatches(groups, gathered.candidates)
    assert [work.batch.num_groups for work in works] == [1, 1, 1, 2]
    assert [work.batch.num_groups for work in trainer._minibatches(groups[:2], gathered.candidates)] == [1, 1]


def test_the_gap_to_the_engine_leaves_stored_log_probabilities_out(tmp_path):
    foreign = Rollout(
        token_ids=(1, 2), text="[1, 2]", logprobs=(-50.0, -50.0), stop_reason=StopReason.EOS, source="offline"
    )
    stored = StoredRollouts(by_sample={str(index): (foreign,) for index in range(NUM_SAMPLES)}, num_too_long=0)
    config = made_config(tmp_path, "mix.enable=true", "algorithm.options={offline_old: stored}", "train.steps=1")
    made_trainer(config, stored=stored).run()
    [row] = comparable(read(tmp_path / "metrics.jsonl"))
    assert row["rollout/offline_frac"] == 0.25
    assert row["policy/sampler_logprob_diff_max"] < 1e-4


@pytest.mark.parametrize("place", ["rollout", "reward", "update", "checkpoint"])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_killed_at_any_step_and_restarted_equals_never_killed(tmp_path, monkeypatch, place, step):
    whole, stopped = made_config(tmp_path / "whole"), made_config(tmp_path / "stopped")
    evaluate = validation_of(read_only=True)
    expected = made_trainer(whole, evaluate=evaluate)
    expected.run()

    trainer = made_trainer(stopped, evaluate=evaluate)
    kill(trainer, monkeypatch, place=place, call=step)
    with pytest.raises(Killed):
        trainer.run()
    monkeypatch.undo()
    resumed = made_trainer(stopped, evaluate=evaluate)
    torch.manual_seed(step)  # another process has another random state
    assert resumed._state.step == step - 1
    resumed.run()

    for name, tensor in final_weights(expected).items():
        assert torch.equal(tensor, final_weights(resumed)[name]), name
    rows = [comparable(read(tmp_path / run / "metrics.jsonl")) for run in ("whole", "stopped")]
    assert rows[0] == rows[1]
    validations = [read_validation(tmp_path / run / "validation.jsonl") for run in ("whole", "stopped")]
    assert validations[0] == validations[1]


def kill(trainer, monkeypatch, *, place, call):
    """Let the call-th use of a stage end the process, half-way through its effects where it has any."""
    calls = 0

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
        monkeypatch.setattr(trainer._gatherer, "_score", dying(trainer._gatherer._score))
    elif place == "update":
        monkeypatch.setattr(trainer._policy, "update", dying(trainer._policy.update))
    else:
        calls = -1  # the first checkpoint is that of step 0
        monkeypatch.setattr(checkpoint, "save_file", dying(checkpoint.save_file))


def validation_of(*, read_only):
    def evaluate(engine):
        sample = Sample(id="v", problem_type="numerical", problem="?", answer="3")
        return [Answer(sample=sample, draw=None, response="3", score=Score(value=1.0, parts={"accuracy": 1.0}))]

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
    state = made_trainer(made_config(tmp_path), engine=engine).run()
    assert state.step == STEPS
    rows = comparable(read(tmp_path / "metrics.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert {row["rollout/response_tokens_mean"] for row in rows} == {2.0}


def test_a_bad_video_is_an_error_or_a_counted_skip(tmp_path):
    with pytest.raises(MediaError, match=r"2\.mp4"):
        made_trainer(made_config(tmp_path / "a"), bad=("2", "5")).run()
    made_trainer(made_config(tmp_path / "b", "data.on_bad_sample=skip"), bad=("2", "5")).run()
    noted = [json.loads(line)["where"] for line in (tmp_path / "b" / "bad_samples.jsonl").read_text().splitlines()]
    assert set(noted) == {"2.mp4", "5.mp4"}
    rows = comparable(read(tmp_path / "b" / "metrics.jsonl"))
    assert len(rows) == STEPS
    assert sum(row["data/skipped"] for row in rows) == len(noted)
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
    assert {row["reward/unscored_frac"] for row in comparable(read(tmp_path / "a" / "metrics.jsonl"))} == {0.25}
    with pytest.raises(RunError, match=r"8 of 16 rollouts could not be scored.*timed out"):
        made_trainer(made_config(tmp_path / "b"), score=unscored(0.5)).run()


def test_old_checkpoints_go_and_an_unfinished_one_is_never_taken(tmp_path):
    config = made_config(tmp_path)
    made_trainer(config).run()
    folder = config_checkpoints(config)
    assert [path.name for path in checkpoint.list_checkpoints(folder)] == ["step-000003", "step-000004"]
    (folder / "step-000009").mkdir()
    assert checkpoint.list_checkpoints(folder)[-1].name == "step-000004"
    assert made_trainer(replace(config, train=replace(config.train, steps=5))).run().step == 5
