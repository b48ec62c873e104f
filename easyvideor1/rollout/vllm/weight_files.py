"""Weights as safetensors files of a folder, written tensor by tensor."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

FILE_BYTES = 2 << 30
"""A file is closed when it holds more: what of the weights is in memory beside the model's own."""


def write_weights(tensors: Iterable[tuple[str, torch.Tensor]], folder: Path, *, file_bytes: int = FILE_BYTES) -> Path:
    """The folder, complete or not there at all."""
    unfinished = folder.with_name(folder.name + ".part")
    for old in (unfinished, folder):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    held: dict[str, torch.Tensor] = {}
    num_bytes = num_files = 0
    for name, tensor in tensors:
        held[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        num_bytes += tensor.nbytes
        if num_bytes > file_bytes:
            save_file(held, unfinished / f"model-{num_files:05d}.safetensors")
            held, num_bytes, num_files = {}, 0, num_files + 1
    if held:
        save_file(held, unfinished / f"model-{num_files:05d}.safetensors")
    return unfinished.rename(folder)


def read_weights(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of every weight, one at a time."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - it is no dictionary
                yield name, tensors.get_tensor(name)
