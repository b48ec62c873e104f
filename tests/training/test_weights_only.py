"""Checkpoints of the weights alone: what they hold, and who may go on from one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.made_trainer import STEPS, final_weights, made_config, made_trainer
from support.tiny_models import tiny_model

from easyvideor1.config import LoraConfig, RunConfig
from easyvideor1.errors import UsageError
from easyvideor1.model import lora
from easyvideor1.model.sizes import sizes_of
from easyvideor1.records.folder import RunFolder
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.runs.footprint import checkpoint_bytes
from easyvideor1.runs.resume import check_can_go_on
from easyvideor1.runs.starting_model import load_model
from easyvideor1.training import shelf
from easyvideor1.training.checkpoint import has_optimizer, num_bytes
from easyvideor1.training.masters import MasterWeights

ALONE = "train.checkpoint_optimizer=false"


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def test_they_hold_the_same_weights_and_a_run_goes_on_only_where_it_is_said(tmp_path: Path) -> None:
    words = ("model.dtype=bfloat16", "train.steps=1", "train.prompts_per_step=2")
    whole, alone = (made_config(tmp_path / name, *words, *more) for name, more in (("whole", ()), ("alone", (ALONE,))))
    trainers = [made_trainer(config) for config in (whole, alone)]
    for trainer in trainers:
        trainer.run()
    first, second = (final_weights(trainer) for trainer in trainers)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    ends = [shelf.list_checkpoints(Path(config.out) / "checkpoints")[-1] for config in (whole, alone)]
    assert [has_optimizer(end) for end in ends] == [True, False]
    # bfloat16 weights are 2 bytes of 2 + 4 (float32 copy) + 8 (moments)
    assert folder_bytes(ends[1]) == pytest.approx(folder_bytes(ends[0]) / 7, rel=0.15)

    longer = replace(alone, train=replace(alone.train, steps=2))
    with pytest.raises(UsageError, match=r"weights alone .*train\.fresh_optimizer=true .*model\.path="):
        check_can_go_on(longer, ends[1], step=1)
    check_can_go_on(longer, ends[0], step=1)
    check_can_go_on(alone, ends[1], step=1)  # nothing is left to do
    fresh = replace(longer, train=replace(longer.train, fresh_optimizer=True))
    check_can_go_on(fresh, ends[1], step=1)


def test_new_moments_begin_at_the_rate_where_the_schedule_was(tmp_path: Path) -> None:
    """Not at its start: that is what a run does that takes the weights for those of a new model."""
    config = made_config(tmp_path, ALONE, "optimizer.schedule=linear", "train.steps=2", "train.prompts_per_step=2")
    made_trainer(config).run()
    longer = replace(config, train=replace(config.train, steps=STEPS, fresh_optimizer=True))
    trainer = made_trainer(longer)
    assert trainer._state.step == 2
    assert not trainer._policy.optimizer.state
    trainer.run()
    records = comparable(read_metrics(tmp_path / "metrics.jsonl"))
    rates = [record["update/learning_rate"] for record in records if "update/learning_rate" in record]
    assert rates == pytest.approx([0.01 * (1 - step / STEPS) for step in range(STEPS)])
    steps = {int(state["step"]) for state in trainer._policy.optimizer.state.values()}
    assert steps == {2}


def test_another_run_begins_with_one(tmp_path: Path) -> None:
    config = made_config(
        tmp_path / "run", ALONE, "train.steps=1", "data.train=[{path: rows.jsonl}]", "train.prompts_per_step=2"
    )
    trainer = made_trainer(replace(config, model=replace(config.model, path=str(tmp_path / "base"))))
    trainer._policy.model.config.save_pretrained(tmp_path / "base")
    trainer.run()
    RunFolder(config.out).write_start(replace(config, model=replace(config.model, path=str(tmp_path / "base"))))
    end = shelf.list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    begun = load_model(replace(config.model, path=str(end)))
    found = final_weights(trainer)
    for name, tensor in begun.state_dict().items():
        assert torch.equal(tensor, found[name]), name


@pytest.mark.parametrize("words", [(), (ALONE,), ("model.dtype=bfloat16",), ("model.dtype=bfloat16", ALONE)])
@pytest.mark.parametrize("with_adapters", [False, True])
def test_the_disk_that_is_asked_for_and_planned_is_what_they_need(words: tuple[str, ...], with_adapters: bool) -> None:
    config: RunConfig = made_config("unused", *words)
    model = tiny_model("qwen3_vl").to(getattr(torch, config.model.dtype))
    if with_adapters:
        pytest.importorskip("peft")
        adapters = LoraConfig(rank=2)
        config = replace(config, model=replace(config.model, lora=adapters))
        lora.add_adapters(model, adapters)
    states = config.optimizer.states if config.train.checkpoint_optimizer else None
    asked = num_bytes(model, MasterWeights(model), states=states)
    assert asked == checkpoint_bytes(config, sizes_of(model), ranks=1)
