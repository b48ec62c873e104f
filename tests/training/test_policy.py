"""One optimizer step: its learning rate, the length of its gradient, and what it does with numbers that are none."""

import math
from dataclasses import replace

import pytest
import torch
from support.made_trainer import final_weights, low_tokens, made_config, made_trainer, offline
from support.tiny_models import tiny_model

from easyvideor1.config import ModelConfig
from easyvideor1.config_train import OptimizerConfig
from easyvideor1.errors import RunError
from easyvideor1.model.load import load_model
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training.policy import scheduled_rate
from easyvideor1.types import Score


@pytest.mark.parametrize(
    ("schedule", "warmup", "expected"),
    [
        ("constant", 0, [1.0] * 8),
        ("constant", 4, [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ("linear", 0, [1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]),
        ("linear", 4, [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]),
        ("cosine", 0, [(1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)]),
        ("cosine", 4, [0.25, 0.5, 0.75, 1.0, 1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]),
    ],
)
def test_the_rate_rises_evenly_and_then_falls_to_what_would_be_zero_after_the_last_step(schedule, warmup, expected):
    config = OptimizerConfig(learning_rate=2.0, schedule=schedule, warmup_steps=warmup)
    rates = [scheduled_rate(config, step=step, total_steps=8) for step in range(8)]
    assert rates == pytest.approx([2.0 * value for value in expected])
    if schedule != "constant":
        assert scheduled_rate(config, step=8, total_steps=8) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("limit", ["1e-3", ".inf"])
def test_a_long_gradient_is_scaled_down_to_the_limit_and_its_length_is_told(tmp_path, limit):
    trainer = made_trainer(made_config(tmp_path, f"optimizer.max_grad_norm={limit}", "train.steps=1"))
    trainer.run()
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    gradients = [parameter.grad for parameter in trainer._policy.model.parameters() if parameter.grad is not None]
    norm = float(torch.stack([gradient.norm() for gradient in gradients]).norm())
    assert record["update/grad_norm"] > 1e-2
    assert norm == pytest.approx(1e-3 if limit == "1e-3" else record["update/grad_norm"], rel=1e-4)
    assert record["update/clipped_steps_frac"] == (limit == "1e-3")


def test_a_loss_that_is_no_number_ends_the_run_before_it_reaches_the_weights(tmp_path):
    trainer = made_trainer(made_config(tmp_path))
    before = final_weights(trainer)
    collected = trainer._collector.collect(1, 0, version=0)
    works = trainer._minibatches(trainer._with_credit(collected, collected.tally), collected.candidates)
    with pytest.raises(RunError, match="the weights were not touched"):
        trainer._policy.update([replace(work, normalizer=1e-45) for work in works], step=0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in final_weights(trainer).items())


def test_policy_reference_and_engine_agree_at_any_temperature(tmp_path):
    overrides = ("rollout.temperature=0.6", "algorithm.options={kl_coef: 0.1}", "train.steps=1")
    made_trainer(made_config(tmp_path, *overrides)).run()
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert record["loss/kl_ref"] == 0.0
    assert record["policy/sampler_logprob_diff_max"] < 1e-4


def test_a_model_is_loaded_as_it_is_to_be_trained(tmp_path):
    tiny_model("qwen3_vl").save_pretrained(tmp_path)
    model = load_model(ModelConfig(path=str(tmp_path), freeze_vision_tower=True, gradient_checkpointing=True))
    trains = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    assert trains == {name: ".visual." not in name for name in trains}
    assert not all(trains.values())
    assert model.model.language_model.gradient_checkpointing
    plain = load_model(ModelConfig(path=str(tmp_path)))
    assert all(parameter.requires_grad for parameter in plain.parameters())
    assert not plain.model.language_model.gradient_checkpointing


def gradient(trainer, groups, candidates, *, tokens_per_pack, shared_prefix):
    """What one update of the groups leaves in the weights' gradients, for records of the given size."""
    config = trainer._config
    trainer._config = replace(
        config, train=replace(config.train, tokens_per_pack=tokens_per_pack, shared_prefix=shared_prefix)
    )
    trainer._policy.update(trainer._minibatches(groups, candidates), step=0)
    trainer._config = config
    return {name: p.grad.clone() for name, p in trainer._policy.masters.by_name.items() if p.grad is not None}


def assert_close(gradients, expected):
    for name, value in expected.items():
        # float32: the layouts add in other orders.
        assert torch.allclose(gradients[name], value, rtol=1e-4, atol=1e-6 * float(value.abs().max()) + 1e-9), name


def score_but_one(items):
    """Every fourth rollout cannot be scored."""
    scores = low_tokens(items)
    return [Score.unscored("timed out") if index % 4 == 1 else score for index, score in enumerate(scores)]


@pytest.mark.parametrize("name", ["grpo", "dapo", "dr_grpo", "gspo_token", "rloo", "luffy", "ppo"])
def test_rows_of_any_size_give_one_gradient_and_what_does_not_train_adds_nothing_to_it(tmp_path, name):
    overrides = [f"algorithm.name={name}", "algorithm.options={kl_coef: 0.1}", "offline.enable=true"]
    if name == "ppo":  # its head must not move between the gradients
        told = "{name: ppo, options: {kl_coef: 0.1, value_detached: false, value_learning_rate: 1e-20}}"
        overrides = [f"algorithm={told}"]
    numbers = ["optimizer.learning_rate=0", "optimizer.max_grad_norm=.inf", "rollout.n=5", "train.steps=1"]
    trainer = made_trainer(made_config(tmp_path, *overrides, *numbers), score=score_but_one, offline=offline())
    for weight in trainer._policy.masters.of_values.values():
        torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(0))
    collected = trainer._collector.collect(1, 0, version=0)
    groups, candidates = trainer._with_credit(collected, collected.tally), collected.candidates
    weights = [weight for group in groups for weight in group.weights]
    assert len(groups) <= weights.count(0.0) < len(weights) // 2
    whole = gradient(trainer, groups, candidates, tokens_per_pack=10_000, shared_prefix=True)
    assert any(value.abs().max() > 1e-6 for value in whole.values())
    least = max(len(group.prompt) + len(rollout.token_ids) for group in groups for rollout in group.rollouts)
    for tokens_per_pack, shared_prefix in ((least, True), (2 * least, True), (10_000, False), (least, False)):
        records = gradient(trainer, groups, candidates, tokens_per_pack=tokens_per_pack, shared_prefix=shared_prefix)
        assert_close(records, whole)
    order = list(range(len(groups)))[::-1]
    turned = gradient(
        trainer, [groups[i] for i in order], [candidates[i] for i in order], tokens_per_pack=10_000, shared_prefix=True
    )
    assert_close(turned, whole)
    assert_close(
        gradient(trainer, list(map(trained, groups)), candidates, tokens_per_pack=least, shared_prefix=True), whole
    )


def trained(group):
    """The group without the rollouts that do not train."""
    kept = [index for index, weight in enumerate(group.weights) if weight]
    fields = {
        name: tuple(getattr(group, name)[index] for index in kept)
        for name in ("rollouts", "scores", "advantages", "weights", "tokens")
        if getattr(group, name)
    }
    return replace(group, **fields)


def test_passes_are_updates_on_the_same_groups_with_the_log_probs_from_before_the_first(tmp_path):
    """Two passes are two updates by hand, each with the old log-probs of the start; and differ from one."""
    trainer = made_trainer(
        made_config(tmp_path, "train.steps=1", "algorithm.options={clip_low: 0.01, clip_high: 0.01}")
    )
    policy = trainer._policy
    collected = trainer._collector.collect(1, 0, version=0)
    works = trainer._minibatches(trainer._with_credit(collected, collected.tally), collected.candidates)
    before = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}
    old = [policy._old_logprobs(work) for work in works]
    for _ in range(2):
        for work, of_work in zip(works, old, strict=True):
            policy._optimizer_step(work, of_work)
    by_hand = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}

    def again(passes):
        with torch.no_grad():
            for name, weight in policy.model.named_parameters():
                weight.copy_(before[name])
        policy.optimizer.state.clear()
        tally = policy.update(works, step=0, passes=passes)
        return {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}, tally.values()

    twice, values = again(2)
    assert all(torch.equal(twice[name], by_hand[name]) for name in by_hand)
    assert values["loss/ratio"] != pytest.approx(1.0, abs=1e-7)  # the second pass is off the policy that sampled
    once, _ = again(1)
    assert not all(torch.equal(once[name], by_hand[name]) for name in by_hand)
