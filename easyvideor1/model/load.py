"""Loading a model: the one door to it for training, evaluation and the filter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForImageTextToText, PreTrainedModel

from easyvideor1.config import ModelConfig
from easyvideor1.errors import UsageError
from easyvideor1.model import lora
from easyvideor1.model.families import vision_tower
from easyvideor1.model.skeleton import StoredModel, skeleton


def load_model(config: ModelConfig, *, weights: Path | None = None) -> PreTrainedModel:
    """The model in a folder of Transformers' layout, prepared as configured.

    Args:
        weights: folder of a model of the same shape whose weights to take, such as that of a checkpoint; None: those
            of `config.path`.

    Raises:
        UsageError: its configuration or weights cannot be read.
    """
    with _told(weights or config.path):
        model = AutoModelForImageTextToText.from_pretrained(
            weights or config.path, dtype=getattr(torch, config.dtype), local_files_only=True
        )
    return prepared(model.to(device()), config)  # type: ignore[arg-type]


@contextmanager
def _told(path: Path | str) -> Iterator[None]:
    """Say which model cannot be read."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        lines = str(error).strip().splitlines()
        told = lines[0] if lines else type(error).__name__
        raise UsageError(
            f"model.path={path}: the model cannot be read: {told} (is the folder complete, and of a supported family?)"
        ) from error


def device() -> torch.device:
    """Where models compute."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_skeleton(config: ModelConfig, stored: StoredModel) -> PreTrainedModel:
    """The same without its weights, for several ranks to read their parts of them.

    Raises:
        UsageError: its configuration cannot be read.
    """
    with _told(stored.folder):
        model = skeleton(stored.folder, dtype=getattr(torch, config.dtype))
    return prepared(model, config)


def prepared(model: PreTrainedModel, config: ModelConfig) -> PreTrainedModel:
    """A model with the configured adapters, frozen parts and activation checkpointing."""
    if config.freeze_vision_tower:
        vision_tower(model).requires_grad_(False)
    if config.lora is not None:
        lora.add_adapters(model, config.lora)
    if config.gradient_checkpointing:
        # The new name comes with Transformers 5.24, which warns of the old one; both are within the supported range.
        new_name = "activation_checkpointing_enable"
        enable = getattr(model, new_name if hasattr(model, new_name) else "gradient_checkpointing_enable")
        enable({"use_reentrant": False})
    return model
