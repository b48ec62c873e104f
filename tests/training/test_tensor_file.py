"""Tensors of checkpoints: any library reads them, and any number of processes reads what any other number wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import xxhash
from safetensors.torch import load_file
from support.on_ranks import results
from support.rank_tensors import SHARED, write_and_read

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


def test_what_two_processes_wrote_is_read_by_two_that_shard_it_another_way_and_by_one(tmp_path: Path) -> None:
    ranks = results(write_and_read, tmp_path)
    with Parts(sorted(tmp_path.glob("*.safetensors"))) as parts:
        for name, tensor in SHARED.items():
            assert all(torch.equal(read[name], tensor) for read in ranks), name
            target = torch.zeros_like(tensor)
            parts.read_into(target, name)
            assert torch.equal(target, tensor), name
