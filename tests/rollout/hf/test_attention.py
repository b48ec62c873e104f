"""Parts of an attention, each with its total, merged into the whole."""

import pytest
import torch
import torch.nn.functional as F

from easyvideor1.rollout.hf.attention import attention_with_total, merged, plain_attention_with_total

B, K, Q, D = 3, 2, 4, 16
SCALING = 0.3


def made(seed=0, keys=9, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(B, K, size, D, generator=generator).to(dtype) for size in (Q, keys, keys))
    hidden = torch.zeros(B, keys)
    hidden[1, 5:] = -torch.inf
    hidden[2, :3] = -torch.inf
    return query, key, value, hidden.to(dtype)


@pytest.mark.parametrize("function", [attention_with_total, plain_attention_with_total])
@pytest.mark.parametrize("is_masked", [False, True])
def test_attention_and_its_total_are_those_of_the_formula(function, is_masked):
    query, key, value, hidden = made()
    mask = hidden if is_masked else None
    out, total = function(query, key, value, mask, scaling=SCALING)
    scores = (query @ key.transpose(-1, -2)) * SCALING + (hidden[:, None, None] if is_masked else 0.0)
    torch.testing.assert_close(out, scores.softmax(-1) @ value, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(total, scores.logsumexp(-1), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("function", [attention_with_total, plain_attention_with_total])
def test_two_parts_merge_into_the_whole(function):
    query, key, value, hidden = made(keys=14)
    whole = F.scaled_dot_product_attention(query, key, value, attn_mask=hidden[:, None, None], scale=SCALING)
    parts = [
        function(query, key[:, :, part], value[:, :, part], hidden[:, part], scaling=SCALING)
        for part in (slice(0, 4), slice(4, 14))
    ]
    torch.testing.assert_close(merged(*parts), whole, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(merged(*parts[::-1]), whole, atol=1e-6, rtol=1e-5)


def test_parts_of_very_different_weight_merge_too():
    query, key, value, _ = made()
    key = torch.cat([key * 60, key], 2)  # scores beyond what exp can hold
    value = torch.cat([value, value + 1], 2)
    whole = F.scaled_dot_product_attention(query, key, value, scale=SCALING)
    parts = [
        attention_with_total(query, key[:, :, p], value[:, :, p], None, scaling=SCALING)
        for p in (slice(0, 9), slice(9, 18))
    ]
    torch.testing.assert_close(merged(*parts), whole, atol=1e-5, rtol=1e-4)


def test_bfloat16_is_rounded_once():
    query, key, value, hidden = made(dtype=torch.bfloat16)
    out, total = attention_with_total(query, key, value, hidden, scaling=SCALING)
    exact, exact_total = plain_attention_with_total(
        query.float(), key.float(), value.float(), hidden.float(), scaling=SCALING
    )
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), exact, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(total, exact_total, atol=1e-2, rtol=1e-3)
