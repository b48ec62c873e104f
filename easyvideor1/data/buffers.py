"""Memory for large tensors, used again when the tensors before are gone.

Fresh memory costs more than filling it: the kernel hands it out page by page, zeroed, and takes it back when it is
freed. A step of training needs the same few large tensors as the step before.
"""

from __future__ import annotations

import math
import weakref

import numpy as np
import torch

LEAST_BYTES = 1 << 20
"""Smallest tensor that is kept; smaller ones are cheap to make anew."""
MOST_FREE_BYTES = 4 << 30
"""Most memory that is kept for later; it was in use at one time before."""
MOST_WASTE = 2
"""A buffer of up to this many times the wanted size is taken."""


class BufferPool:
    """Buffers that are free. One comes back where its last tensor dies, in any thread: nothing here locks."""

    def __init__(self, most_free_bytes: int = MOST_FREE_BYTES) -> None:
        self._most_free_bytes = most_free_bytes
        self._free: dict[int, np.ndarray] = {}

    @property
    def free_bytes(self) -> int:
        return sum(buffer.nbytes for buffer in list(self._free.values()))

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Unfilled tensor; its memory is free again when it and every view of it are gone."""
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes < LEAST_BYTES:
            return torch.empty(shape, dtype=dtype)
        buffer = self._take(num_bytes)
        content = buffer[:num_bytes]  # held by the tensor's storage alone, so it dies with the last view
        weakref.finalize(content, self._give_back, buffer).atexit = False
        return torch.from_numpy(content).view(dtype).view(shape)

    def _take(self, num_bytes: int) -> np.ndarray:
        sizes = {key: buffer.nbytes for key, buffer in list(self._free.items())}
        for key in sorted(sizes, key=lambda key: sizes[key]):
            if num_bytes <= sizes[key] <= MOST_WASTE * num_bytes:
                buffer = self._free.pop(key, None)  # None: another thread was faster
                if buffer is not None:
                    return buffer
        return np.empty(num_bytes, np.uint8)  # NumPy asks for huge pages: half the cost of torch's memory

    def _give_back(self, buffer: np.ndarray) -> None:
        self._free[id(buffer)] = buffer
        while self.free_bytes > self._most_free_bytes:
            self._free.pop(next(iter(self._free)), None)
