"""What a process holds of a tensor that may be sharded over several, and putting whole numbers there."""

from __future__ import annotations

from typing import Any

import torch


def is_sharded(tensor: torch.Tensor) -> bool:
    """Whether it is a DTensor, of which each process holds a part or a copy."""
    return hasattr(tensor, "device_mesh")


def held_part(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor that this process holds: they are changed by changing them."""
    return tensor.to_local().detach() if is_sharded(tensor) else tensor.detach()  # type: ignore[attr-defined] - a DTensor


def zeros_like(tensor: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Zeros of which each process holds the same part as of another tensor."""
    own = torch.zeros_like(held_part(tensor), dtype=dtype)
    if not is_sharded(tensor):
        return own
    from torch.distributed.tensor import DTensor

    sharded: Any = tensor
    return DTensor.from_local(
        own, sharded.device_mesh, sharded.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def summed(value: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The sum of a value over the processes that hold the parts of a sharded tensor; all must come here."""
    import torch.distributed as dist

    mesh = tensor.device_mesh  # type: ignore[attr-defined] - a DTensor
    dist.all_reduce(value, group=mesh.get_group(mesh.ndim - 1))
    return value


def local_part(tensor: torch.Tensor) -> tuple[torch.Tensor, tuple[int, ...] | None]:
    """The numbers of a tensor that this process holds, and where they begin in the whole; None: they are the whole."""
    if not is_sharded(tensor):
        return held_part(tensor), None
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    _, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)  # type: ignore[attr-defined]
    return held_part(tensor), tuple(offsets)


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
    held_part(tensor).copy_(part_like(tensor, whole))
