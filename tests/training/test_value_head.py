"""A value head on the policy's layers: what it says, what it learns by, and what a run keeps of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.made_trainer import final_weights, made_config, made_trainer
from support.tiny_models import plain_logprobs, tiny_case, tiny_model
from support.values import present
from transformers import AutoModelForImageTextToText

from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.errors import RunError
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training import checkpoint, shared_prefix, shelf
from easyvideor1.training.forward import PackForward
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.token_facts import by_rollout
from easyvideor1.training.value_head import ValueHead, value_head_of
from easyvideor1.types import Score

PPO = "algorithm.name=ppo"
SMALL = "train.prompts_per_step=2"


def headed(family: str = "qwen3_vl", *, is_detached: bool = True) -> PackForward:
    """A model with a value head that is no longer 0."""
    model = tiny_model(family)
    shared_prefix.enable(model)
    head = ValueHead(64, is_detached=is_detached)
    with torch.no_grad():
        head.weight.normal_(generator=torch.Generator().manual_seed(1))
        head.bias.fill_(0.25)
    return PackForward(model, value_head=head)


@pytest.mark.parametrize("family", ["qwen3_vl", "qwen3_5"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_value_of_a_token_is_of_the_state_before_it(family: str, shared: bool) -> None:
    """By Transformers' own forward of each sequence: of the last prompt token for the first response token, and so on;
    the last response token has none of its own."""
    forward = headed(family)
    case = tiny_case(forward.model, name="a", lengths=[3, 1, 4], videos=[(2, 4, 4)])
    seen: list[torch.Tensor] = []
    hook = forward.model.lm_head.register_forward_pre_hook(lambda module, given: seen.append(given[0].detach()))
    plain_logprobs(forward.model, case)
    hook.remove()
    head = present(forward.value_head)
    form = shared_prefix.pack_form(forward.model, shared=shared)
    batch = pack_groups([case.group], tokens_per_pack=1000, form=form)
    found = {}
    with torch.no_grad():
        for pack in batch.packs:
            outputs = forward(pack, {0: case.features}, temperature=0.7)
            found |= by_rollout(present(outputs.values), pack, [case.group])
    start = len(case.group.prompt)
    for index, length in enumerate((3, 1, 4)):
        states = seen[0][index, start - 1 : start - 1 + length]
        directions = states / states.norm(dim=-1, keepdim=True) / 8.0  # the square root of the width, 64
        expected = (directions * head.weight).sum(-1) + 0.25
        assert found[0, index] == pytest.approx(expected.detach().numpy(), abs=1e-5)


def test_values_are_float32_of_half_precision_too_and_begin_at_0() -> None:
    head = ValueHead(16, is_detached=True)
    hidden = torch.randn(5, 16, dtype=torch.bfloat16)
    assert head(hidden).dtype == torch.float32
    assert head(hidden).tolist() == [0.0] * 5
    assert {weight.dtype for weight in head.parameters()} == {torch.float32}
    assert value_head_of(tiny_model("qwen3_vl"), ALGORITHMS["grpo"]) is None


@pytest.mark.parametrize("is_detached", [True, False])
def test_a_detached_head_leaves_the_layers_below_alone(is_detached: bool) -> None:
    forward = headed(is_detached=is_detached)
    case = tiny_case(forward.model, name="a", lengths=[3, 2])
    [pack] = pack_groups([case.group], tokens_per_pack=1000).packs
    outputs = forward(pack, {}, temperature=1.0)
    present(outputs.values).square().sum().backward()
    assert float(present(present(forward.value_head).weight.grad).norm()) > 0
    reached = [
        weight for weight in forward.model.parameters() if weight.grad is not None and weight.grad.abs().max() > 0
    ]
    assert bool(reached) != is_detached


def test_what_is_known_of_tokens_before_the_update_is_that_of_their_rollouts(tmp_path: Path) -> None:
    """Values and KL by group, rollout and token, whatever packs they were computed in."""
    overrides = ("algorithm.options={kl_coef: 0.5, kl_in: reward, kl_kind: k1}", "train.tokens_per_pack=60")
    trainer: Any = made_trainer(made_config(tmp_path, PPO, SMALL, *overrides))
    policy = trainer._policy
    head = present(policy._forward_of.value_head)
    with torch.no_grad():
        head.weight.normal_()
        policy.model.lm_head.weight.mul_(1.1)  # the reference stays
    collected = trainer._collector.collect(1, 0, version=0)
    groups, candidates = collected.groups, collected.candidates
    facts = policy.token_facts(
        groups, lambda index: policy.tower.media(candidates[index].example), tokens_per_pack=60, form="shared"
    )
    reference = policy._reference._forward
    for g, group in enumerate(groups):
        for i, rollout in enumerate(group.rollouts):
            alone = replace(group, rollouts=(rollout,), scores=(), advantages=(0.0,), weights=(1.0,))
            [pack] = pack_groups([alone], tokens_per_pack=1000).packs
            media = {0: candidates[g].example.features}
            with torch.no_grad():
                outputs = policy._forward_of(pack, media, temperature=1.0)
                base = reference(pack, media, temperature=1.0)
            assert len(facts.values[g][i]) == len(facts.kl[g][i]) == len(rollout.token_ids)
            assert facts.values[g][i] == pytest.approx(outputs.values.numpy(), abs=1e-4)
            assert facts.kl[g][i] == pytest.approx((outputs.logprobs - base.logprobs).numpy(), abs=1e-4)


def test_in_the_first_steps_the_value_head_alone_may_learn(tmp_path: Path) -> None:
    overrides = ("algorithm.options={value_warmup_steps: 2}", "train.steps=3", "optimizer.weight_decay=0.1")
    trainer: Any = made_trainer(made_config(tmp_path, PPO, SMALL, *overrides))
    before = final_weights(trainer)
    for step in range(3):
        trainer._step()
        after = final_weights(trainer)
        moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
        of_values = {name for name in moved if name.startswith("value_head.")}
        assert of_values == {"value_head.weight", "value_head.bias"}
        assert (moved == of_values) == (step < 2)
        before = after
    records = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert [record["update/learning_rate"] for record in records] == [0.0, 0.0, 0.01]
    assert all(record["update/idle_groups_frac"] == 0 for record in records)


def test_the_gradient_of_the_head_is_bounded_by_itself(tmp_path: Path) -> None:
    trainer: Any = made_trainer(
        made_config(tmp_path, PPO, SMALL, "algorithm.options={value_coef: 100.0}", "optimizer.max_grad_norm=1e-3")
    )
    trainer._step()
    [record] = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert min(record["update/grad_norm"], record["update/value_grad_norm"]) > 1e-3
    masters = trainer._policy.masters
    for weights in (masters.of_model, masters.of_values):
        norm = torch.stack([present(weight.grad).norm() for weight in weights.values()]).norm()
        assert float(norm) == pytest.approx(1e-3, rel=1e-3)


def by_place(items: Any) -> list[Score]:
    """A reward that the sample decides: what a value head can come to know."""
    return [Score(value=value, parts={"accuracy": value}) for value in (int(sample.id) % 2 for sample, _, _ in items)]


def test_a_head_learns_what_can_be_expected_and_its_numbers_tell(tmp_path: Path) -> None:
    overrides = ("algorithm.options={value_learning_rate: 0.2}", "optimizer.learning_rate=0", "train.steps=3")
    trainer: Any = made_trainer(made_config(tmp_path, PPO, SMALL, *overrides), score=by_place)
    for _ in range(3):
        trainer._step()
    first, second, third = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    assert first["value/mean"] == first["value/explained_variance"] == 0.0
    assert first["loss/value"] == pytest.approx(first["value/return_mean"] / 2)  # 0 or 1, squared
    assert 0 < second["value/mean"] < third["value/mean"]
    assert third["loss/value"] < second["loss/value"] < first["loss/value"]
    assert all(record["loss/value_clipped_frac"] == 0.0 for record in (first, second, third))  # one update each


@pytest.mark.parametrize("words", [(), ("model.lora={rank: 2}", "train.checkpoint_optimizer=false")])
def test_a_checkpoint_keeps_the_head_beside_a_clean_model(tmp_path: Path, words: tuple[str, ...]) -> None:
    config = made_config(tmp_path, PPO, SMALL, "train.steps=1", *words)
    trainer: Any = made_trainer(config)
    trainer.run()
    [*_, found] = shelf.list_checkpoints(tmp_path / "checkpoints")
    gone_on: Any = made_trainer(config)
    for name, weight in trainer._policy.masters.of_values.items():
        assert torch.equal(gone_on._policy.masters.of_values[name], weight)
        assert weight.abs().max() > 0
    if not words:
        loading: Any = AutoModelForImageTextToText.from_pretrained(found / "model", output_loading_info=True)
        model, told = loading
        assert not any(told.values()), "the folder of the model holds the model alone"
        assert not any("value_head" in name for name in model.state_dict())
    with pytest.raises(RunError, match=r"value_head\.weight has the shape \[64\] on disk, and \[32\] here"):
        checkpoint.load_value_head(found, ValueHead(32, is_detached=True))
    (found / checkpoint.VALUE_HEAD).unlink()
    with pytest.raises(RunError, match="value_head"):
        checkpoint.load_value_head(found, present(gone_on._policy._forward_of.value_head))
