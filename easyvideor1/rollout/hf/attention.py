"""The sampler's attention, which reaches a Transformers model through its AttentionInterface: that within
prompts, and that over the keys of a prompt and those of a response merged into one.

Legend: B sequences, H query heads, K key-value heads, Q queries, L keys, D head size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from easyvideor1.model.families import language_model

NAME = "rollout"


class Attend(Protocol):
    """The attention function that a forward of the language model is given as `attend`."""

    def __call__(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """query [B, H, Q, D], key and value [B, K, Q, D] of the tokens of this forward -> [B, Q, H, D]."""
        ...


@contextlib.contextmanager
def switched_on(model: Any) -> Iterator[None]:
    """The text layers attend by the `attend` that their forward is given, for the time of the block."""
    AttentionInterface.register(NAME, _attention)
    configs = {
        id(module.config): module.config for module in language_model(model).modules() if hasattr(module, "config")
    }
    before = {name: config._attn_implementation for name, config in configs.items()}
    for config in configs.values():
        config._attn_implementation = NAME
    try:
        yield
    finally:
        for name, config in configs.items():
            config._attn_implementation = before[name]


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    attend: Attend,
    scaling: float,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    return attend(module.layer_idx, query, key, value, scaling), None


class Prompts:
    """Attention within each of several prompts that stand one after another; keeps their keys and values.

    Args:
        lengths: tokens of each prompt.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)
        self._kept: dict[int, tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = {}

    def __call__(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        assert query.shape[0] == 1, query.shape
        keys, values = key.split(self._lengths, 2), value.split(self._lengths, 2)
        self._kept[layer] = keys, values
        outputs = [
            F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
            for q, k, v in zip(query.split(self._lengths, 2), keys, values, strict=True)
        ]
        return torch.cat(outputs, 2).transpose(1, 2)

    def kept_of(self, place: int) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        """Layer -> keys and values of a prompt, [K, L, D] each."""
        return {layer: (keys[place][0], values[place][0]) for layer, (keys, values) in self._kept.items()}


class Ends:
    """Attention of what prompts have after a beginning that they share: to that beginning, and each within itself.

    Args:
        beginning: layer -> keys and values of the beginning, [K, tokens, D] each.
        lengths: own tokens of each prompt.
    """

    def __init__(self, beginning: Mapping[int, tuple[torch.Tensor, torch.Tensor]], lengths: Sequence[int]) -> None:
        self._beginning, self._lengths = beginning, list(lengths)
        self._kept: dict[int, tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = {}

    def __call__(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        assert query.shape[0] == 1, query.shape
        keys, values = key.split(self._lengths, 2), value.split(self._lengths, 2)
        self._kept[layer] = keys, values
        own = [
            causal_attention_with_total(q, k, v, scaling=scaling)
            for q, k, v in zip(query.split(self._lengths, 2), keys, values, strict=True)
        ]
        before_key, before_value = self._beginning[layer]
        # The query heads that share a key-value head are queries to it: no key is repeated.
        folded = query.unflatten(1, (len(before_key), -1)).flatten(2, 3)
        out, total = attention_with_total(folded, before_key[None], before_value[None], None, scaling=scaling)
        before = out.reshape(query.shape), total.reshape(query.shape[:3])
        return merged(before, (torch.cat([o for o, _ in own], 2), torch.cat([t for _, t in own], 2))).transpose(1, 2)

    def kept_of(self, place: int) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        """Layer -> keys and values of a prompt's own tokens, [K, L, D] each."""
        return {layer: (keys[place][0], values[place][0]) for layer, (keys, values) in self._kept.items()}


def causal_attention_with_total(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of tokens to themselves and those before them, with its total (see `attention_with_total`).

    Args:
        query: [B, H, L, D].
        key, value: [B, K, L, D].

    Returns:
        [B, H, L, D] and float32 [B, H, L].
    """
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    if query.device.type == "cpu":
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, True, attn_mask=None, scale=scaling
        )
    scores = (query.float() * scaling) @ key.float().transpose(-1, -2)
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    scores = scores.masked_fill(later, -torch.inf)
    total = scores.logsumexp(-1)
    return ((scores - total[..., None]).exp() @ value.float()).to(query.dtype), total


def attention_with_total(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention, and the logarithm of the sum that its weights were divided by, to merge it with that over other keys.

    Args:
        query: [B, K, Q, D].
        key, value: [B, K, L, D].
        mask: [B, L] to add to the scores; None: every query sees every key.

    Returns:
        [B, K, Q, D] and float32 [B, K, Q].
    """
    if query.device.type != "cpu":
        return plain_attention_with_total(query, key, value, mask, scaling=scaling)
    if mask is not None:
        mask = mask[:, None, None].expand(*query.shape[:3], -1)
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, False, attn_mask=mask, scale=scaling
    )


def plain_attention_with_total(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attention_with_total` on any device, in float32."""
    scores = (query.float() * scaling) @ key.float().transpose(-1, -2)
    if mask is not None:
        scores = scores + mask[:, None, None]
    total = scores.logsumexp(-1)
    return ((scores - total[..., None]).exp() @ value.float()).to(query.dtype), total


def merged(one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The attention over all keys, from those over two parts of them (`attention_with_total`), [B, K, Q, D]."""
    share = (other[1] - one[1]).sigmoid()[..., None]
    return torch.lerp(one[0].float(), other[0].float(), share).to(one[0].dtype)
