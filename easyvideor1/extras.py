"""Optional packages: found missing before any work is done, with the command that installs them."""

from __future__ import annotations

import importlib.util

from easyvideor1.config import RunConfig
from easyvideor1.errors import UsageError

EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "peft": "lora",
    "openai": "judge",
    "zstandard": "zstd",
    "ray": "ray",
    "torchcodec": "torchcodec",
    "torchao": "torchao",
    "vllm": "vllm",
    "pyarrow": "tables",
    "openpyxl": "tables",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
    "swanlab": "swanlab",
    "mlflow": "mlflow",
}
"""Package -> the extra of this one that brings it."""


def need(*packages: str, for_what: str) -> None:
    """Make sure that packages are installed; nothing is imported.

    Args:
        for_what: what needs them, the subject of the message ("model.lora", "training").

    Raises:
        UsageError: one is missing.
    """
    if "transformers" in packages and need.__doc__ is None:
        raise UsageError(
            f"{for_what}: Transformers reads its own docstrings, which python -OO (PYTHONOPTIMIZE=2) takes away; run "
            "without it"
        )
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRAS[package] for package in missing))
        raise UsageError(
            f"{for_what} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: "
            f"pip install 'easyvideor1[{extras}]'"
        )


def need_extras(config: RunConfig) -> None:
    """Make sure that the optional packages of a configuration are installed; nothing is imported.

    Raises:
        UsageError: one is missing; names the key that needs it.
    """
    wanted = {
        "peft": ("model.lora", config.model.lora is not None),
        "openai": ("reward.judge", config.reward.judge is not None),
        "zstandard": ("cache.codec=zstd", config.cache.codec == "zstd"),
        "vllm": (
            f"rollout.engine={config.rollout.engine}",
            config.rollout.engine == "vllm" or config.rollout.vllm.start_servers > 0,
        ),
        "torchao": ("optimizer.states=8bit", config.optimizer.states == "8bit"),
        "torchcodec": ("data.video.backend=torchcodec", config.data.video.backend == "torchcodec"),
    }
    wanted |= {name: (f"trackers: [{name}]", True) for name in config.trackers}
    for package, (key, is_wanted) in wanted.items():
        if is_wanted:
            need(package, for_what=key)
