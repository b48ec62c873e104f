import dataclasses
import itertools
import json

import numpy as np
import pytest
import torch
from support.made_trainer import (
    BAD,
    GOOD,
    OFTEN,
    Killed,
    MadePreparer,
    final_weights,
    low_tokens,
    made_config,
    made_trainer,
    offline,
)
from support.tiny_models import tiny_model
from support.values import present

from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.errors import RunError, UsageError
from easyvideor1.report.read import comparable, read_metrics, read_rollouts
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.training import shelf
from easyvideor1.types import Clip, Example, Sample, Score, ScoredResponse


class Counting(FakeEngine):
    """Answers by the script and notes (n, greedy) and the sample of every request."""

    def __init__(self, script):
        super().__init__(script, lambda text: tuple(json.loads(text)))
        self.calls, self.ids, self.num_rounds = [], [], 0

    def generate(self, requests):
        requests = list(requests)
        self.num_rounds += 1
        asked = [request for request in requests if request is not None]
        self.calls += [(request.sampling.n, request.sampling.is_greedy) for request in asked]
        self.ids += [request.example.sample.id for request in asked if not request.sampling.is_greedy]
        return super().generate(requests)


def answer(accuracy):
    sample = Sample(id="v", problem_type="numerical", problem="?", gold="3")
    return ScoredResponse(
        sample=sample, index=None, response="", score=Score(value=accuracy, parts={"accuracy": accuracy})
    )


def always(tokens):
    return lambda example, index, seed: json.dumps(tokens)


def collected(tmp_path, engine, *overrides, **options):
    trainer = made_trainer(made_config(tmp_path, *overrides), engine=engine, **options)
    return trainer._collector.collect(1, 0, version=0)


def test_without_threshold_the_last_of_n_places_is_the_stored_trajectory(tmp_path):
    engine = Counting(always(BAD))
    groups = collected(tmp_path, engine, "offline.enable=true", offline=offline(ids=("0", "2", "4"))).groups
    assert sorted(set(engine.calls)) == [(3, False), (4, False)]
    for group in groups:
        has_offline = group.prompt.sample.id in ("0", "2", "4")
        sources = [rollout.source for rollout in group.rollouts]
        assert sources == ["policy"] * 3 + ["offline" if has_offline else "policy"]
        assert [score.value for score in group.scores] == [0.0] * 3 + [1.0 if has_offline else 0.0]


def test_with_a_threshold_all_are_sampled_and_judged_before_the_last_is_replaced(tmp_path):
    judged = []

    def score(items):
        judged.extend(text for _, text, _ in items)
        return low_tokens(items)

    def script(example, index, seed):
        return json.dumps(GOOD if int(example.sample.id) % 2 else BAD)

    groups = collected(
        tmp_path, Counting(script), "offline={enable: true, accuracy_threshold: 0.5}", offline=offline(), score=score
    ).groups
    for group in groups:
        wanted = "policy" if int(group.prompt.sample.id) % 2 else "offline"
        assert [rollout.source for rollout in group.rollouts] == ["policy"] * 3 + [wanted]
    num_replaced = sum(group.rollouts[-1].source == "offline" for group in groups)
    assert len(judged) == 16 + num_replaced
    assert judged[16:] == [json.dumps(GOOD)] * num_replaced


def test_mixing_switched_off_is_bit_identical_to_a_run_without_trajectories(tmp_path):
    runs = [
        made_trainer(made_config(tmp_path / name), offline=given) for name, given in (("a", None), ("b", offline()))
    ]
    for trainer in runs:
        trainer.run()
    first, second = (final_weights(trainer) for trainer in runs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_groups_without_signal_are_dropped_and_refilled_from_further_prompts(tmp_path):
    def script(example, index, seed):
        mixed = int(example.sample.id) < 2
        return json.dumps(GOOD if mixed and index == 0 else BAD)

    engine = Counting(script)
    result = collected(tmp_path, engine, "algorithm.name=dapo", "algorithm.options={refill_rounds: 3}")
    assert {group.prompt.sample.id for group in result.groups} <= {"0", "1"}
    taken = len(engine.calls)
    assert result.cursor == taken
    values = result.tally.values()
    assert values["rollout/refills"] == engine.num_rounds - 1 <= 3
    assert values["rollout/dropped_groups_frac"] == pytest.approx(1 - len(result.groups) / taken)


def test_a_step_in_which_no_group_has_signal_makes_no_update(tmp_path):
    trainer = made_trainer(made_config(tmp_path, "algorithm.name=dapo", "train.steps=1"), engine=Counting(always(BAD)))
    before = final_weights(trainer)
    trainer.run()
    assert all(torch.equal(tensor, before[name]) for name, tensor in final_weights(trainer).items())


def test_the_steps_of_a_run_read_on_in_the_order_of_the_samples(tmp_path):
    engine = Counting(always(GOOD))
    made_trainer(made_config(tmp_path, "train.steps=3", "train.prompts_per_step=2"), engine=engine).run()
    assert sorted(engine.ids) == ["0", "1", "2", "3", "4", "5"]


def test_dropped_groups_count_in_the_metrics_and_in_the_stopping_rules(tmp_path):
    overrides = ("algorithm.name=dapo", "train.steps=3", "train.stop.zero_reward_steps=2")
    right = made_trainer(made_config(tmp_path / "a", *overrides), engine=Counting(always(GOOD)))
    assert right.run().step == 3  # nothing to learn, but nothing wrong either
    values = comparable(read_metrics(tmp_path / "a" / "metrics.jsonl"))[0]
    assert (values["reward/accuracy_frac"], values["update/groups"], values["rollout/dropped_groups_frac"]) == (1, 0, 1)
    assert {record["step"] for record in read_rollouts(tmp_path / "a" / "rollouts")} == {1, 2, 3}
    wrong = made_trainer(made_config(tmp_path / "b", *overrides), engine=Counting(always(BAD)))
    with pytest.raises(RunError, match=r"no rollout was right in 2 steps(.|\n)*wanted ''"):
        wrong.run()


def test_what_was_skipped_and_sampled_is_added_up_over_refills(tmp_path):
    engine = Counting(always(BAD))
    overrides = ("algorithm.name=dapo", "algorithm.options={refill_rounds: 2}", "data.on_bad_sample=skip")
    result = collected(tmp_path, engine, *overrides, bad=("2", "5"))
    taken = len(engine.calls)
    assert taken == 12
    assert result.tally.values()["data/skipped"] == result.cursor - taken > 2
    assert result.num_tokens == taken * 4 * len(BAD)
    assert len(result.sampled) == taken


def test_a_response_that_the_engine_gave_up_does_not_train_and_is_counted(tmp_path):
    def script(example, index, seed):
        return None if index == 2 else json.dumps(GOOD if index else BAD)

    engine = Counting(script)
    engine._encode = lambda text: tuple(json.loads(text or "[]"))
    trainer = made_trainer(made_config(tmp_path, "train.steps=1"), engine=engine)
    result = trainer._collector.collect(1, 0, version=0)
    groups = trainer._with_credit(result, result.tally)
    assert all(group.weights == (1.0, 1.0, 0.0, 1.0) for group in groups)
    assert all(group.advantages[2] == 0.0 for group in groups)
    assert result.tally.values()["rollout/aborted"] == 4
    trainer.run()
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert (record["rollout/aborted"], record["reward/unscored_frac"]) == (4, 0.25)


def test_rollouts_of_other_weights_than_the_policys_are_refused(tmp_path):
    class Stale(Counting):
        """Takes weights over once and never again."""

        def load_weights(self, tensors, *, version):
            if version == 0:
                super().load_weights(tensors, version=version)

    trainer = made_trainer(made_config(tmp_path), engine=Stale(always([1, 60])))
    with pytest.raises(RunError, match="comes from version 0 of the weights, the policy is at version 1"):
        trainer.run()
    assert len(comparable(read_metrics(tmp_path / "metrics.jsonl"))) == 1


def test_a_sample_that_comes_again_is_sampled_anew_and_a_resumed_run_samples_the_same(tmp_path):
    seeds = []

    def script(example, index, seed):
        seeds.append((example.sample.id, seed))
        return json.dumps([1, 60])

    made_trainer(made_config(tmp_path, "train.steps=4"), engine=Counting(script)).run()
    assert len({seed for _, seed in seeds}) == 4 * 4  # one for each prompt of each step
    assert len({id_ for id_, _ in seeds}) < 4 * 4


def test_remax_judges_one_greedy_response_more_that_does_not_train(tmp_path):
    engine = Counting(always(GOOD))
    result = collected(tmp_path, engine, "algorithm.name=remax")
    assert engine.calls == [(4, False), (1, True)] * 4
    assert [score.value for score in present(result.greedy_scores)] == [1.0] * 4
    assert all(len(group.rollouts) == 4 for group in result.groups)


def test_imitation_samples_nothing_and_needs_stored_trajectories(tmp_path):
    engine = Counting(always(BAD))
    result = collected(tmp_path, engine, "algorithm.name=sft", "offline.enable=true", offline=offline())
    assert engine.calls == []
    assert all([rollout.source for rollout in group.rollouts] == ["offline"] for group in result.groups)
    few = collected(
        tmp_path / "few", engine, "algorithm.name=sft", "offline.enable=true", offline=offline(ids=("1", "3"))
    )
    assert sorted(group.prompt.sample.id for group in few.groups) == ["1", "1", "3", "3"]
    assert engine.calls == []
    with pytest.raises(UsageError, match=r"learns from offline trajectories: set offline\.enable=true"):
        made_trainer(made_config(tmp_path, "algorithm.name=sft"), engine=engine)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"sft"}))
def test_every_algorithm_trains_and_resumes_exactly(tmp_path, name):
    overrides = [f"algorithm.name={name}", "train.updates_per_step=2", "train.steps=2", "train.prompts_per_step=2"]
    if not ALGORITHMS[name].needs_values:  # of the policy's own responses alone
        overrides.append("offline.enable=true")
    if name in ("reinforce_plus_plus", "rloo", "ppo"):
        overrides.append("algorithm.options={kl_coef: 0.01, kl_in: reward, kl_kind: k1}")
    whole = made_trainer(made_config(tmp_path / "whole", *overrides), offline=offline())
    before = final_weights(whole)
    whole.run()
    assert any(not torch.equal(tensor, before[key]) for key, tensor in final_weights(whole).items())
    made_trainer(made_config(tmp_path / "half", *overrides, "train.steps=1"), offline=offline()).run()
    resumed = made_trainer(made_config(tmp_path / "half", *overrides), offline=offline())
    assert resumed._state.step == 1
    resumed.run()
    found = final_weights(resumed)
    assert all(torch.equal(tensor, found[key]) for key, tensor in final_weights(whole).items())


def test_imitation_raises_the_likelihood_of_the_stored_response(tmp_path):
    overrides = ("algorithm.name=sft", "offline.enable=true", "train.steps=8", "train.stop.zero_reward_steps=2")
    trainer = made_trainer(made_config(tmp_path, *overrides), offline=offline())
    trainer.run()
    # The rule about steps without a right rollout is for runs that sample.
    losses = [record["loss/total"] for record in comparable(read_metrics(tmp_path / "metrics.jsonl"))]
    assert losses[-1] < losses[0] - 1.0


def test_steps_without_a_right_answer_end_the_run_with_examples_and_a_hint(tmp_path):
    def score(items):
        return [Score(value=0.1, parts={"accuracy": 0.0, "format": 1.0}, parsed="x") for _ in items]

    trainer = made_trainer(made_config(tmp_path, "train.stop.zero_reward_steps=2"), score=score)
    with pytest.raises(RunError, match=r"no rollout was right in 2 steps(.|\n)*wanted ''"):
        trainer.run()
    assert len(comparable(read_metrics(tmp_path / "metrics.jsonl"))) == 2


def test_a_falling_reward_or_a_growing_kl_ends_the_run(tmp_path):
    rollouts = itertools.count()

    def score(items):
        values = [1.0 if next(rollouts) < 12 * 16 else 0.01 for _ in items]  # 16 rollouts a step
        return [Score(value=value, parts={"accuracy": value, "format": 1.0}) for value in values]

    overrides = ("train.steps=40", "train.stop.collapse_frac=0.5", "optimizer.learning_rate=0")
    with pytest.raises(RunError, match="the reward fell to"):
        made_trainer(made_config(tmp_path / "a", *overrides), score=score).run()
    for place in ("loss", "reward"):
        overrides = ("train.stop.max_kl=1e-6", f"algorithm.options={{kl_coef: 0.001, kl_in: {place}}}")
        with pytest.raises(RunError, match=rf"{place}/kl_ref is .* above train\.stop\.max_kl"):
            made_trainer(made_config(tmp_path / place, *overrides)).run()


def test_the_best_validated_checkpoint_is_kept(tmp_path):
    accuracies = iter([0.1, 0.9, 0.4, 0.2])
    config = made_config(tmp_path, OFTEN, "train.validate_every=2", "train.steps=6", "train.keep_checkpoints=1")
    made_trainer(config, evaluate=lambda engine: [answer(next(accuracies))]).run()
    state = json.loads((tmp_path / "checkpoints" / "best" / "state.json").read_text())
    assert (state["step"], state["best_accuracy_frac"]) == (2, 0.9)
    assert [path.name for path in (tmp_path / "checkpoints").glob("step-*")] == ["step-000006"]


def test_the_start_is_the_best_checkpoint_of_a_run_that_only_gets_worse(tmp_path):
    accuracies = iter([0.8, 0.5, 0.1])
    config = made_config(tmp_path, "train.validate_every=1", "train.steps=2")
    made_trainer(config, evaluate=lambda engine: [answer(next(accuracies))]).run()
    assert json.loads((tmp_path / "checkpoints" / "best" / "state.json").read_text())["step"] == 0


def test_a_run_killed_before_its_best_checkpoint_was_marked_marks_it_when_it_goes_on(tmp_path, monkeypatch):
    config = made_config(tmp_path, OFTEN, "train.validate_every=1", "train.steps=2")
    accuracies = iter([0.1, 0.9, 0.4])

    def evaluate(engine):
        return [answer(next(accuracies))]

    trainer = made_trainer(config, evaluate=evaluate)
    marks = []

    def mark(path):
        marks.append(path)
        if len(marks) == 2:
            raise Killed

    monkeypatch.setattr(shelf, "mark_best", mark)
    with pytest.raises(Killed):
        trainer.run()
    monkeypatch.undo()
    made_trainer(config, evaluate=evaluate).run()
    state = json.loads((tmp_path / "checkpoints" / "best" / "state.json").read_text())
    assert (state["step"], state["best_accuracy_frac"]) == (1, 0.9)


def test_readable_rollouts_are_kept(tmp_path):
    made_trainer(made_config(tmp_path, "train.steps=1")).run()
    records = read_rollouts(tmp_path / "rollouts")
    assert {record["step"] for record in records} == {1}
    assert {record["id"] for record in records} <= {
        sample.id for sample in MadePreparer(tiny_model("qwen3_vl")).samples
    }


def test_groups_outside_the_bounds_of_a_part_are_dropped_and_refilled(tmp_path):
    """Odd samples are always right: their mean accuracy of 1 is not below 0.99."""

    def script(example, index, seed):
        return json.dumps(GOOD if int(example.sample.id) % 2 or index % 2 else BAD)

    engine = Counting(script)
    options = "algorithm.options={filter_part: accuracy, refill_rounds: 3}"
    made = collected(tmp_path, engine, options, "train.prompts_per_step=3")
    assert [int(group.prompt.sample.id) % 2 for group in made.groups] == [0, 0, 0]
    assert len(made.sampled) > 3


def test_t_grpo_asks_half_as_many_with_shuffled_frames_and_rewards_right_answers_that_need_the_order(tmp_path):
    """To ordered frames all answers are right, to shuffled ones none is: every right answer gets 0.3."""
    shown = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 2, 2), np.uint8)
    clip = Clip(frames=shown, times_s=(0.0, 1.0, 2.0, 3.0), source_fps=1.0, duration_s=4.0, backend="made")
    config = made_config(tmp_path, "algorithm.name=t_grpo", "train.prompts_per_step=6")
    seen = []

    prompts = set()

    def script(example, index, seed):
        order = [int(frame[0, 0, 0]) for clip in example.clips for frame in clip.frames]
        seen.append((example.sample.modality, tuple(order)))
        prompts.add((tuple(order), id(example.prompt)))
        return json.dumps(GOOD if order in ([], [0, 1, 2, 3]) else BAD)

    engine = Counting(script)
    trainer = made_trainer(config, engine=engine)
    trainer._collector._prepare.clips = lambda prompt: (clip,) if is_video(prompt) else ()
    made = trainer._collector.collect(1, 0, version=0)
    num_videos = sum(is_video(group.prompt) for group in made.groups)
    assert num_videos == 2
    assert sorted(engine.calls) == sorted([(4, False)] * 6 + [(2, False)] * num_videos)
    assert {order for _, order in seen if order} > {(0, 1, 2, 3)}
    assert all(sorted(order) == [0, 1, 2, 3] for _, order in seen if order)
    # Engines keep what they have read of a prompt: one with shuffled frames is another prompt.
    whole = {prompt for order, prompt in prompts if order in ((), (0, 1, 2, 3))}
    assert whole.isdisjoint(prompt for order, prompt in prompts if order not in ((), (0, 1, 2, 3)))
    for group in made.groups:
        assert [score.value for score in group.scores] == pytest.approx([1.3 if is_video(group.prompt) else 1.0] * 4)
    assert made.tally.values()["rollout/shuffled_accuracy_frac"] == 0.0


def is_video(prompt):
    return bool((prompt.token_types == 2).any())


def test_an_engine_answers_to_the_frames_that_it_is_shown_in_shuffled_order(tmp_path):
    """With a real engine: the greedy answers' log-probs to other pixels are others, though the ids are the same."""
    trainer = made_trainer(made_config(tmp_path, "algorithm.name=t_grpo"))
    collector = trainer._collector
    usable, _ = collector.supply.take(6, 0, goes_on=False)
    item = next(item for item in usable.values() if is_video(item.prompt))
    shown = np.arange(4, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 2, 2), np.uint8)
    clip = Clip(frames=shown, times_s=(0.0, 1.0, 2.0, 3.0), source_fps=1.0, duration_s=4.0, backend="made")
    item.__dict__["example"] = dataclasses.replace(item.example, clips=(clip,))
    other = {name: -tensor if "pixel" in name else tensor for name, tensor in item.example.features.items()}
    collector._prepare.example = lambda prompt, clips: Example(prompt=prompt, clips=clips, features=other)
    shuffled = collector._with_shuffled_frames(item, 7)
    assert shuffled is not None
    assert shuffled.prompt.input_ids is item.example.prompt.input_ids
    sampling = Sampling(temperature=0.0, max_response_tokens=1)
    requests = [Request(example=example, sampling=sampling, seed=1) for example in (item.example, shuffled)]
    with trainer._engine.awake():
        answers = dict(trainer._engine.generate(requests))
    first, second = (answers[number][0].logprobs for number in (0, 1))
    assert first != pytest.approx(second, abs=1e-6)
