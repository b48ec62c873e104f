"""The lean step over one token per sequence computes what Transformers' own forward does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.tiny_models import FAMILIES, tiny_model

from easyvideor1.config import LoraConfig
from easyvideor1.model.families import language_model, shares_prefix
from easyvideor1.model.lora import adapters, add_adapters
from easyvideor1.rollout.hf.attention import attention_with_total, switched_on
from easyvideor1.rollout.hf.decoding import Decoding

WITH_FULL_ATTENTION = [family for family in FAMILIES if shares_prefix(tiny_model(family))]


def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
    """To keys of an earlier token of its own layer and to the newest."""
    generator = torch.Generator().manual_seed(layer)
    before = torch.randn(2, *key.shape, generator=generator).to(key.dtype)
    keys, values = torch.cat((before[0], key), 2), torch.cat((before[1], value), 2)
    folded = query.reshape(*key.shape[:2], -1, key.shape[-1])
    out, _ = attention_with_total(folded, keys, values, None, scaling=scaling)
    return out.reshape(len(query), 1, -1, key.shape[-1])


def attend_newest(
    layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
) -> torch.Tensor:
    return attend(layer, query[:, :, None], key[:, :, None], value[:, :, None], scaling)[:, 0]


def both(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, positions = torch.tensor([5, 9, 30]), torch.tensor([7, 2000, 3])
    text = language_model(model.eval())
    with torch.no_grad(), switched_on(model):
        theirs = text(
            input_ids=tokens[:, None],
            position_ids=positions[:, None].expand(3, -1, -1),
            use_cache=False,
            attend=attend,
        ).last_hidden_state[:, 0]
        return Decoding(text)(tokens, positions, attend_newest), theirs


@pytest.mark.parametrize("family", WITH_FULL_ATTENTION)
def test_a_step_is_that_of_transformers(family: str) -> None:
    found, expected = both(tiny_model(family))
    assert float(expected.norm()) > 1.0
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("family", WITH_FULL_ATTENTION)
def test_in_half_precision_it_rounds_where_transformers_does(family: str) -> None:
    found, expected = both(tiny_model(family).bfloat16())
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_adapters_count() -> None:
    model = tiny_model("qwen3_vl")
    plain, _ = both(model)
    add_adapters(model, LoraConfig(rank=2))
    with torch.no_grad():
        for tensor in adapters(model).values():
            tensor.normal_(std=0.3)
    found, expected = both(model)
    torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
    assert float((found - plain).norm()) > 0.1
