"""Packs `[prompt | r1 .. rn] [prompt | r1 .. rn] ...` through Transformers' models: each prompt is computed once.

Each prompt attends causally to itself, each response to its prompt and causally to itself, nothing across groups.
With positions that continue from the prompt's last one in every response, this is the same function of the weights
as one sequence `[prompt | r]` per response. It reaches the model through Transformers' AttentionInterface.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from easyvideor1.errors import UsageError
from easyvideor1.model.families import layer_kinds, shares_prefix
from easyvideor1.training import vision_attention
from easyvideor1.training.attention import pack_attention
from easyvideor1.training.layout import PackLayout
from easyvideor1.training.lean_layers import make_lean
from easyvideor1.training.pack import PackForm
from easyvideor1.training.sequence import SequenceGroup

NAME = "shared_prefix"


def enable(model: PreTrainedModel) -> None:
    """Make the text layers of a model understand `pack_layout`; without one they attend as before (SDPA).

    The vision tower attends in one call per layer from here on. It is set once and stays: switching it around a forward
    would change what gradient checkpointing recomputes.

    Raises:
        UsageError: the model has layers with sliding-window attention, or attention dropout.
    """
    layer_kinds(model)
    if getattr(model.config.get_text_config(), "attention_dropout", 0.0):
        raise UsageError(
            "this model uses attention dropout, with which no two computations of a log-probability agree; "
            "set attention_dropout to 0 in its config.json"
        )
    AttentionInterface.register(NAME, shared_prefix_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    AttentionInterface.register(vision_attention.NAME, vision_attention.vision_attention)
    model.set_attn_implementation({"text_config": NAME, "vision_config": vision_attention.NAME})
    make_lean(model)


def pack_form(model: PreTrainedModel, *, shared: bool) -> PackForm:
    """How packs of this model are built: as asked, or padded where a layer's state runs on from token to token.

    In a linear-attention layer a response would read what the one before it left in the state.
    """
    if not shares_prefix(model):
        return "padded"
    return "shared" if shared else "separate"


def shared_prefix_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    pack_layout: PackLayout | None = None,
    sequence_group: SequenceGroup | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function for Transformers.

    Args:
        query: [1, H, L, D]: H heads, L tokens of the pack, D head size; of several ranks, n tokens of this one.
        key, value: [1, K, L, D], K key-value heads.
        attention_mask: must be None with a layout (packs have no padding).
        pack_layout: None means an ordinary batch (generation): SDPA does it.
        sequence_group: the ranks that compute this pack together; None: this one alone.

    Returns:
        [1, L, H, D], or [1, n, H, D], and None for the weights.
    """
    if pack_layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **kwargs)
    assert attention_mask is None, "a pack has no padding and takes no mask"
    assert query.shape[0] == 1, f"a pack is a batch of one, got {query.shape[0]}"
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    q, k, v = (heads[0].transpose(0, 1) for heads in (query, key, value))
    return pack_attention(q, k, v, pack_layout, scale=scale, group=sequence_group)[None], None
