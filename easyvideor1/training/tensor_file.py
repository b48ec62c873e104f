"""Tensors of a checkpoint on disk: safetensors files written and read one tensor at a time, whole or in parts.

A tensor that is sharded over processes is written by each of them as the part it holds; the file says where in the
whole tensor that part lies, so that any number of processes can read it back (`Parts`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
import xxhash
from safetensors import SafetensorError, safe_open

from easyvideor1.errors import RunError
from easyvideor1.model.parts import local_part

WRITE_BYTES = 64 << 20
"""Written and added to the checksum at once."""
OFFSETS = "offsets"
"""Key of a file's notes: JSON of name -> where in the whole tensor its part begins, for those that are in parts."""
NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Names of dtypes in safetensors files."""


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a file holds, by its writer."""

    num_bytes: int
    digest: str
    """xxh3-128 of its bytes, in hex."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What this process holds of a tensor."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...] | None
    """Where it begins in the whole tensor; None: it is the whole."""
    dtype: torch.dtype
    content: Callable[[], torch.Tensor]
    """Makes the tensor, when it is its turn to be written."""

    @property
    def num_bytes(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count * self.dtype.itemsize


def part_of(tensor: torch.Tensor) -> Part:
    """What this process holds of a tensor, sharded (DTensor) or not."""
    local, offsets = local_part(tensor)
    return Part(shape=tuple(local.shape), offsets=offsets, dtype=local.dtype, content=lambda: local)


def whole_of(tensor: torch.Tensor) -> Part:
    """The whole of a tensor that is not made yet, or sharded: its content has to be given later."""
    return Part(shape=tuple(tensor.shape), offsets=None, dtype=tensor.dtype, content=_unmade)


def write_parts(path: Path, parts: Mapping[str, Part]) -> Written:
    """Write a safetensors file; one tensor that is not in main memory yet is fetched at a time.

    Raises:
        OSError: it cannot be written.
    """
    notes = {"format": "pt"}
    if offsets := {name: part.offsets for name, part in parts.items() if part.offsets is not None}:
        notes[OFFSETS] = json.dumps(offsets)
    header: dict[str, Any] = {"__metadata__": notes}
    place = 0
    for name, part in parts.items():
        end = place + part.num_bytes
        header[name] = {"dtype": NAMES[part.dtype], "shape": list(part.shape), "data_offsets": [place, end]}
        place = end
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)  # the data begins at a multiple of 8
    digest = xxhash.xxh3_128()
    with path.open("wb") as file:
        for content in (struct.pack("<Q", len(head)), head, *map(_content, parts.values())):
            view = memoryview(content)
            for start in range(0, len(view), WRITE_BYTES):
                piece = view[start : start + WRITE_BYTES]
                file.write(piece)
                digest.update(piece)
        num_bytes = file.tell()
    return Written(num_bytes=num_bytes, digest=digest.hexdigest())


class Parts:
    """Tensors in one or several files, whole or in parts, looked up by name; use it as a context manager."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """
        Raises:
            RunError: a file is no safetensors file.
        """
        self._stack = ExitStack()
        self._places: dict[str, dict[tuple[int, ...] | None, Any]] = {}
        """Name -> where a part begins -> the file that holds it; processes that hold the same wrote the same."""
        for path in paths:
            try:
                file = self._stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise RunError(f"{path}: no file of tensors: {error}") from error
            offsets = json.loads((file.metadata() or {}).get(OFFSETS, "{}"))
            for name in file.keys():  # noqa: SIM118 - an object of the library, no mapping
                begin = tuple(offsets[name]) if name in offsets else None
                self._places.setdefault(name, {})[begin] = file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def whole(self, name: str) -> torch.Tensor:
        """A tensor that is stored whole.

        Raises:
            RunError: it is not there.
        """
        file = self._places.get(name, {}).get(None)
        if file is None:
            raise RunError(f"{name} is not on disk, or not as a whole")
        return file.get_tensor(name)

    @torch.no_grad()
    def read_into(self, tensor: torch.Tensor, name: str) -> None:
        """Fill a tensor, or the part of it that this process holds, wherever it lies.

        Raises:
            RunError: it is not there, not all of it is, or its shape is another.
        """
        local, offsets = local_part(tensor)
        begin = offsets or (0,) * local.ndim
        num_read = 0
        for part_begin, file in self._places.get(name, {}).items():
            part = file.get_slice(name)
            shape = part.get_shape()
            if len(shape) != local.ndim or (part_begin is None and tuple(shape) != tuple(tensor.shape)):
                raise RunError(f"{name} has the shape {list(shape)} on disk, and {list(tensor.shape)} here")
            found = _overlap(begin, local.shape, part_begin or (0,) * local.ndim, shape)
            if found is None:
                continue
            here, there = found
            stored = part[there] if there else file.get_tensor(name)  # a slice of a scalar cannot be asked for
            local[here].copy_(stored)
            num_read += stored.numel()
        if num_read != local.numel():
            raise RunError(f"{name}: {num_read} of {local.numel()} numbers are on disk")


def _unmade() -> torch.Tensor:
    raise AssertionError("the content of a whole tensor comes in its turn")


def _content(part: Part) -> memoryview:
    tensor = part.content().detach().to("cpu").contiguous()
    array: Any = tensor.reshape(-1).view(torch.uint8).numpy()
    return memoryview(array)


def _overlap(
    begin: Sequence[int], shape: Sequence[int], other_begin: Sequence[int], other_shape: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Where two boxes of one tensor overlap, counted in each; None: nowhere."""
    here, there = [], []
    for start, size, other_start, other_size in zip(begin, shape, other_begin, other_shape, strict=True):
        low, high = max(start, other_start), min(start + size, other_start + other_size)
        if low >= high:
            return None
        here.append(slice(low - start, high - start))
        there.append(slice(low - other_start, high - other_start))
    return tuple(here), tuple(there)
