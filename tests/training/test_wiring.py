"""The wiring of a step: each number of the recipe gets where it belongs, worked out again from outside.

Every test here was seen to fail with the wire it is about cut.
"""

import sys
from dataclasses import replace

import pytest
import torch
from support.asking import answered, requests
from support.made_trainer import (
    END_ID,
    GOOD,
    copy_of_reference,
    final_weights,
    low_tokens,
    made_config,
    made_trainer,
    offline,
)
from support.tiny_models import Case, plain_logprobs, tiny_model
from support.values import present

from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.types import Example, Prompt, Score


def test_the_first_step_trains_at_the_first_rate_of_the_schedule(tmp_path):
    overrides = ["optimizer.schedule=linear", "optimizer.warmup_steps=2", "optimizer.learning_rate=0.01"]
    made_trainer(made_config(tmp_path, *overrides, "train.steps=4")).run()
    rates = [record["update/learning_rate"] for record in comparable(read_metrics(tmp_path / "metrics.jsonl"))]
    # Half, the whole, and then down to what a fifth step would have: nothing.
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.005])


@pytest.mark.parametrize(("name", "unit"), [("grpo", "responses"), ("dapo", "tokens")])
def test_each_minibatch_divides_by_what_trains_in_it(tmp_path, name, unit):
    def score(items):
        """The second response of each group cannot be scored."""
        return [Score.unscored("?") if i % 4 == 1 else item for i, item in enumerate(low_tokens(items))]

    overrides = [f"algorithm.name={name}", "train.updates_per_step=2"]
    trainer = made_trainer(made_config(tmp_path, *overrides, "algorithm.options={}"), score=score)
    collected = trainer._collector.collect(1, 0, version=0)
    groups = trainer._with_credit(collected, collected.tally)
    works = trainer._minibatches(groups, collected.candidates)
    assert len(works) == 2
    half = len(groups) // 2
    for work, part in zip(works, (groups[:half], groups[half:]), strict=True):
        scored = [r for group in part for r, s in zip(group.rollouts, group.scores, strict=True) if s.is_scored]
        assert work.normalizer == (len(scored) if unit == "responses" else sum(len(r.token_ids) for r in scored))
        assert len(scored) == 3 * len(part)


def test_every_group_pays_its_own_kl(tmp_path):
    options = "algorithm.options={kl_coef: 0.5, kl_in: reward, kl_kind: k1}"
    trainer = made_trainer(made_config(tmp_path, "algorithm.name=rloo", options))
    reference = copy_of_reference(trainer)
    with torch.no_grad():
        reference.lm_head.weight.add_(0.3 * torch.randn_like(reference.lm_head.weight))
    collected = trainer._collector.collect(1, 0, version=0)
    groups = trainer._with_credit(collected, collected.tally)
    policy = tiny_model("qwen3_vl")
    every_kl = []
    with torch.no_grad():
        for group, candidate in zip(groups, collected.candidates, strict=True):
            case = Case(group=group, features=candidate.example.features)
            pairs = zip(plain_logprobs(policy, case), plain_logprobs(plain(reference), case), strict=True)
            every_kl.append([float((own - other).sum()) for own, other in pairs])
    assert max(max(kl) for kl in every_kl) - min(min(kl) for kl in every_kl) > 1
    for group, kl in zip(groups, every_kl, strict=True):
        paid = [score.value - 0.5 * amount for score, amount in zip(group.scores, kl, strict=True)]
        # RLOO: a reward less the mean of the others.
        expected = [value - (sum(paid) - value) / (len(paid) - 1) for value in paid]
        assert group.advantages == pytest.approx(expected, abs=1e-3)


def plain(model):
    """The same weights without our attention."""
    copy = tiny_model("qwen3_vl")
    copy.load_state_dict(model.state_dict())
    return copy


def test_the_optimizer_is_the_adamw_of_the_recipe_and_norms_and_biases_do_not_decay(tmp_path, monkeypatch):
    numbers = ["optimizer.learning_rate=0.01", "optimizer.betas=[0.5, 0.8]", "optimizer.weight_decay=0.3"]
    trainer = made_trainer(made_config(tmp_path, *numbers, "optimizer.max_grad_norm=.inf", "train.steps=2"))
    model = trainer._policy.model
    before = final_weights(trainer)
    gradients = []
    update = trainer._policy.update

    def noting(works, *, step, passes):
        tally = update(works, step=step, passes=passes)
        gradients.append({name: present(p.grad).double().clone() for name, p in model.named_parameters()})
        return tally

    monkeypatch.setattr(trainer._policy, "update", noting)
    trainer.run()
    seen = set()
    for name, after in model.named_parameters():
        first, second = (step[name] for step in gradients)
        decay = 0.3 if after.ndim >= 2 else 0.0
        expected = before[name].double() * (1 - 0.01 * decay) - 0.01 * first / (first.abs() + 1e-8)
        mean = (0.5 * 0.5 * first + 0.5 * second) / (1 - 0.5**2)
        variance = (0.8 * 0.2 * first.square() + 0.2 * second.square()) / (1 - 0.8**2)
        expected = expected * (1 - 0.01 * decay) - 0.01 * mean / (variance.sqrt() + 1e-8)
        # Where the first gradient is of the size of Adam's epsilon, float32 decides.
        clear = (first.abs() > 1e-6) & (second.abs() > 1e-6)
        assert torch.allclose(after.double()[clear], expected[clear], rtol=1e-5, atol=1e-6), name
        if clear.any():
            seen.add(after.ndim >= 2)
    assert seen == {True, False}


def first_example(trainer) -> Example:
    supply = trainer._collector.supply
    prompt = supply._prompt(supply._samples[0])
    assert isinstance(prompt, Prompt)
    return supply._example(0, prompt, None)


def test_the_batches_of_a_rollout_draw_from_seeds_of_their_own(tmp_path):
    trainer = made_trainer(made_config(tmp_path))
    example = first_example(trainer)
    prompt = example.prompt
    twins = [
        replace(example, prompt=replace(prompt, sample=replace(prompt.sample, id=name))) for name in ("a", "b", "c")
    ]
    # The engine of these tests has no room for more than one twin: each is a batch.
    groups = answered(trainer._engine, requests(twins, Sampling(n=16, max_response_tokens=8), seed=5))
    first, second, third = ([rollout.token_ids for rollout in group] for group in groups)
    assert first != second != third != first


def test_the_whole_vocabulary_is_sampled_from(tmp_path):
    trainer = made_trainer(made_config(tmp_path))
    example = first_example(trainer)
    [group] = answered(
        trainer._engine, requests([example], Sampling(n=300, temperature=20.0, max_response_tokens=1), seed=1)
    )
    prompt = example.prompt
    with torch.no_grad():
        logits = trainer._policy.model(
            input_ids=torch.from_numpy(prompt.input_ids)[None],
            position_ids=torch.from_numpy(prompt.position_ids)[:, None],
        ).logits[0, -1]
    rank = logits.argsort(descending=True).argsort()
    ranks = [int(rank[rollout.token_ids[0]]) for rollout in group]
    # At this temperature 92 tokens are about equally likely: half of the samples are outside of the best 50.
    assert sum(place >= 50 for place in ranks) > 60


def test_several_stored_trajectories_take_turns_over_the_steps(tmp_path):
    one, other = (offline(tokens=tokens).by_sample["0"][0] for tokens in (GOOD, [4, 5, END_ID]))
    both = OfflineTrajectories(by_sample={str(index): (one, other) for index in range(6)}, num_too_long=0)
    trainer = made_trainer(made_config(tmp_path, "offline.enable=true"), offline=both)
    taken = []
    for step in (1, 2, 3, 4):
        groups = trainer._collector.collect(step, 0, version=0).groups
        taken.append({group.rollouts[-1].token_ids for group in groups})
    assert taken == [{other.token_ids}, {one.token_ids}] * 2


def test_an_update_of_many_packs_reads_its_metrics_once(tmp_path, monkeypatch):
    """Every read of a number from a GPU waits for all that was asked of it before."""
    trainer = made_trainer(made_config(tmp_path, "train.tokens_per_pack=40", "algorithm.options={kl_coef: 0.1}"))
    collected = trainer._collector.collect(1, 0, version=0)
    works = trainer._minibatches(trainer._with_credit(collected, collected.tally), collected.candidates)
    assert len(works[0].batch.packs) >= 4
    reads = []

    def note(name):
        original = getattr(torch.Tensor, name)

        def reading(tensor, *args):
            caller = sys._getframe(1).f_globals["__name__"]
            if caller.startswith(("easyvideor1.training.policy", "easyvideor1.training.meter", "easyvideor1.algo")):
                reads.append(name)
            return original(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, reading)

    for name in ("item", "tolist", "__float__", "__bool__", "__int__", "nonzero", "cpu", "numpy"):
        note(name)
    trainer._policy.update(works, step=0)
    assert reads == ["tolist"]
