"""What a process holds of a tensor that may be sharded over several, and putting whole numbers there."""

from __future__ import annotations

import torch


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a DTensor, of which each process holds a part or a copy."""
    return hasattr(tensor, "device_mesh")


def local_part(tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...] | None]:
    """The numbers of a tensor that this process holds, and where they begin in the whole; None: they are the whole."""
    if not is_sharded(tensor):
        return tensor.detach(), None
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)  # type: ignore[attr-defined]
    return tensor.to_local().detach(), tuple(offsets)  # type: ignore[attr-defined]


@torch.no_grad()
def part_like(tensor: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """The part of a whole tensor that lies where this process holds its part of another."""
    local, offsets = local_part(tensor)
    assert whole.shape == tensor.shape, f"{list(whole.shape)} into {list(tensor.shape)}"
    if offsets is None:
        return whole
    return whole[tuple(slice(start, start + size) for start, size in zip(offsets, local.shape, strict=True))]


@torch.no_grad()
def fill(tensor: torch.Tensor, whole: torch.Tensor) -> None:
    """Put the numbers of a whole tensor into one that may be sharded."""
    local_part(tensor)[0].copy_(part_like(tensor, whole))
