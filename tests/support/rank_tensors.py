"""Tensors that two ranks hold parts of, for tests/training/test_tensor_file.py and tests/model/test_whole.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from easyvideor1.model import whole as gathering
from easyvideor1.model.whole import whole
from easyvideor1.training.ranks import joined
from easyvideor1.training.tensor_file import Parts, part_of, write_parts

SHARED = {"rows": torch.arange(35.0).reshape(7, 5), "columns": torch.arange(12.0).reshape(3, 4), "few": torch.ones(1)}


def write_and_read(folder: Path) -> dict[str, torch.Tensor]:
    """Each rank writes its parts of SHARED and reads those of tensors that are cut another way; they are returned whole
    by PyTorch's own gathering."""
    with joined(timeout_s=60) as ranks:
        mesh = init_device_mesh("cpu", (ranks.size,))
        cut = {"rows": 0, "columns": 1, "few": 0}
        sharded = {name: distribute_tensor(SHARED[name], mesh, [Shard(axis)]) for name, axis in cut.items()}
        parts = {name: part_of(tensor) for name, tensor in sharded.items()}
        write_parts(folder / f"{ranks.rank}.safetensors", parts)
        dist.barrier()
        found = {}
        with Parts(sorted(folder.glob("*.safetensors"))) as stored:
            for name, axis in {"rows": 1, "columns": 0, "few": 0}.items():
                target = distribute_tensor(torch.zeros_like(SHARED[name]), mesh, [Shard(axis)])
                stored.read_into(target, name)
                found[name] = target.full_tensor()
        return found


def tensors() -> list[torch.Tensor]:
    """Of several types; cut in two, their parts are as large, not as large, and empty."""
    return [
        torch.arange(12.0).reshape(4, 3),
        torch.arange(15, dtype=torch.bfloat16).reshape(5, 3),
        torch.tensor([True]),
        torch.arange(7),
        torch.zeros(0, 3),
        torch.arange(24, dtype=torch.uint8).reshape(3, 2, 4),
        torch.arange(101.0),
    ]


def gathered() -> dict[str, list[torch.Tensor]]:
    """What a rank gets of `tensors`, cut over all ranks or only copied, with plain ones between them."""
    with joined(timeout_s=60) as ranks:
        kinds = {
            "cut": (init_device_mesh("cpu", (ranks.size,)), [Shard(0)]),
            "cut within machines": (init_device_mesh("cpu", (1, ranks.size)), [Replicate(), Shard(0)]),
            "copied": (init_device_mesh("cpu", (ranks.size, 1)), [Replicate(), Shard(0)]),
        }
        found = {name: list(whole(_sharded(mesh, places))) for name, (mesh, places) in kinds.items()}
        gathering.GATHER_BYTES = 64  # several collectives, and one of a tensor that is larger
        found["few at once"] = list(whole(_sharded(*kinds["cut"])))
        return found


def _sharded(mesh: Any, places: Any) -> Iterable[torch.Tensor]:
    for number, tensor in enumerate(tensors()):
        yield tensor if number in (0, 3) else distribute_tensor(tensor, mesh, places)
