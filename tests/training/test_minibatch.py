"""What cannot move the weights is counted and not computed, and the weights do not notice."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.made_trainer import final_weights, low_tokens, made_config, made_trainer

from easyvideor1.records.tally import Tally
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training.minibatch import Idle
from easyvideor1.training.pack import pack_groups
from easyvideor1.types import Score

KNOWN = ("policy", "policy_online", "offline_token_frac", "ratio", "ratio_clipped_frac", "kl_old", "total")


def equal_in_two_groups(items):
    """The first and the third of the four groups of a step, samples 3, 2, 5 and 4, get equal rewards."""
    scores = low_tokens(items)
    equal = Score(value=0.5, parts={"accuracy": 0.5})
    return [equal if sample.id in ("3", "5") else score for (sample, _, _), score in zip(items, scores, strict=True)]


def collected(trainer, step):
    found = trainer._collector.collect(step, 0, version=0)
    return trainer._with_credit(found, Tally()), found.candidates


def with_idle_packs(trainer, works, groups, candidates):
    """The same minibatches with the rollouts that were left out, in packs of their own."""
    made = []
    edges = [sum(work.batch.num_groups for work in works[:index]) for index in range(len(works) + 1)]
    for work, start, end in zip(works, edges, edges[1:], strict=False):
        part = groups[start:end]
        computed = {
            (segment.group, i) for pack in work.batch.packs for segment in pack.segments for i in segment.rollouts
        }
        left_out = [
            [i for i in range(len(group.rollouts)) if (index, i) not in computed] for index, group in enumerate(part)
        ]
        more = pack_groups(part, tokens_per_pack=trainer._config.train.tokens_per_pack, chosen=left_out)
        media = {i: candidates[start + i].example.features for i in range(len(part))}
        batch = replace(work.batch, packs=(*work.batch.packs, *more.packs))
        made.append(replace(work, batch=batch, media=media, idle=Idle()))
    return made


@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "cispo", "rloo", "gspo"])
@pytest.mark.parametrize("num_updates", [1, 4])
def test_leaving_groups_of_equal_rewards_out_changes_no_bit_of_the_weights(tmp_path, name, num_updates):
    overrides = [f"algorithm.name={name}", f"train.updates_per_step={num_updates}", "optimizer.weight_decay=0.1"]
    overrides += ["algorithm.options={drop_equal_groups: false}"] if name == "dapo" else []
    trainers = [
        made_trainer(made_config(tmp_path / way, *overrides), score=equal_in_two_groups) for way in ("left out", "all")
    ]
    for step in (1, 2):
        tallies = []
        for way, trainer in zip(("left out", "all"), trainers, strict=True):
            groups, candidates = collected(trainer, step)
            works = trainer._minibatches(groups, candidates)
            assert sum(work.idle.num_groups for work in works) == 2
            if num_updates == 4:
                assert sum(not work.batch.packs for work in works) == 2, "whole minibatches have nothing to compute"
            if way == "all":
                works = with_idle_packs(trainer, works, groups, candidates)
            tallies.append(trainer._policy.update(works, step=step - 1).values())
        left_out, computed = tallies
        assert left_out["update/model_tokens"] < computed["update/model_tokens"]
        for metric in KNOWN:
            if num_updates == 1 or metric not in ("ratio", "kl_old"):
                assert left_out[f"loss/{metric}"] == pytest.approx(computed[f"loss/{metric}"], rel=1e-6, abs=1e-9)
        assert left_out["update/idle_groups_frac"] == 0.5
    first, second = (final_weights(trainer) for trainer in trainers)
    assert all(torch.equal(first[key], second[key]) for key in first)
    optimizers: list[Any] = [trainer._policy.optimizer for trainer in trainers]
    moments = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert moments[0].keys() == moments[1].keys()
    for key, state in moments[0].items():
        assert all(torch.equal(value, moments[1][key][field]) for field, value in state.items())


@pytest.mark.parametrize("option", ["kl_coef: 0.1", "entropy_coef: 0.01"])
def test_a_term_that_looks_at_every_token_computes_them_all(tmp_path, option):
    config = made_config(tmp_path, f"algorithm.options={{{option}}}", "train.steps=1")
    made_trainer(config, score=equal_in_two_groups).run()
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert record["update/idle_groups_frac"] == 0.0
    assert record["reward/no_signal_groups_frac"] == 0.5


def test_a_step_in_which_all_rewards_are_equal_computes_nothing_and_still_counts(tmp_path):
    def score(items):
        return [Score(value=0.5, parts={"accuracy": 0.5}) for _ in items]

    trainer = made_trainer(made_config(tmp_path, "train.steps=1", "optimizer.weight_decay=0"), score=score)
    before = final_weights(trainer)
    trainer.run()
    assert all(torch.equal(tensor, before[name]) for name, tensor in final_weights(trainer).items())
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert record["update/model_tokens"] == 0
    assert (record["loss/ratio"], record["loss/policy"], record["update/idle_groups_frac"]) == (1.0, 0.0, 1.0)
    assert record["update/grad_norm"] == 0.0


def test_idle_groups_count_in_the_normalizer(tmp_path):
    trainer = made_trainer(made_config(tmp_path), score=equal_in_two_groups)
    [work] = trainer._minibatches(*collected(trainer, 1))
    assert work.normalizer == 16
    assert sum(len(segment.rollouts) for pack in work.batch.packs for segment in pack.segments) == 8
    assert work.batch.num_sequences == 16


def test_tokens_over_the_bound_stop_the_step_before_anything_runs(tmp_path, monkeypatch):
    trainer = made_trainer(made_config(tmp_path, "train.tokens_per_pack=12"))
    calls = []
    monkeypatch.setattr(trainer._policy, "update", lambda *args, **options: calls.append(args))
    with pytest.raises(
        Exception, match=r"sample \d: its prompt of \d+ tokens with a response of \d is more than .*=12"
    ):
        trainer.run()
    assert not calls
