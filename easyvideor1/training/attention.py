"""Attention over packs: each prompt once, and each response over its prompt and itself, exactly.

Two passes of a kernel are merged by their log-sum-exp: every sequence over itself (causal), and the responses of each
group over their prompt (no mask). In the backward both passes get the *merged* output and log-sum-exp, with which each
yields its part of the exact gradient, as in ring attention (arXiv:2310.01889). Autograd through the log-sum-exp that a
kernel returns would not do: kernels drop its gradient without a word. So nothing is padded or masked, and no key is
copied for a response.

Legend: L tokens of a pack, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from easyvideor1.training.kernels import Heads, kernel_for
from easyvideor1.training.layout import PackLayout, Range
from easyvideor1.training.sequence import SequenceGroup


def pack_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layout: PackLayout,
    *,
    scale: float,
    group: SequenceGroup | None = None,
) -> torch.Tensor:
    """The attention output of each token of a pack.

    Args:
        query: [L, H, D]; of several ranks, those of this rank's tokens [n, H, D].
        key, value: [L, K, D], or [n, K, D]; K a divisor of H.
        layout: who sees whom.
        scale: multiplies the scores.
        group: the ranks that compute this pack together; None: this one alone.

    Returns:
        As query, of its dtype.
    """
    heads = query, key, value
    if group is not None and group.size > 1:
        heads = query, group.repeated(key), group.repeated(value)
        heads = tuple(group.to_heads(part, num_tokens=layout.num_tokens) for part in heads)
    assert len(heads[0]) == layout.num_tokens, f"pack of {len(heads[0])}, layout of {layout.num_tokens} tokens"
    out: torch.Tensor = _PackAttention.apply(*(part.contiguous() for part in heads), layout, scale)
    return group.to_tokens(out) if group is not None and group.size > 1 else out


class _PackAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layout: PackLayout, scale: float
    ) -> torch.Tensor:
        heads, kernel = Heads(query, key, value), kernel_for(query)
        out, lse = kernel.forward(heads, layout.sequences, is_causal=True, scale=scale)
        if layout.prompts:
            seen, seen_lse = kernel.forward(
                _over_prompts(heads, layout), layout.over_prompts, is_causal=False, scale=scale
            )
            lengths = layout.over_prompts.query_lengths
            parts = zip(layout.responses, seen.split(lengths), seen_lse.split(lengths, 1), strict=True)
            for (start, end), part, part_lse in parts:
                _merge(out[start:end], lse[:, start:end], part, part_lse)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.layout, ctx.scale = layout, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, out, lse = ctx.saved_tensors
        heads, kernel, layout = Heads(query, key, value), kernel_for(query), ctx.layout
        grad = grads[0].contiguous()
        found = kernel.backward(grad, heads, out, lse, layout.sequences, is_causal=True, scale=ctx.scale)
        if layout.prompts:
            more = kernel.backward(
                _taken(grad, layout.responses),
                _over_prompts(heads, layout),
                _taken(out, layout.responses),
                _taken(lse, layout.responses, dim=1),
                layout.over_prompts,
                is_causal=False,
                scale=ctx.scale,
            )
            places = (layout.responses, layout.prompts, layout.prompts)
            for total, part, ranges in zip(found, more, places, strict=True):
                _add(total, part, ranges)
        return *found, None, None


def _over_prompts(heads: Heads, layout: PackLayout) -> Heads:
    return Heads(
        _taken(heads.query, layout.responses),
        _taken(heads.key, layout.prompts),
        _taken(heads.value, layout.prompts),
    )


def _taken(tensor: torch.Tensor, ranges: Sequence[Range], *, dim: int = 0) -> torch.Tensor:
    """The ranges of a tensor laid end to end; of one range a view, made contiguous along the heads where it must be."""
    parts = [tensor.narrow(dim, start, end - start) for start, end in ranges]
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts, dim)


def _add(total: torch.Tensor, part: torch.Tensor, ranges: Sequence[Range]) -> None:
    for (start, end), piece in zip(ranges, part.split([end - start for start, end in ranges]), strict=True):
        total[start:end] += piece


def _merge(out: torch.Tensor, lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor) -> None:
    """Turn the output [N, H, D] and log-sum-exp [H, N] over some keys into those over these and the other keys."""
    total = torch.logaddexp(lse, other_lse)
    share = (other_lse - total).exp().T[..., None]
    wide = share.dtype  # half precision would round twice
    out.copy_(torch.lerp(out.to(wide), other.to(wide), share))
    lse.copy_(total)
