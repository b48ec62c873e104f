"""One optimizer step: its learning rate, the length of its gradient, and what it does with numbers that are none."""

import math
from dataclasses import replace

import pytest
import torch
from test_trainer import final_weights, made_config, made_trainer
from tiny_models import tiny_model

from easyvideor1.config import ModelConfig, OptimizerConfig
from easyvideor1.errors import RunError
from easyvideor1.report.metrics import comparable, read
from easyvideor1.train.model import load_model
from easyvideor1.train.policy import scheduled_rate


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
    [row] = comparable(read(tmp_path / "metrics.jsonl"))
    gradients = [parameter.grad for parameter in trainer._policy.model.parameters() if parameter.grad is not None]
    norm = float(torch.stack([gradient.norm() for gradient in gradients]).norm())
    assert row["update/grad_norm"] > 1e-2
    assert norm == pytest.approx(1e-3 if limit == "1e-3" else row["update/grad_norm"], rel=1e-4)
    assert row["update/clipped_steps_frac"] == (limit == "1e-3")


def test_a_loss_that_is_no_number_ends_the_run_before_it_reaches_the_weights(tmp_path):
    trainer = made_trainer(made_config(tmp_path))
    before = final_weights(trainer)
    gathered = trainer._gatherer.gather(1, 0)
    works = trainer._minibatches(trainer._with_credit(gathered, gathered.tally), gathered.candidates)
    with pytest.raises(RunError, match="the weights were not touched"):
        trainer._policy.update([replace(work, normalizer=1e-45) for work in works], step=0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in final_weights(trainer).items())


def test_policy_reference_and_engine_agree_at_any_temperature(tmp_path):
    overrides = ("rollout.temperature=0.6", "algorithm.options={kl_coef: 0.1}", "train.steps=1")
    made_trainer(made_config(tmp_path, *overrides)).run()
    [row] = comparable(read(tmp_path / "metrics.jsonl"))
    assert row["loss/kl_ref"] == 0.0
    assert row["policy/sampler_logprob_diff_max"] < 1e-4


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
