"""Whole tensors of those that several processes hold parts of, gathered many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import torch

from easyvideor1.model.parts import held_part, is_sharded

GATHER_BYTES = 64 << 20
"""Most bytes of whole tensors that are gathered together: a collective for each small one would cost more than it."""


@torch.no_grad()
def whole(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The same tensors, sharded ones (as `training.sharded` makes them) whole; all ranks must go through them alike.

    Plain ones are passed on as they come. Of sharded ones GATHER_BYTES at most are made ahead, or a single larger one.
    """
    waiting: list[torch.Tensor] = []
    num_bytes = 0
    for tensor in tensors:
        more = tensor.numel() * tensor.element_size() if is_sharded(tensor) else 0
        if waiting and num_bytes + more > GATHER_BYTES:
            yield from _gathered(waiting)
            waiting, num_bytes = [], 0
        if waiting or is_sharded(tensor):
            waiting.append(tensor)
            num_bytes += more
        else:
            yield tensor
    yield from _gathered(waiting)


def _gathered(tensors: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    made = iter(_of_parts([tensor for tensor in tensors if is_sharded(tensor)]))
    for tensor in tensors:
        yield next(made) if is_sharded(tensor) else tensor


def _of_parts(tensors: Sequence[Any]) -> Iterable[torch.Tensor]:
    """Whole tensors, with one collective, of DTensors of one mesh and device that are cut along their first axis."""
    import torch.distributed as dist
    from torch.distributed.tensor import Shard

    if not tensors:
        return ()
    mesh = tensors[0].device_mesh
    for tensor in tensors:
        *copied, cut = tensor.placements
        assert tensor.device_mesh == mesh
        assert cut == Shard(0)
        assert all(place.is_replicate() for place in copied)
    parts = [held_part(tensor) for tensor in tensors]
    num_ranks = mesh.size(-1)
    if num_ranks == 1:
        return parts
    # Every rank has as many rows as the first one, the last ones fewer or none: what is missing is at the end.
    rooms = [-(-len(tensor) // num_ranks) * prod(tensor.shape[1:]) * tensor.element_size() for tensor in tensors]
    *starts, end = accumulate((room + -room % 8 for room in rooms), initial=0)  # a place for numbers of any type
    own = parts[0].new_empty(end, dtype=torch.uint8)
    for start, part in zip(starts, parts, strict=True):
        content = part.contiguous().reshape(-1).view(torch.uint8)
        own[start : start + len(content)] = content
    of_ranks = own.new_empty(num_ranks * len(own))
    dist.all_gather_single(of_ranks, own, group=mesh.get_group(mesh.ndim - 1))
    return (
        of_ranks.view(num_ranks, -1)[:, start : start + room]
        .reshape(-1)[: tensor.numel() * tensor.element_size()]
        .view(tensor.dtype)
        .view(tensor.shape)
        for start, room, tensor in zip(starts, rooms, tensors, strict=True)
    )
