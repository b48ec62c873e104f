"""What a plan assumes of a device: its memory and its pace, as its maker states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU, or the main memory and a core of a CPU."""

    memory_bytes: int
    flops: float
    """Dense operations per second in bfloat16 (a CPU: in float32, measured)."""
    bytes_per_s: float
    """Bytes per second that its memory is read at."""
    base_bytes: int
    """What a process holds before it has a model: libraries, kernels, the allocator's reserve."""


def _gpu(memory_gb: float, tflops: float, tb_per_s: float) -> Device:
    return Device(
        memory_bytes=int(memory_gb * 1e9), flops=tflops * 1e12, bytes_per_s=tb_per_s * 1e12, base_bytes=2 * GIB
    )


DEVICES: Mapping[str, Device] = MappingProxyType(
    {
        "h200": _gpu(141, 989, 4.8),
        "h100": _gpu(80, 989, 3.35),
        "a100": _gpu(80, 312, 2.0),
        "a100-40": _gpu(40, 312, 1.55),
        "l40s": _gpu(48, 362, 0.86),
        "rtx4090": _gpu(24, 165, 1.0),
        # A core of a server, and what Python with PyTorch and Transformers takes.
        "cpu": Device(memory_bytes=16 * GIB, flops=20e9, bytes_per_s=10e9, base_bytes=int(0.5 * GIB)),
    }
)
