"""One token more for every sequence: the text layers without what Transformers' own forward does around them.

At one token per sequence that forward spends most of its time on what has to be done for any input (masks, caches,
outputs to record, wrappers of every layer and module). Whatever is not a plain linear layer is called as the module it
is, so that adapters and experts are as they are there. A response is text, whose positions are equal on all three
axes: the rotation by three positions is then the plain one, whatever a family's order of the axes.

Legend: B sequences, C hidden size, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import nn

from easyvideor1.model.pointwise import norm_scale, rotated

Function = Callable[[torch.Tensor], torch.Tensor]
SMALL_WEIGHTS = 1 << 20
"""Most numbers of several layers' weights that are copied into one: below, calls take longer than products."""


class AttendNewest(Protocol):
    """Attention of the newest tokens to all that each may see, itself among it."""

    def __call__(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """query [B, H, D], key and value [B, K, D] of the newest tokens -> [B, H, D]."""
        ...


class Decoding:
    """The text layers of a model all of whose layers have full attention, as long as its weights stay."""

    def __init__(self, text: Any) -> None:
        """
        Args:
            text: see families.language_model.
        """
        self._text = text
        rotary = text.rotary_emb
        self._frequencies = torch.cat([rotary.inv_freq.float()] * 2)
        """[D]."""
        self._rotary_scaling = float(rotary.attention_scaling)
        self._layers = [_Layer(layer) for layer in text.layers]

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor, attend: AttendNewest) -> torch.Tensor:
        """
        Args:
            tokens, positions: int64 [B]; the newest token of each sequence.

        Returns:
            [B, C] after the last norm.
        """
        hidden = self._text.embed_tokens(tokens)
        angles = positions[:, None].float() * self._frequencies
        cos, sin = ((wave * self._rotary_scaling).to(hidden.dtype)[:, None] for wave in (angles.cos(), angles.sin()))
        for layer in self._layers:
            hidden = layer(hidden, cos, sin, attend)
        return self._text.norm(hidden)


class _Layer:
    """One text layer, its modules looked up once."""

    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self._index, self._scaling, self._size = attention.layer_idx, attention.scaling, attention.head_dim
        self._norm, self._mlp_norm = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self._heads = _together(attention.q_proj, attention.k_proj, attention.v_proj)
        self._out = _added(attention.o_proj)
        self._head_norms = _head_norms(attention)
        self._mlp = _mlp(layer.mlp)

    def __call__(
        self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: AttendNewest
    ) -> torch.Tensor:
        """[B, C] to the same; cos and sin [B, 1, D]."""
        normed = self._norm(hidden)
        of_heads = len(normed), -1, self._size
        query, key, value = (heads.view(of_heads) for heads in self._heads(normed))
        heads = rotated(self._head_norms(query, key), cos, sin)
        query, key = heads.split((query.shape[1], key.shape[1]), 1)
        out = attend(self._index, query, key, value, self._scaling)
        hidden = self._out(hidden, out.flatten(1))
        return self._mlp(hidden, self._mlp_norm(hidden))


def _linear(module: Any) -> Function:
    """A plain linear layer without the call of its module."""
    return partial(F.linear, weight=module.weight, bias=module.bias) if type(module) is nn.Linear else module


def _together(*modules: Any) -> Callable[[torch.Tensor], Sequence[torch.Tensor]]:
    """Several layers over the same states; small plain ones in one matrix product, of a copy of their weights."""
    is_plain = all(type(module) is nn.Linear and module.bias is None for module in modules)
    if not is_plain or sum(module.weight.numel() for module in modules) > SMALL_WEIGHTS:
        each = [_linear(module) for module in modules]
        return lambda states: [linear(states) for linear in each]
    weight, sizes = torch.cat([module.weight for module in modules]), [module.out_features for module in modules]
    return lambda states: F.linear(states, weight).split_with_sizes(sizes, -1)


def _added(module: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """From the states of before and a layer's input, the sum of those and its output."""
    if type(module) is nn.Linear and module.bias is None:
        weight = module.weight.T
        return lambda before, states: torch.addmm(before, states, weight)
    return lambda before, states: before + module(states)


def _mlp(module: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """From [B, C] before the norm and after it to those before, with the output of the layer behind the attention:
    gated, or experts."""
    if not hasattr(module, "gate_proj"):
        return lambda before, states: before + module(states[:, None])[:, 0]
    both, down, activation = _together(module.gate_proj, module.up_proj), _added(module.down_proj), module.act_fn

    def gated(before: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        gate, up = both(states)
        return down(before, activation(gate) * up)

    return gated


def _norm(module: Any) -> Function:
    """A root mean square norm: in float32 in few operations; in half precision by its module, which rounds twice, as
    the actor does."""
    if module.weight.dtype != torch.float32:
        return module
    return _rms_norm(module.weight, module.variance_epsilon)


def _head_norms(attention: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """From queries [B, H, D] and keys [B, K, D] to both normed, [B, H + K, D]; some families do not norm them."""
    if not hasattr(attention, "q_norm"):
        return lambda query, key: torch.cat((query, key), 1)
    norms = attention.q_norm, attention.k_norm
    if norms[0].weight.dtype != torch.float32:
        return lambda query, key: torch.cat((norms[0](query), norms[1](key)), 1)
    num_heads = [projection.out_features // attention.head_dim for projection in (attention.q_proj, attention.k_proj)]
    weight = torch.cat([norm.weight.expand(number, -1) for norm, number in zip(norms, num_heads, strict=True)])
    norm_of_both = _rms_norm(weight, norms[0].variance_epsilon)
    return lambda query, key: norm_of_both(torch.cat((query, key), 1))


def _rms_norm(weight: torch.Tensor, epsilon: float) -> Function:
    """
    Args:
        weight: [.., size]; the last axis is normed.
    """
    return lambda states: (states * norm_scale(states, epsilon)).mul_(weight)
