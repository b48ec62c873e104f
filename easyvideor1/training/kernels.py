"""Kernels of block-diagonal attention with what a merge of several needs: log-sum-exps, and backwards that take them.

Legend: Q queries and S keys of all blocks laid end to end, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple, Protocol

import torch

PLAIN_SCORES_BYTES = 256 << 20
"""Most memory of the scores that the kernel without flash holds at once."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Blocks:
    """The n-th stretch of queries sees the n-th stretch of keys, and no other."""

    query_lengths: tuple[int, ...]
    key_lengths: tuple[int, ...]
    query_ends: torch.Tensor
    """int32 [blocks + 1]: 0, and where each stretch ends."""
    key_ends: torch.Tensor

    @classmethod
    def of(cls, query_lengths: Sequence[int], key_lengths: Sequence[int]) -> Blocks:
        """
        >>> Blocks.of([2, 3], [4, 1]).key_ends.tolist()
        [0, 4, 5]
        """
        return cls(
            query_lengths=tuple(query_lengths),
            key_lengths=tuple(key_lengths),
            query_ends=torch.tensor([0, *accumulate(query_lengths)], dtype=torch.int32),
            key_ends=torch.tensor([0, *accumulate(key_lengths)], dtype=torch.int32),
        )

    def to(self, device: torch.device | str) -> Blocks:
        return Blocks(
            query_lengths=self.query_lengths,
            key_lengths=self.key_lengths,
            query_ends=self.query_ends.to(device),
            key_ends=self.key_ends.to(device),
        )


class Heads(NamedTuple):
    """Queries [Q, H, D], and keys and values [S, K, D] with K a divisor of H; or the gradients of them."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor


class Kernel(Protocol):
    def forward(
        self, heads: Heads, blocks: Blocks, *, is_causal: bool, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Output [Q, H, D], and the log-sum-exp of the scaled scores, float32 [H, Q] (float64 of float64)."""
        ...

    def backward(
        self,
        grad: torch.Tensor,
        heads: Heads,
        out: torch.Tensor,
        lse: torch.Tensor,
        blocks: Blocks,
        *,
        is_causal: bool,
        scale: float,
    ) -> Heads:
        """Gradients, from that of the output [Q, H, D]; output and log-sum-exp may be those over further keys too."""
        ...


def varlen_forward(
    heads: Heads, ends: tuple[torch.Tensor, torch.Tensor], longest: tuple[int, int], *, is_causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The flash kernel of a GPU over all blocks in one call, the one under `torch.nn.attention.varlen`.

    Args:
        heads: half precision, contiguous.
        ends: int32 [blocks + 1] of queries and of keys: 0, and where each stretch ends.
        longest: longest stretch of queries and of keys.

    Returns:
        Output and log-sum-exps, see Kernel.forward.
    """
    out, lse, *_ = torch.ops.aten._flash_attention_forward(*heads, *ends, *longest, 0.0, is_causal, False, scale=scale)
    return out, lse


def varlen_backward(
    grad: torch.Tensor,
    heads: Heads,
    out: torch.Tensor,
    lse: torch.Tensor,
    ends: tuple[torch.Tensor, torch.Tensor],
    longest: tuple[int, int],
    *,
    is_causal: bool,
    scale: float,
) -> Heads:
    """Its backward; see Kernel.backward."""
    no_dropout = torch.zeros(2, dtype=torch.uint64, device=grad.device)
    unused = torch.empty(0, device=grad.device)
    found = torch.ops.aten._flash_attention_backward(
        grad, *heads, out, lse, *ends, *longest, 0.0, is_causal, no_dropout, unused, scale=scale
    )
    return Heads(*found)


class VarlenFlash:
    """All blocks in one call of a GPU's flash kernel; half precision."""

    def forward(
        self, heads: Heads, blocks: Blocks, *, is_causal: bool, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return varlen_forward(heads, *_ends_and_longest(blocks), is_causal=is_causal, scale=scale)

    def backward(
        self,
        grad: torch.Tensor,
        heads: Heads,
        out: torch.Tensor,
        lse: torch.Tensor,
        blocks: Blocks,
        *,
        is_causal: bool,
        scale: float,
    ) -> Heads:
        ends, longest = _ends_and_longest(blocks)
        return varlen_backward(grad, heads, out, lse, ends, longest, is_causal=is_causal, scale=scale)


def _ends_and_longest(blocks: Blocks) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[int, int]]:
    return (blocks.query_ends, blocks.key_ends), (max(blocks.query_lengths), max(blocks.key_lengths))


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockByBlock:
    """A kernel made of functions for a few blocks of equal lengths, whose tensors are [B, N, L, D] and log-sum-exps
    [B, N, L]; see `_Calls`."""

    blocks_forward: Callable[[Heads, bool, float], tuple[torch.Tensor, torch.Tensor]]
    """(blocks, is_causal, scale) -> output and log-sum-exps."""
    blocks_backward: Callable[[torch.Tensor, Heads, torch.Tensor, torch.Tensor, bool, float], Heads]
    """(gradient of the output, blocks, output, log-sum-exps, is_causal, scale) -> gradients, those of keys and values
    for each query head."""

    def forward(
        self, heads: Heads, blocks: Blocks, *, is_causal: bool, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out = torch.empty_like(heads.query)
        lse = out.new_empty(out.shape[1], len(out), dtype=torch.promote_types(out.dtype, torch.float32))
        calls = _Calls(blocks, num_kv=heads.key.shape[1])
        for of_call, out_part, lse_part in zip(
            calls.of_heads(heads), calls.of_queries(out), calls.of_lse(lse), strict=True
        ):
            found, found_lse = self.blocks_forward(of_call, is_causal, scale)
            out_part.copy_(found)
            lse_part.copy_(found_lse)
        return out, lse

    def backward(
        self,
        grad: torch.Tensor,
        heads: Heads,
        out: torch.Tensor,
        lse: torch.Tensor,
        blocks: Blocks,
        *,
        is_causal: bool,
        scale: float,
    ) -> Heads:
        grads = Heads(*map(torch.empty_like, heads))
        calls = _Calls(blocks, num_kv=heads.key.shape[1])
        parts = zip(
            calls.of_heads(heads),
            calls.of_queries(grad),
            calls.of_queries(out),
            calls.of_lse(lse),
            calls.of_queries(grads.query),
            calls.of_keys(grads.key),
            calls.of_keys(grads.value),
            strict=True,
        )
        for of_call, grad_part, out_part, lse_part, query, key, value in parts:
            found = self.blocks_backward(grad_part, of_call, out_part, lse_part, is_causal, scale)
            query.copy_(found.query)
            torch.sum(found.key, 1, keepdim=True, out=key)
            torch.sum(found.value, 1, keepdim=True, out=value)
        return grads


class _Calls:
    """How blocks are dealt to calls of a kernel, without a copy: several of equal lengths one after another in a call
    for each key-value head, or each block in a call of its own, whichever are fewer calls.

    B of a call is then the number of blocks, or of key-value heads; N the query heads that share a key-value head.
    """

    def __init__(self, blocks: Blocks, *, num_kv: int) -> None:
        self._num_kv = num_kv
        self._queries: list[_Call] = []
        self._keys: list[_Call] = []
        query = key = 0
        for (query_length, key_length), run in groupby(zip(blocks.query_lengths, blocks.key_lengths, strict=True)):
            count = len(list(run))
            for each in range(min(count, num_kv)):
                alone = count <= num_kv
                of_call = each if alone else 0, None if alone else each, count
                self._queries.append(_Call(query, query_length, *of_call))
                self._keys.append(_Call(key, key_length, *of_call))
            query, key = query + count * query_length, key + count * key_length

    def of_heads(self, heads: Heads) -> Iterator[Heads]:
        sharing = heads.query.shape[1] // self._num_kv
        keys, values = (self._views(tensor, self._keys, sharing=sharing) for tensor in (heads.key, heads.value))
        return map(Heads, self.of_queries(heads.query), keys, values)

    def of_queries(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """[Q, H, D] -> views [B, N, L, D]."""
        return self._views(tensor, self._queries)

    def of_keys(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """[S, K, D] -> views [B, 1, L, D]."""
        return self._views(tensor, self._keys)

    def of_lse(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """[H, Q] -> views [B, N, L]."""
        return self._views(tensor.T, self._queries)

    def _views(self, tensor: torch.Tensor, calls: Sequence[_Call], *, sharing: int = 1) -> Iterator[torch.Tensor]:
        """
        Args:
            tensor: [tokens, heads, ..].
            sharing: how often each head is there, in the same memory.
        """
        (_, num_heads, *size), (token, head, *item) = tensor.shape, tensor.stride()
        per_kv = num_heads // self._num_kv
        n = sharing if sharing > 1 else per_kv
        per_head = 0 if sharing > 1 else head
        for call in calls:
            first = tensor.storage_offset() + call.start * token
            if call.kv_head is None:
                first += call.block * call.length * token
                shape, stride = (self._num_kv, n, call.length, *size), (per_kv * head, per_head, token, *item)
            else:
                first += call.kv_head * per_kv * head
                shape, stride = (call.num_blocks, n, call.length, *size), (call.length * token, per_head, token, *item)
            yield tensor.as_strided(shape, stride, first)


class _Call(NamedTuple):
    """What one call of a kernel gets of a run of blocks of equal lengths."""

    start: int
    """First token of the run."""
    length: int
    """Tokens of each block."""
    block: int
    """Place of the block in the run, of a call that gets one."""
    kv_head: int | None
    """Key-value head of a call that gets all blocks; None: it gets one block with all heads."""
    num_blocks: int
    """Of the run."""


def _flash_forward(block: Heads, is_causal: bool, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*block, 0.0, is_causal, scale=scale)


def _flash_backward(
    grad: torch.Tensor, block: Heads, out: torch.Tensor, lse: torch.Tensor, is_causal: bool, scale: float
) -> Heads:
    found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, *block, out, lse, 0.0, is_causal, scale=scale
    )
    return Heads(*found)


def _plain_forward(block: Heads, is_causal: bool, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    outs, lses = [], []
    for rows in _rows(block):
        scores = _scores(block, rows, is_causal, scale)
        lses.append(scores.logsumexp(-1))
        outs.append((scores - lses[-1][..., None]).exp().to(block.value.dtype) @ block.value)
    return torch.cat(outs, 2), torch.cat(lses, 2)


def _plain_backward(
    grad: torch.Tensor, block: Heads, out: torch.Tensor, lse: torch.Tensor, is_causal: bool, scale: float
) -> Heads:
    query, key, value = (tensor.to(lse.dtype) for tensor in block)
    grad, out = grad.to(lse.dtype), out.to(lse.dtype)
    found = Heads(torch.empty_like(query), torch.zeros_like(key), torch.zeros_like(value))
    for rows in _rows(block):
        shares = (_scores(block, rows, is_causal, scale) - lse[:, :, rows, None]).exp()
        found.value.add_(shares.mT @ grad[:, :, rows])
        inner = (grad[:, :, rows] * out[:, :, rows]).sum(-1, keepdim=True)
        grad_scores = shares * (grad[:, :, rows] @ value.mT - inner) * scale
        found.query[:, :, rows] = grad_scores @ key
        found.key.add_(grad_scores.mT @ query[:, :, rows])
    return found


VARLEN_FLASH = VarlenFlash()
FLASH_ON_CPU = BlockByBlock(blocks_forward=_flash_forward, blocks_backward=_flash_backward)
PLAIN = BlockByBlock(blocks_forward=_plain_forward, blocks_backward=_plain_backward)
"""Matrix products, some queries at a time, for devices and number formats without a flash kernel."""


def kernel_for(query: torch.Tensor) -> Kernel:
    """The fastest kernel for queries of this kind: flash where there is one."""
    if query.device.type == "cpu":
        return FLASH_ON_CPU
    if query.device.type == "cuda" and query.dtype in (torch.bfloat16, torch.float16):
        return VARLEN_FLASH
    return PLAIN


def _rows(block: Heads) -> Iterator[slice]:
    num_queries, num_keys = block.query.shape[2], block.key.shape[2]
    bytes_per_row = block.query.shape[0] * block.query.shape[1] * num_keys * 4
    step = max(1, PLAIN_SCORES_BYTES // bytes_per_row)
    return (slice(start, min(start + step, num_queries)) for start in range(0, num_queries, step))


def _scores(block: Heads, rows: slice, is_causal: bool, scale: float) -> torch.Tensor:
    wide = torch.promote_types(block.query.dtype, torch.float32)
    scores = block.query[:, :, rows].to(wide) @ block.key.to(wide).mT * scale
    if is_causal:
        places = torch.arange(rows.start, rows.stop, device=scores.device)
        hidden = torch.arange(scores.shape[-1], device=scores.device) > places[:, None]
        scores = scores.masked_fill(hidden, -math.inf)
    return scores
