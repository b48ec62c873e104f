"""The states of linear-attention layers, in the form that Transformers' models read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, LinearAttentionLayer

States = dict[int, tuple[torch.Tensor, torch.Tensor]]
"""Linear-attention layer -> state of the convolution [B, ..] and of the recurrence [B, ..]."""


class _Nothing(CacheLayerMixin):
    """A layer's place in a Transformers cache, where the keys and values are kept elsewhere."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        pass

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1


def linear_cache(kinds: Sequence[str], states: States | None = None) -> Cache | None:
    """A Transformers cache for the linear-attention layers of a model; None where it has none.

    Args:
        states: what the layers go on from, and write to.
    """
    if "linear_attention" not in kinds:
        return None
    layers: list[Any] = [LinearAttentionLayer() if kind == "linear_attention" else _Nothing() for kind in kinds]
    for number, (convolution, recurrence) in (states or {}).items():
        layer = layers[number]
        layer.lazy_initialization(convolution, recurrence)
        layer.conv_states[0], layer.recurrent_states[0] = convolution, recurrence
        layer.has_previous_state[0] = True
    return Cache(layers=layers)


def linear_states(cache: Cache | None) -> States:
    """The states that a forward left in a cache of `linear_cache`."""
    states: States = {}
    for number, layer in enumerate(cache.layers if cache is not None else ()):
        if isinstance(layer, LinearAttentionLayer):
            convolution, recurrence = layer.conv_states[0], layer.recurrent_states[0]
            assert convolution is not None
            assert recurrence is not None
            states[number] = convolution, recurrence
    return states
