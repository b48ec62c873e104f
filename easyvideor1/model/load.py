"""Loading a model: the one door to it for training, evaluation and the filter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
        UsageError: its configuration or weights cannot be read, or weights are missing.
    """
    folder = weights or config.path
    with _told(folder):
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=getattr(torch, config.dtype), local_files_only=True, output_loading_info=True
        )
    model, found = loaded
    if missing := sorted(found["missing_keys"]):  # Transformers makes them up at random, and warns
        foreign = next(iter(sorted(found["unexpected_keys"])), None)
        hint = f"they hold {foreign}, which it has not: names of another program?" if foreign else "is it complete?"
        raise UsageError(
            f"model.path={folder}: {len(missing)} weights of the model, {missing[0]} first, are in none of the files "
            f"of this folder; {hint}"
        )
    return prepared(model.to(device()), config)  # type: ignore[arg-type]


@contextmanager
def _told(path: Path | str) -> Iterator[None]:
    """Say which model cannot be read."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError, ImportError) as error:
        lines = str(error).strip().splitlines()
        told = lines[0] if lines else type(error).__name__
        raise UsageError(
            f"model.path={path}: the model cannot be read: {told} (is the folder complete, and of a supported family?)"
        ) from error


def device() -> torch.device:
    """Where models compute."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def require_trainable(folder: Path) -> None:
    """Raise UsageError for a model whose weights are quantized: they cannot be trained, nor stored as they came."""
    try:
        quantized = json.loads((folder / "config.json").read_bytes()).get("quantization_config")
    except (OSError, ValueError, AttributeError):
        return  # whoever reads the model says what is wrong with it
    if quantized:
        kind = (
            quantized.get("quant_method", "of an unknown kind") if isinstance(quantized, dict) else "of an unknown kind"
        )
        raise UsageError(
            f"model.path={folder}: its weights are quantized ({kind}), and training needs them as they were before: "
            "take the model that this one was made from"
        )


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
