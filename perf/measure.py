"""CPU time, wall time and peak memory of one call, in the process that makes it."""

from __future__ import annotations

import ctypes
import gc
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Measure(Generic[Value]):
    """What a call gave and what it cost."""

    value: Value
    cpu_s: float
    """Of all threads of the process."""
    wall_s: float
    peak_bytes: int
    """Most memory held at once during the call, above what was held before it."""


def measured(call: Callable[[], Value]) -> Measure[Value]:
    """Make the call (Linux only: the kernel's high-water mark is reset first)."""
    Path("/proc/self/clear_refs").write_text("5")
    held = _status_bytes("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    cpu_s, wall_s = time.process_time() - cpu, time.perf_counter() - wall
    return Measure(value=value, cpu_s=cpu_s, wall_s=wall_s, peak_bytes=max(0, _status_bytes("VmHWM") - held))


def return_freed_memory_at_once() -> None:
    """From here on, give every freed block of 1 MiB or more back to the system: slow, with exact peaks (glibc only)."""
    m_mmap_threshold = -3  # malloc.h
    ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 20)


def release_memory() -> None:
    """Give freed memory back to the system, so that what is held before a call is what is in use (glibc only)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def _status_bytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
