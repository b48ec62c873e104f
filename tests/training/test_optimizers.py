"""AdamW with moments of fewer bits: its steps, what it keeps, and that a run goes on from it exactly."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch
from support.made_trainer import final_weights, made_config, made_trainer
from support.tiny_models import tiny_model

from easyvideor1.config_train import MomentKind, OptimizerConfig
from easyvideor1.errors import UsageError
from easyvideor1.extras import need_extras
from easyvideor1.model.parts import local_part
from easyvideor1.model.sizes import sizes_of
from easyvideor1.runs.footprint import checkpoint_bytes
from easyvideor1.training import shelf
from easyvideor1.training.checkpoint import num_bytes
from easyvideor1.training.masters import MasterWeights
from easyvideor1.training.optimizers import (
    Bfloat16AdamW,
    make_optimizer,
    pieces,
    rounded_at_random,
    set_learning_rate,
)

KINDS: tuple[MomentKind, ...] = get_args(MomentKind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_steps_are_those_of_adamw(kind: MomentKind) -> None:
    """The first exactly: it uses the moments before they are rounded; the next up to the rounding of the moments."""
    if kind == "8bit":
        pytest.importorskip("torchao")
    start, gradients = torch.randn(32, 256), torch.randn(3, 32, 256)
    found = []
    for states in ("float32", kind):
        weight = torch.nn.Parameter(start.clone())
        optimizer = make_optimizer(
            OptimizerConfig(learning_rate=0.5, states=states), [{"params": [weight], "weight_decay": 0.1}], is_gpu=False
        )
        set_learning_rate(optimizer, 0.1)
        moved = []
        for gradient in gradients:
            weight.grad = gradient.clone()
            optimizer.step()
            moved.append(weight.detach().clone())
        found.append(moved)
    full, fewer = found
    torch.testing.assert_close(fewer[0], full[0], rtol=1e-6, atol=1e-6)
    gap = (fewer[2] - full[2]).abs()
    assert gap.mean() < {"float32": 1e-7, "bfloat16": 1e-3, "8bit": 1e-2}[kind]
    assert bool(gap.mean() > 1e-6) == (kind != "float32")


def test_rounding_at_random_is_right_on_average() -> None:
    random = torch.Generator().manual_seed(0)
    for value, below, above in (
        (1.001, 1.0, 1.0078125),
        (-1.001, -1.0078125, -1.0),
        (3e-39, 2.938736e-39, 3.03057e-39),
    ):
        rounded = rounded_at_random(torch.full((200_000,), value), random).float()
        assert rounded.unique().tolist() == pytest.approx([below, above], rel=1e-6)
        assert rounded.mean(dtype=torch.float64).item() == pytest.approx(value, rel=1e-4)
    exact = torch.tensor([0.0, -0.0, 1.5, -2.0])
    assert torch.equal(rounded_at_random(exact, random).float(), exact)


def test_a_second_moment_in_bfloat16_fades_as_it_should() -> None:
    """Rounded to the nearest it would stay for ever: 0.1 % is less than half of the 0.4 % between two numbers."""
    weight = torch.nn.Parameter(torch.zeros(4096))
    optimizer = Bfloat16AdamW([{"params": [weight]}], lr=0.0, betas=(0.9, 0.999), eps=1e-8)
    for step in range(701):
        weight.grad = torch.full_like(weight, float(step == 0))
        optimizer.step()
    square = optimizer.state[weight]["exp_avg_sq"]
    assert square.dtype == torch.bfloat16
    assert square.float().mean().item() == pytest.approx(0.001 * 0.999**700, rel=0.01)
    nearest = torch.tensor(0.001, dtype=torch.bfloat16)
    assert (nearest.float() * 0.999).bfloat16() == nearest


@pytest.mark.parametrize("kind", ["bfloat16", "8bit"])
def test_a_run_goes_on_exactly_and_its_checkpoints_are_smaller(tmp_path: Path, kind: str) -> None:
    if kind == "8bit":
        pytest.importorskip("torchao")
    words = (f"optimizer.states={kind}", "optimizer.schedule=linear", "train.prompts_per_step=2")
    whole = made_trainer(made_config(tmp_path / "whole", *words, "train.steps=2"))
    whole.run()
    made_trainer(made_config(tmp_path / "half", *words, "train.steps=1")).run()
    torch.manual_seed(7)  # another process has another random state
    resumed = made_trainer(made_config(tmp_path / "half", *words, "train.steps=2"))
    assert resumed._state.step == 1
    weights = resumed._policy.masters.by_name
    states = [resumed._policy.optimizer.state[weight] for weight in weights.values()]
    assert {int(state["step"]) for state in states} == {1}
    kept = {piece.dtype for state in states for piece in pieces(state["exp_avg_sq"]).values()}
    assert kept == ({torch.bfloat16} if kind == "bfloat16" else {torch.uint8, torch.float32})
    resumed.run()
    found = final_weights(resumed)
    for name, tensor in final_weights(whole).items():
        assert torch.equal(tensor, found[name]), name
    (part,) = shelf.list_checkpoints(tmp_path / "whole" / "checkpoints")[-1].rglob("part-*")
    full_bytes = 8 * sum(weight.numel() for weight in weights.values())
    assert part.stat().st_size < (0.7 if kind == "bfloat16" else 0.6) * full_bytes


def test_shards_make_the_steps_of_the_whole(tmp_path: Path) -> None:
    """As FSDP2's are; of one process, so that it is the same numbers that are rounded at random."""
    from torch._C._distributed_c10d import HashStore
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    start, gradients = torch.randn(6, 32), torch.randn(3, 6, 32)
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        found = []
        for place in (lambda tensor: tensor, lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)])):
            weight = torch.nn.Parameter(place(start.clone()))
            optimizer = Bfloat16AdamW([{"params": [weight]}], lr=0.1, betas=(0.9, 0.999), eps=1e-8)
            for gradient in gradients:
                weight.grad = place(gradient.clone())
                optimizer.step()
            moment = optimizer.state[weight]["exp_avg"]
            assert type(moment) is type(weight.data)
            found.append([local_part(weight)[0].clone(), local_part(moment)[0]])
        assert all(torch.equal(plain, part) for plain, part in zip(*found, strict=True))
    finally:
        destroy_process_group()


@pytest.mark.parametrize("kind", KINDS)
def test_disk_and_plan_count_them(kind: MomentKind) -> None:
    config = made_config("unused", f"optimizer.states={kind}")
    model = tiny_model("qwen3_vl")
    num_weights = sum(weight.numel() for weight in model.parameters())
    per_weight = {"float32": 12.0, "bfloat16": 8.0, "8bit": 6.03125}[kind]
    asked = num_bytes(model, MasterWeights(model), states=kind)
    assert asked == checkpoint_bytes(config, sizes_of(model), ranks=1)
    assert asked == pytest.approx(per_weight * num_weights, rel=1e-6)


def test_eight_bits_without_torchao_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"optimizer\.states=8bit needs torchao.*easyvideor1\[torchao\]"):
        need_extras(made_config("unused", "optimizer.states=8bit"))
