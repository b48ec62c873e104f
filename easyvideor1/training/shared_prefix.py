"""Attention over packs `[prompt | r1 .. rn] [prompt | r1 .. rn] ...`: the prompt of a group is computed once.

Each prompt attends causally to itself, each response to its prompt and causally to itself, nothing across groups.
With positions that continue from the prompt's last one in every response, this is the same function of the weights
as one sequence `[prompt | r]` per response. It reaches the model through Transformers' AttentionInterface.

Legend: L tokens of a pack, P prompt tokens, G responses of a group, S response tokens of a group, M tokens of its
longest response, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from easyvideor1.model.families import layer_kinds

NAME = "shared_prefix"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupLayout:
    """Where the responses of one `[prompt | r1 .. rn]` lie; `lay_out` makes it."""

    num_prompt: int
    lengths: tuple[int, ...]
    """[G] tokens of each response, all > 0."""
    slots_GM: torch.Tensor
    """int64 [G, M] -> index into the S response tokens; short responses repeat their last token."""
    kept_S: torch.Tensor
    """int64 [S] -> index into the flattened slots: the slots that are no repeats, in order."""

    @property
    def num_tokens(self) -> int:
        return self.num_prompt + sum(self.lengths)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackLayout:
    """The groups of a pack, in order; passed to the model's forward as `pack_layout`."""

    groups: tuple[GroupLayout, ...]

    @property
    def num_tokens(self) -> int:
        return sum(group.num_tokens for group in self.groups)

    @property
    def is_one_sequence(self) -> bool:
        """One prompt with one response: an ordinary causal sequence."""
        return len(self.groups) == 1 and len(self.groups[0].lengths) == 1

    def to(self, device: torch.device | str) -> PackLayout:
        return PackLayout(
            groups=tuple(
                replace(group, slots_GM=group.slots_GM.to(device), kept_S=group.kept_S.to(device))
                for group in self.groups
            )
        )


def lay_out(num_prompt: int, lengths: Sequence[int]) -> GroupLayout:
    """Layout of one prompt with its responses.

    >>> layout = lay_out(4, [3, 1])
    >>> layout.slots_GM.tolist(), layout.kept_S.tolist()
    ([[0, 1, 2], [3, 3, 3]], [0, 1, 2, 3])
    """
    if num_prompt < 1 or not lengths or min(lengths) < 1:
        raise ValueError(f"a group needs a prompt and responses of >= 1 token, got {num_prompt} and {list(lengths)}")
    lengths_G = torch.tensor(lengths)
    ends_G = lengths_G.cumsum(0)
    step_M = torch.arange(int(lengths_G.max()))
    slots_GM = torch.minimum((ends_G - lengths_G)[:, None] + step_M, ends_G[:, None] - 1)
    kept_S = (step_M < lengths_G[:, None]).flatten().nonzero().squeeze(-1)
    return GroupLayout(num_prompt=num_prompt, lengths=tuple(lengths), slots_GM=slots_GM, kept_S=kept_S)


def enable(model: PreTrainedModel) -> None:
    """Make the text layers of a model understand `pack_layout`; without one they attend as before (SDPA).

    It is set once and stays: switching it around a forward would change what gradient checkpointing recomputes.

    Raises:
        UsageError: the model has layers with sliding-window attention.
    """
    layer_kinds(model)
    AttentionInterface.register(NAME, shared_prefix_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation({"text_config": NAME, "vision_config": "sdpa"})


def shared_prefix_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    pack_layout: PackLayout | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function for Transformers.

    Args:
        query: [1, H, L, D].
        key, value: [1, K, L, D].
        attention_mask: must be None with a layout (packs have no padding).
        pack_layout: None means an ordinary batch (generation): SDPA does it.

    Returns:
        [1, L, H, D], and None for the weights.
    """
    if pack_layout is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    assert attention_mask is None, "a pack has no padding and takes no mask"
    assert query.shape[0] == 1, f"a pack is a batch of one, got {query.shape[0]}"
    assert query.shape[2] == pack_layout.num_tokens, (
        f"pack of {query.shape[2]}, layout of {pack_layout.num_tokens} tokens"
    )
    sizes = [group.num_tokens for group in pack_layout.groups]
    parts = zip(query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), pack_layout.groups, strict=True)
    outputs = [_attend_group(q, k, v, group, dropout=dropout, scaling=scaling) for q, k, v, group in parts]
    return torch.cat(outputs, 2).transpose(1, 2).contiguous(), None


def _attend_group(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: GroupLayout,
    *,
    dropout: float,
    scaling: float | None,
) -> torch.Tensor:
    """One `[prompt | r1 .. rG]`; query [1, H, P + S, D], key and value [1, K, P + S, D]; returns [1, H, P + S, D]."""
    if len(group.lengths) == 1:
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=dropout, scale=scaling, enable_gqa=True
        )
    sizes = [group.num_prompt, sum(group.lengths)]
    (query_P, query_S), (key_P, key_S), (value_P, value_S) = (t.split(sizes, 2) for t in (query, key, value))
    prompt_out = F.scaled_dot_product_attention(
        query_P, key_P, value_P, is_causal=True, dropout_p=dropout, scale=scaling, enable_gqa=True
    )
    num_responses, longest = group.slots_GM.shape
    num_kv = key.shape[1]
    # The query heads that share a key head stand one after another in the length: [G, K, H/K * M, D]. So no
    # key is repeated, and every SDPA kernel serves, not only those with grouped queries.
    folded = query_S[0].unflatten(0, (num_kv, -1))[:, :, group.slots_GM].permute(2, 0, 1, 3, 4).flatten(2, 3)
    # A response's repeats come after its own tokens, where the causal mask hides them.
    mask = torch.ones(longest, group.num_prompt + longest, dtype=torch.bool, device=query.device)
    mask = mask.tril(group.num_prompt).repeat(query.shape[1] // num_kv, 1)
    out = F.scaled_dot_product_attention(
        folded,
        _prompt_and_own(key_P, key_S, group),
        _prompt_and_own(value_P, value_S, group),
        attn_mask=mask,
        dropout_p=dropout,
        scale=scaling,
    )
    out = out.unflatten(2, (-1, longest)).permute(1, 2, 0, 3, 4).reshape(1, query.shape[1], num_responses * longest, -1)
    return torch.cat([prompt_out, out.index_select(2, group.kept_S)], 2)


def _prompt_and_own(prompt: torch.Tensor, responses: torch.Tensor, group: GroupLayout) -> torch.Tensor:
    """[1, K, P, D] and [1, K, S, D] -> [G, K, P + M, D]: what each response may see."""
    own = responses[0][:, group.slots_GM].transpose(0, 1)
    return torch.cat([prompt.expand(len(own), -1, -1, -1), own], 2)
