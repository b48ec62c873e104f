"""What a device can do at most, to say how much of it an update uses."""

from __future__ import annotations

import torch

FLOPS_PER_MULTIPLICATION = 6
"""Forward 2 (multiply, add) and backward 4: how model FLOPs are counted (PaLM, arXiv:2204.02311, appendix B); what is
computed a second time to save memory does not count."""
BFLOAT16_TFLOPS = {
    "B200": 2250.0, "H200": 989.0, "H100 PCIe": 756.0, "H100": 989.0, "H800": 989.0, "H20": 148.0, "A100": 312.0,
    "A800": 312.0, "L40S": 362.0, "RTX 4090": 165.0,
}  # fmt: skip
"""Part of a device's name -> dense bfloat16 TFLOP/s by its data sheet; the first that fits counts."""


def peak_tflops(name: str, dtype: torch.dtype) -> float | None:
    """Peak TFLOP/s of a device by its name; None where it is not known, or for another type of numbers.

    >>> peak_tflops("NVIDIA H200", torch.bfloat16), peak_tflops("NVIDIA H200", torch.float32)
    (989.0, None)
    """
    if dtype != torch.bfloat16:
        return None
    return next((peak for part, peak in BFLOAT16_TFLOPS.items() if part in name), None)


def used_values(
    multiplications: int, *, wall_s: float, num_devices: int, device: torch.device, dtype: torch.dtype
) -> dict[str, float]:
    """Metrics of an update: model FLOPs per second of all devices, their share of the peak, memory of this device.

    Args:
        multiplications: of one forward over everything that trains, on all devices, times the passes.
    """
    tflops = FLOPS_PER_MULTIPLICATION * multiplications / max(wall_s, 1e-9) / 1e12
    values = {"update/tflops_per_s": tflops}
    if device.type == "cuda":
        values["device/memory_max_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        peak = peak_tflops(torch.cuda.get_device_name(device), dtype)
        if peak is not None:
            values["update/mfu_frac"] = tflops / (num_devices * peak)
    return values
