"""Tensors of checkpoints: any library reads them, and any number of processes reads what any other number wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import xxhash
from safetensors.torch import load_file

from easyvideor1.errors import RunError
from easyvideor1.training.tensor_file import Parts, part_of, write_parts


def tensors() -> dict[str, torch.Tensor]:
    return {
        "a": torch.arange(12, dtype=torch.float32).reshape(3, 4).t(),  # not contiguous
        "b": torch.tensor(3.5),
        "c": torch.arange(5, dtype=torch.bfloat16),
        "empty": torch.zeros(0, 3),
        "flags": torch.tensor([True, False, True]),
    }


def test_a_file_is_plain_safetensors_and_its_checksum_is_that_of_its_bytes(tmp_path: Path) -> None:
    written = write_parts(tmp_path / "x", {name: part_of(tensor) for name, tensor in tensors().items()})
    content = (tmp_path / "x").read_bytes()
    assert (written.num_bytes, written.digest) == (len(content), xxhash.xxh3_128_hexdigest(content))
    found = load_file(tmp_path / "x")
    assert found.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_what_is_read_into_another_shape_or_is_not_there_is_named(tmp_path: Path) -> None:
    write_parts(tmp_path / "x", {name: part_of(tensor) for name, tensor in tensors().items()})
    with Parts([tmp_path / "x"]) as parts:
        target = torch.zeros(4, 3)
        parts.read_into(target, "a")
        assert torch.equal(target, tensors()["a"])
        with pytest.raises(RunError, match=r"a has the shape \[4, 3\] on disk, and \[3, 4\] here"):
            parts.read_into(torch.zeros(3, 4), "a")
        with pytest.raises(RunError, match="nothing: 0 of 2 numbers are on disk"):
            parts.read_into(torch.zeros(2), "nothing")
    (tmp_path / "broken").write_bytes(b"no tensors")
    with pytest.raises(RunError, match="no file of tensors"):
        Parts([tmp_path / "broken"])


SHARDED = """
import sys, torch
import torch.distributed as dist
from pathlib import Path
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from easyvideor1.training.tensor_file import Parts, part_of, write_parts
rank, folder = int(sys.argv[1]), Path(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
whole = {"rows": torch.arange(35.0).reshape(7, 5), "columns": torch.arange(12.0).reshape(3, 4), "few": torch.ones(1)}
places = {"rows": Shard(0), "columns": Shard(1), "few": Shard(0)}
sharded = {name: distribute_tensor(tensor, mesh, [places[name]]) for name, tensor in whole.items()}
write_parts(folder / f"{rank}.safetensors", {name: part_of(tensor) for name, tensor in sharded.items()})
dist.barrier()
with Parts(sorted(folder.glob("*.safetensors"))) as parts:
    for name, other in (("rows", Shard(1)), ("columns", Shard(0)), ("few", Shard(0))):  # cut another way
        target = distribute_tensor(torch.zeros_like(whole[name]), mesh, [other])
        parts.read_into(target, name)
        assert torch.equal(target.full_tensor(), whole[name]), name
dist.destroy_process_group()
"""


def test_what_two_processes_wrote_is_read_by_two_that_shard_it_another_way_and_by_one(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    ranks = [
        subprocess.Popen([sys.executable, "-c", SHARDED, str(rank), str(tmp_path)], env=environment)
        for rank in range(2)
    ]
    assert [rank.wait(250) for rank in ranks] == [0, 0]
    with Parts(sorted(tmp_path.glob("*.safetensors"))) as parts:
        for name, tensor in {"rows": torch.arange(35.0).reshape(7, 5), "few": torch.ones(1)}.items():
            target = torch.zeros_like(tensor)
            parts.read_into(target, name)
            assert torch.equal(target, tensor), name
