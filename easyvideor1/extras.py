"""Optional packages: found missing before any work is done, with the command that installs them."""

from __future__ import annotations

import importlib.util

from easyvideor1.errors import UsageError

EXTRAS = {
    "torch": "train",
    "transformers": "train",
    "peft": "lora",
    "openai": "judge",
    "zstandard": "zstd",
    "ray": "ray",
    "torchcodec": "torchcodec",
    "vllm": "vllm",
    "pyarrow": "tables",
    "openpyxl": "tables",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
    "swanlab": "swanlab",
}
"""Package -> the extra of this one that brings it."""


def need(*packages: str, for_what: str) -> None:
    """Make sure that packages are installed; nothing is imported.

    Args:
        for_what: what needs them, the subject of the message ("model.lora", "training").

    Raises:
        UsageError: one is missing.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRAS[package] for package in missing))
        raise UsageError(
            f"{for_what} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: "
            f"pip install 'easyvideor1[{extras}]'"
        )
