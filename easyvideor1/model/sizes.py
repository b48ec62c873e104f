"""How large a model is, from its config.json alone: no weight is read or made."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from easyvideor1.config import LoraConfig, ModelConfig
from easyvideor1.errors import UsageError
from easyvideor1.model import lora
from easyvideor1.model.families import language_model, layer_kinds, vision_tower

PUBLISHED = Path(__file__).parent / "published"
"""The sizes in the config.json of published models, by family and size. The number of weights they lead to is that of
the published files."""


def config_file(path: str) -> Path:
    """The config.json of a model folder; where there is none, that of the published model of that name.

    >>> config_file("models/Qwen3-VL-8B-Instruct").name
    'qwen3_vl_8b.json'

    Raises:
        UsageError: neither is there.
    """
    file = Path(path) / "config.json"
    if file.is_file():
        return file
    name = re.sub(r"[^a-z0-9]+", "_", Path(path).name.lower())
    known = sorted(PUBLISHED.glob("*.json"))
    for published in known:
        if name == published.stem or name.startswith(published.stem + "_"):
            return published
    raise UsageError(
        f"model.path={path}: no config.json there, and its sizes are not among those that are known by name "
        f"({', '.join(item.stem for item in known)}); give a folder with the model's config.json"
    )


def model_without_weights(config: ModelConfig) -> Any:
    """The configured model, adapters included, on PyTorch's meta device: shapes without memory.

    Equal configurations share one model, which is to be looked at only.

    Raises:
        UsageError: its config.json cannot be read.
    """
    file = config_file(config.path)
    try:
        return _made(
            file.read_text(), dtype=config.dtype, freeze_vision_tower=config.freeze_vision_tower, adapters=config.lora
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: no model can be made of it: {type(error).__name__}: {error}") from error


@lru_cache(maxsize=8)
def _made(text: str, *, dtype: str, freeze_vision_tower: bool, adapters: LoraConfig | None) -> Any:
    """The model of the text of a config.json: a plan asks for the same few again and again, and adapters for a large
    one take a second."""
    values = json.loads(text)
    settings = AutoConfig.for_model(values.pop("model_type"), **values)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(settings, dtype=getattr(torch, dtype))
        model.tie_weights()
        if freeze_vision_tower:
            vision_tower(model).requires_grad_(False)
        if adapters is not None:
            lora.add_adapters(model, adapters)
    return model


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of weights and widths of layers."""

    weights: int
    """All of them, adapters left out, tied ones once."""
    trained: int
    adapters: int
    root: int
    """Weights of the embeddings and the output layer."""
    largest_layer: int
    """Weights of the largest text layer."""
    layers: int
    attention_layers: int
    """Text layers that keep keys and values of every token."""
    hidden: int
    inner: int
    """Width of the MLP that a token goes through; with experts, of those that it uses."""
    query: int
    """Heads x their width."""
    key: int
    """The same of keys, and of values."""
    vocabulary: int
    tower_layers: int
    tower_hidden: int
    tower_inner: int
    mergers: int
    """Mergers of the vision tower: the last one, and those of DeepStack."""
    patch_values: int
    patches_per_token: int


def sizes_of(model: Any) -> Sizes:
    """The sizes of a model, with or without weights."""
    text, vision = model.config.get_text_config(), model.config.vision_config
    named = dict(model.named_parameters())  # a tied weight has one name
    layers = list(language_model(model).layers)
    root = {id(weight): weight for weight in (model.get_input_embeddings().weight, model.lm_head.weight)}
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    used = getattr(text, "num_experts_per_tok", None)
    return Sizes(
        weights=sum(weight.numel() for name, weight in named.items() if lora.MARK not in name),
        trained=sum(weight.numel() for weight in named.values() if weight.requires_grad),
        adapters=sum(weight.numel() for name, weight in named.items() if lora.MARK in name),
        root=sum(weight.numel() for weight in root.values()),
        largest_layer=max(sum(weight.numel() for weight in layer.parameters()) for layer in layers),
        layers=len(layers),
        attention_layers=layer_kinds(model).count("full_attention"),
        hidden=text.hidden_size,
        inner=used * text.moe_intermediate_size if used else text.intermediate_size,
        query=text.num_attention_heads * head_dim,
        key=text.num_key_value_heads * head_dim,
        vocabulary=model.lm_head.weight.shape[0],
        tower_layers=vision.depth,
        tower_hidden=getattr(vision, "embed_dim", None) or vision.hidden_size,
        tower_inner=getattr(vision, "intermediate_size", None) or 4 * vision.embed_dim,
        mergers=1 + len(getattr(vision, "deepstack_visual_indexes", None) or ()),
        patch_values=getattr(vision, "in_channels", 3) * vision.temporal_patch_size * vision.patch_size**2,
        patches_per_token=vision.spatial_merge_size**2,
    )
