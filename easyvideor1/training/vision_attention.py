"""Attention of a vision tower: all images and temporal patches of a call together, one kernel call per layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from easyvideor1.training.kernels import Heads, varlen_backward, varlen_forward

NAME = "varlen_flash"
"""Transformers hands the lengths over instead of cutting the patches up itself where a name holds "flash"."""


def vision_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    max_length_q: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function for Transformers: every patch sees the patches of its own image, temporal patch or window.

    Half precision on a GPU takes one call of the varlen flash kernel, everything else one of SDPA per distinct length.

    Args:
        query, key, value: [1, H, L, D]: H heads, L patches, D head size.
        attention_mask: must be None: nothing is padded.
        cu_seq_lens_q: int32 [segments + 1]: 0, and where each segment ends.
        max_length_q: patches of the longest segment.

    Returns:
        [1, L, H, D], and None for the weights.
    """
    assert attention_mask is None, "a vision tower takes no mask"
    assert cu_seq_lens_q is not None, "a vision tower says where its segments end"
    heads = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    if query.device.type == "cuda" and query.dtype in (torch.bfloat16, torch.float16):
        assert max_length_q is not None
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        query, key, value = (tensor.contiguous() for tensor in heads)
        return _Varlen.apply(query, key, value, cu_seq_lens_q.to(torch.int32), max_length_q, scale)[None], None
    return _by_length(heads, cu_seq_lens_q.diff().tolist(), scaling)[None], None


class _Varlen(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        ends: torch.Tensor,
        longest: int,
        scale: float,
    ) -> torch.Tensor:
        heads = Heads(query, key, value)
        out, lse = varlen_forward(heads, (ends, ends), (longest, longest), is_causal=False, scale=scale)
        ctx.save_for_backward(*heads, out, lse, ends)
        ctx.longest, ctx.scale = longest, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, out, lse, ends = ctx.saved_tensors
        found = varlen_backward(
            grads[0].contiguous(),
            Heads(query, key, value),
            out,
            lse,
            (ends, ends),
            (ctx.longest, ctx.longest),
            is_causal=False,
            scale=ctx.scale,
        )
        return *found, None, None, None


def _by_length(heads: list[torch.Tensor], lengths: list[int], scale: float | None) -> torch.Tensor:
    """[L, H, D] each -> [L, H, D]: segments of the same length are a batch."""
    if len(set(lengths)) == 1:
        return _attend(heads, lengths[0], scale)
    of_patch = torch.tensor(lengths).repeat_interleave(torch.tensor(lengths))
    places = [torch.nonzero(of_patch == length).squeeze(1).to(heads[0].device) for length in sorted(set(lengths))]
    outs = [
        _attend([tensor[place] for tensor in heads], length, scale)
        for place, length in zip(places, sorted(set(lengths)), strict=True)
    ]
    return torch.cat(outs)[torch.cat(places).argsort()]


def _attend(heads: list[torch.Tensor], length: int, scale: float | None) -> torch.Tensor:
    q, k, v = (tensor.unflatten(0, (-1, length)).transpose(1, 2) for tensor in heads)
    return F.scaled_dot_product_attention(q, k, v, scale=scale).transpose(1, 2).flatten(0, 1)
