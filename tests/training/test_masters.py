"""Steps that half precision cannot hold are not lost."""

import torch
from support.made_trainer import made_config, made_trainer
from support.values import present
from torch import nn

from easyvideor1.training import shelf
from easyvideor1.training.masters import MasterWeights


def steps(model, optimized, *, num, after_backward=lambda: None, after_step=lambda: None):
    """AdamW with a gradient of 1 for every weight: each step is the learning rate, 1e-4."""
    optimizer = torch.optim.AdamW(optimized, lr=1e-4, weight_decay=0.0)
    for _ in range(num):
        optimizer.zero_grad()
        model.weight.sum().backward()
        after_backward()
        optimizer.step()
        after_step()


def half_model():
    model = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    with torch.no_grad():
        model.weight.fill_(1.0)
    return model


def test_small_steps_add_up_in_a_half_precision_model():
    bare = half_model()
    steps(bare, bare.parameters(), num=300)
    assert bare.weight.item() == 1.0, "the comparison must show the loss: below 1, bfloat16 goes by 0.0039"
    model = half_model()
    masters = MasterWeights(model)
    steps(
        model,
        masters.by_name.values(),
        num=300,
        after_backward=masters.collect_gradients,
        after_step=masters.write_back,
    )
    assert abs(masters.copies["weight"].item() - 0.97) < 1e-5
    assert model.weight.item() == 0.96875  # the bfloat16 number nearest to 0.97


def test_gradients_of_several_backwards_add_up_in_float32():
    model = half_model()
    masters = MasterWeights(model)
    for scale in (256.0, 1.0):
        (model.weight.sum() * scale).backward()
        masters.collect_gradients()
    gradient = masters.copies["weight"].grad
    assert gradient is not None
    assert gradient.item() == 257.0  # in bfloat16 256 + 1 is 256
    assert model.weight.grad is None


def test_weights_in_float32_are_their_own_masters_and_frozen_ones_have_none():
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    masters = MasterWeights(model)
    assert list(masters.by_name) == ["weight"]
    assert masters.by_name["weight"] is model.weight
    assert not masters.copies


def test_a_step_starts_from_gradients_of_zero_for_every_weight_that_trains():
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    model[1].bias.requires_grad_(False)
    masters = MasterWeights(model)
    model[0].get_parameter("weight").sum().backward()
    masters.zero_gradients()
    assert [present(parameter.grad).item() for parameter in masters.by_name.values()] == [0.0] * 3
    assert model[1].bias.grad is None


def test_a_half_precision_run_resumes_exactly(tmp_path):
    overrides = ("model.dtype=bfloat16", "optimizer.learning_rate=1e-5")
    whole = made_trainer(made_config(tmp_path / "whole", *overrides))
    whole.run()
    made_trainer(made_config(tmp_path / "half", *overrides, "train.steps=2")).run()
    folder = shelf.list_checkpoints(tmp_path / "half" / "checkpoints")[-1]
    resumed = made_trainer(made_config(tmp_path / "half", *overrides))
    moved = [name for name, copy in resumed._policy.masters.copies.items() if not torch.equal(copy, copy.bfloat16())]
    assert len(moved) > len(resumed._policy.masters.copies) / 2, f"{folder} must hold more than rounded weights"
    resumed.run()
    for name, copy in whole._policy.masters.copies.items():
        assert torch.equal(copy, resumed._policy.masters.copies[name]), name
        assert torch.equal(whole._policy.model.get_parameter(name), copy.bfloat16()), name
