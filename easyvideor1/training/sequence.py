"""Sequence parallelism: the ranks of a group compute each pack together, every rank some of its tokens.

In attention each rank has all tokens for some of the heads instead (DeepSpeed-Ulysses, arXiv:2309.14509): queries, keys
and values are exchanged on the way in, outputs on the way back. So attention itself is the same function as on one
rank, and everything else in a layer works on single tokens.

Legend: S ranks of a group, L tokens of a pack, n of them on this rank, H query heads, K key-value heads, D head size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from easyvideor1.config import ParallelConfig
from easyvideor1.errors import RunError, UsageError
from easyvideor1.model.families import shares_prefix
from easyvideor1.training.ranks import Ranks, is_of_a_connection

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceGroup:
    """The ranks that compute a pack together. All make the same calls in the same order; each call is a collective."""

    rank: int = 0
    """Number of this rank in its group."""
    size: int = 1
    """Ranks of a group; 1: every rank computes packs of its own, and nothing is exchanged."""
    group: dist.ProcessGroup | None = None

    def one_each(self, of_ranks: Sequence[Item]) -> Sequence[Item]:
        """The items of the first rank of each group, out of one for each rank of the run in rank order."""
        return of_ranks[:: self.size]

    def dealt(self, count: int) -> list[range]:
        """Numbers from 0 up to `count` in consecutive ranges, one for each rank, of sizes that differ by at most one.

        >>> SequenceGroup(size=2).dealt(5)
        [range(0, 2), range(2, 5)]
        """
        edges = [count * rank // self.size for rank in range(self.size + 1)]
        return [range(start, end) for start, end in itertools.pairwise(edges)]

    def own(self, tensor: torch.Tensor, *, dim: int = 0) -> torch.Tensor:
        """This rank's range along a dimension, a view."""
        own = self.dealt(tensor.shape[dim])[self.rank]
        return tensor.narrow(dim, own.start, len(own))

    def everything(self, rows: torch.Tensor, *, count: int) -> torch.Tensor:
        """[count, ...] put together from the ranges that the ranks have (see `dealt`).

        All ranks get it, and the gradients of all their copies are added up.
        """
        if self.size == 1:
            return rows
        counts = [len(of_rank) for of_rank in self.dealt(count)]
        return _exchange(torch.cat([rows] * self.size), [len(rows)] * self.size, counts, self.group)

    def fetch(
        self, rows: torch.Tensor, *, held: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        """The rows that this rank wants, from the ranks that hold them; gradients go back and are added up.

        Args:
            rows: [held rows, ...] of this rank.
            held: int64 numbers of the rows of each rank, on the CPU; each row is held by one rank.
            wanted: int64 numbers of the rows that each rank wants, on the CPU, in any order and as often as wanted.

        Returns:
            [wanted rows, ...] in the order of `wanted`.
        """
        count = sum(map(len, held))
        owner, place = torch.empty(count, dtype=torch.int64), torch.empty(count, dtype=torch.int64)
        for rank, numbers in enumerate(held):
            owner[numbers], place[numbers] = rank, torch.arange(len(numbers))
        if self.size == 1:
            return rows[place[wanted[0]].to(rows.device)]
        once = [numbers.unique(return_inverse=True) for numbers in wanted]
        sent = [place[numbers[owner[numbers] == self.rank]] for numbers, _ in once]
        numbers, which = once[self.rank]
        owners = owner[numbers]
        counts = torch.bincount(owners, minlength=self.size).tolist()
        got = _exchange(rows[torch.cat(sent).to(rows.device)], list(map(len, sent)), counts, self.group)
        # Rows come sorted by the rank that held them.
        arrived = owners.argsort(stable=True).argsort()
        return got[arrived[which].to(got.device)]

    def to_heads(self, tensor: torch.Tensor, *, num_tokens: int) -> torch.Tensor:
        """[n, H, D] of all heads -> [L, H / S, D] of this rank's heads; H a multiple of S."""
        tokens = [len(of_rank) for of_rank in self.dealt(num_tokens)]
        by_rank = tensor.unflatten(1, (self.size, -1)).transpose(0, 1).flatten(0, 1)
        return _exchange(by_rank, [len(tensor)] * self.size, tokens, self.group)

    def to_tokens(self, tensor: torch.Tensor) -> torch.Tensor:
        """[L, H / S, D] of this rank's heads -> [n, H, D] of all heads."""
        tokens = [len(of_rank) for of_rank in self.dealt(len(tensor))]
        own = tokens[self.rank]
        got = _exchange(tensor, tokens, [own] * self.size, self.group)
        return got.unflatten(0, (self.size, own)).transpose(0, 1).flatten(1, 2)

    def repeated(self, key: torch.Tensor) -> torch.Tensor:
        """Keys or values [n, K, D] with each head as often as it takes to share them evenly among the ranks.

        Query heads that shared a key head go on sharing one of its copies, whose gradients are added up.
        """
        return key.repeat_interleave(self.size // math.gcd(self.size, key.shape[1]), 1)


def join(ranks: Ranks, config: ParallelConfig) -> SequenceGroup:
    """This rank's group of `sequence` neighbouring ranks, a divisor of their number; all ranks call this. One process
    is a group of its own.
    """
    size = config.sequence
    if size == 1 or ranks.size == 1:
        return SequenceGroup()
    assert ranks.size % size == 0, f"groups of {size} out of {ranks.size} ranks"
    group, _ = dist.new_subgroups(size, timeout=timedelta(seconds=config.timeout_s))
    assert isinstance(group, dist.ProcessGroup)
    return SequenceGroup(rank=ranks.rank % size, size=size, group=group)


def require_divisible(model: Any, size: int) -> None:
    """Make sure that `size` ranks can share the layers of a model.

    Raises:
        UsageError: its query heads are no multiple of it, or it has linear-attention layers.
    """
    if problem := why_indivisible(model, size):
        raise UsageError(f"parallel.sequence={size} {problem}")


def why_indivisible(model: Any, size: int) -> str:
    """Why so many ranks cannot share the layers of a model; "" where they can."""
    if size > 1 and not shares_prefix(model):
        return (
            f"cannot be: model_type '{model.config.model_type}' has linear-attention layers, whose state runs from "
            "token to token, so that its sequences cannot be cut; set it to 1"
        )
    heads = model.config.get_text_config().num_attention_heads
    if heads % size:
        possible = ", ".join(str(number) for number in range(1, heads + 1) if heads % number == 0)
        return f"does not divide the {heads} attention heads of this model; take one of {possible}"
    return ""


@torch.compiler.disable(recursive=True)
def _exchange(
    rows: torch.Tensor, sent: Sequence[int], received: Sequence[int], group: dist.ProcessGroup | None
) -> torch.Tensor:
    """[rows, ...] cut into a stretch for each rank -> the stretches that they have for this one, in rank order."""
    return _Exchange.apply(rows, sent, received, group)  # type: ignore[no-any-return]


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, sent: Sequence[int], received: Sequence[int], group: dist.ProcessGroup | None
    ) -> torch.Tensor:
        ctx.sent, ctx.received, ctx.group = sent, received, group
        return _all_to_all(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return _all_to_all(grads[0], ctx.received, ctx.sent, ctx.group), None, None, None


def _all_to_all(
    rows: torch.Tensor, sent: Sequence[int], received: Sequence[int], group: dist.ProcessGroup | None
) -> torch.Tensor:
    got = rows.new_empty(sum(received), *rows.shape[1:])
    try:
        dist.all_to_all_single(got, rows.contiguous(), list(received), list(sent), group=group)
    except RuntimeError as error:
        if not is_of_a_connection(error):
            raise
        own = dist.get_rank()
        others = ", ".join(str(rank) for rank in dist.get_process_group_ranks(group) if rank != own)
        raise RunError(
            f"rank {own} waited in vain for rank {others}, with which it computes a pack (parallel.sequence): "
            f"{str(error).strip().splitlines()[0]}. If one has ended, its own output says why; if one is only slower, "
            "raise parallel.timeout_s"
        ) from error
    return got
