"""One token more for every sequence: the text layers without what Transformers' own forward does around them.

At one token per sequence that forward spends most of its time on what has to be done for any input (masks, caches,
outputs to record, wrappers of every layer). The layers' own modules do all the arithmetic here too, so adapters and
experts are as they are there. A response is text, whose positions are equal on all three axes: the rotation by three
positions is then the plain one, whatever a family's order of the axes.

Legend: B sequences, C hidden size, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from easyvideor1.rollout.hf.attention import Attend


class Decoding:
    """The text layers of a model all of whose layers have full attention."""

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

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor, attend: Attend) -> torch.Tensor:
        """
        Args:
            tokens, positions: int64 [B]; the newest token of each sequence.

        Returns:
            [B, C] after the last norm.
        """
        hidden = self._text.embed_tokens(tokens[:, None])
        angles = positions[:, None].float() * self._frequencies
        cos, sin = (
            (wave * self._rotary_scaling).to(hidden.dtype)[:, None, None] for wave in (angles.cos(), angles.sin())
        )
        # The first half of a head turns against the second: x cos + (-x2, x1) sin.
        half = sin.shape[-1] // 2
        sin = torch.cat((-sin[..., :half], sin[..., half:]), -1)
        for layer in self._layers:
            hidden = layer(hidden, cos, sin, attend)
        return self._text.norm(hidden)[:, 0]


class _Layer:
    """One text layer, its modules looked up once."""

    def __init__(self, layer: Any) -> None:
        attention = layer.self_attn
        self._index, self._scaling, self._size = attention.layer_idx, attention.scaling, attention.head_dim
        self._norm, self._mlp_norm = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self._mlp = layer.mlp
        self._query, self._key, self._value = attention.q_proj, attention.k_proj, attention.v_proj
        self._out = attention.o_proj
        has_head_norms = hasattr(attention, "q_norm")
        self._query_norm = _norm(attention.q_norm) if has_head_norms else None
        self._key_norm = _norm(attention.k_norm) if has_head_norms else None

    def __call__(self, hidden: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: Attend) -> torch.Tensor:
        """[B, 1, C] to the same."""
        normed = self._norm(hidden)
        heads = (*normed.shape[:2], -1, self._size)
        query, key = self._query(normed).view(heads), self._key(normed).view(heads)
        if self._query_norm is not None and self._key_norm is not None:
            query, key = self._query_norm(query), self._key_norm(key)
        query, key = (_rotated(states, cos, sin).transpose(1, 2) for states in (query, key))
        value = self._value(normed).view(heads).transpose(1, 2)
        out = attend(self._index, query, key, value, self._scaling)
        hidden = hidden + self._out(out.flatten(2))
        return hidden + self._mlp(self._mlp_norm(hidden))


def _norm(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """A root mean square norm: in float32 in one operation; in half precision by its module, which rounds twice, as
    the actor does."""
    if module.weight.dtype != torch.float32:
        return module
    return lambda states: F.rms_norm(states, states.shape[-1:], module.weight, module.variance_epsilon)


def _rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """[B, 1, heads, D]; cos and (-sin, sin) [B, 1, 1, D]."""
    return heads * cos + heads.roll(heads.shape[-1] // 2, -1) * sin
