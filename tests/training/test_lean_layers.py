"""Norms and rotations with backwards written out: the numbers of Transformers' modules and autograd.

The packs of whole models are compared with models that stay as Transformers makes them in test_shared_prefix.py.
"""

from __future__ import annotations

import pytest
import torch
from support.tiny_models import tiny_model
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRMSNorm, apply_rotary_pos_emb

from easyvideor1.model.families import language_model
from easyvideor1.training.lean_layers import _Gated, _RmsNorm, _Rotation, make_lean


def heads(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def test_the_gradients_of_a_norm_are_those_of_differences() -> None:
    assert torch.autograd.gradcheck(lambda x, w: _RmsNorm.apply(x, w, 1e-2), (heads(5, 3, 4), heads(4, seed=1)))


def test_the_gradients_of_a_rotation_are_those_of_differences() -> None:
    angles = torch.randn(5, 1, 2, dtype=torch.float64)
    cos, sin = (torch.cat((wave, wave), -1) for wave in (angles.cos(), angles.sin()))
    assert torch.autograd.gradcheck(lambda x: _Rotation.apply(x, cos, sin), heads(5, 3, 4))


def test_the_gradients_of_a_gate_are_those_of_differences() -> None:
    assert torch.autograd.gradcheck(_Gated.apply, (heads(5, 4), heads(5, 4, seed=1)))


def test_a_norm_is_that_of_transformers() -> None:
    norm = Qwen3VLTextRMSNorm(4, eps=1e-6)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2.0)
    states = heads(5, 3, 4).detach().float() * torch.logspace(-4, 3, 5)[:, None, None]
    torch.testing.assert_close(_RmsNorm.apply(states, norm.weight, 1e-6), norm(states), rtol=1e-6, atol=0)


def test_a_rotation_is_that_of_transformers() -> None:
    angles = torch.randn(1, 5, 2, dtype=torch.float64)
    cos, sin = (torch.cat((wave, wave), -1) for wave in (angles.cos(), angles.sin()))
    query = heads(1, 3, 5, 4)
    expected, _ = apply_rotary_pos_emb(query, query, cos, sin)
    found = _Rotation.apply(query[0].transpose(0, 1), cos[0, :, None], sin[0, :, None])
    torch.testing.assert_close(found.transpose(0, 1)[None], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_in_half_precision_the_modules_round_where_they_did(dtype: torch.dtype) -> None:
    model = tiny_model("qwen3_vl").to(dtype)
    norm = language_model(model).norm
    states = torch.randn(2, 3, len(norm.weight)).to(dtype).requires_grad_()
    before = norm(states)
    make_lean(model)
    found = norm(states)
    assert (type(found.grad_fn).__name__ == "_RmsNormBackward") == (dtype == torch.float32)
    torch.testing.assert_close(found, before, rtol=1e-6 if dtype == torch.float32 else 0, atol=0)


def test_a_frozen_norm_has_no_gradient_and_a_model_is_changed_once() -> None:
    model = tiny_model("qwen3_vl")
    make_lean(model)
    kinds = [type(module) for module in model.modules()]
    make_lean(model)
    assert [type(module) for module in model.modules()] == kinds
    norm = language_model(model).norm.requires_grad_(False)
    states = torch.randn(2, len(norm.weight), requires_grad=True)
    norm(states).sum().backward()
    assert (norm.weight.grad, states.grad is None) == (None, False)


def test_the_gradient_of_a_norm_adds_up_many_tokens_without_losing_a_digit() -> None:
    generator = torch.Generator().manual_seed(0)
    states, grad = (torch.randn(200_000, 8, generator=generator) + 1 for _ in range(2))
    weights = [torch.ones(8, dtype=dtype, requires_grad=True) for dtype in (torch.float32, torch.float64)]
    found, exact = (
        torch.autograd.grad(_RmsNorm.apply(states.to(w.dtype), w, 1e-6), w, grad.to(w.dtype))[0] for w in weights
    )
    assert float((found - exact).norm() / exact.norm()) < 5e-7
