"""LoRA adapters (arXiv:2106.09685) put into the linear layers of a model in place, by the `peft` library.

The adapters are injected without a wrapper around the model, so that everything that looks into it finds the same
modules with and without them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from easyvideor1.config import LoraConfig
from easyvideor1.errors import UsageError
from easyvideor1.extras import need
from easyvideor1.model.families import is_language_weight
from easyvideor1.model.parts import fill

ADAPTERS = "adapters.safetensors"
MARK = ".lora_"
"""Part of the name of every adapter weight, and of no other."""
FIRST, SECOND = ".lora_A.", ".lora_B."
"""Parts of the names of the matrix that reads a layer's input, and of the one that writes its output."""
SEED = 0
"""Seed of fresh adapters, which are therefore the same in every run."""


def add_adapters(model: Any, config: LoraConfig) -> None:
    """Inject fresh adapters (they change nothing yet) and freeze all other weights.

    Raises:
        UsageError: `peft` is missing, or a target is the name of no layer.
    """
    need("peft", for_what="model.lora")
    import peft

    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=0.0,
        target_modules=_language_targets(model, config),
    )
    with torch.random.fork_rng():
        peft.inject_adapter_in_model(settings, model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(MARK in name)
    if not any(parameter.is_meta for parameter in model.parameters()):
        begin_adapters(model)


def begin_adapters(model: Any) -> None:
    """Give adapters the numbers of fresh ones: uniform in +-1/sqrt(inputs) and 0, as peft does; the same in every run.

    The model may be sharded.
    """
    generator = torch.Generator().manual_seed(SEED)
    for name, tensor in adapters(model).items():
        whole = torch.zeros(tensor.shape)
        if FIRST in name:
            bound = tensor.shape[1] ** -0.5
            whole.uniform_(-bound, bound, generator=generator)
        fill(tensor, whole)


def has_adapters(model: Any) -> bool:
    return any(MARK in name for name, _ in model.named_parameters())


@contextlib.contextmanager
def adapters_off(model: Any) -> Iterator[None]:
    """The base model, for the time of the block."""
    layers = _adapted_layers(model)
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def adapters(model: Any) -> dict[str, torch.Tensor]:
    """The weights of the adapters by name."""
    return {name: tensor for name, tensor in model.state_dict().items() if MARK in name}


def load_adapters(model: Any, folder: Path) -> None:
    """Put stored adapter weights into a model, which may be sharded, that has adapters of the same shape."""
    stored = load_file(folder / ADAPTERS)
    own = adapters(model)
    if own.keys() != stored.keys():
        raise UsageError(f"{folder}: its adapters are not those of model.lora; give the rank and targets of that run")
    for name, tensor in own.items():
        fill(tensor, stored[name])


def merge_adapters(model: Any) -> None:
    """Add the adapters into the weights and take them out: a plain model with the same outputs."""
    for name, module in list(model.named_modules()):
        if hasattr(module, "merge") and hasattr(module, "get_base_layer"):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, module.get_base_layer())
    if hasattr(model, "peft_config"):  # peft's note that there are adapters
        del model.peft_config


def _language_targets(model: Any, config: LoraConfig) -> list[str]:
    """Full names of the language model's layers with one of the target names; the vision tower stays as it is."""
    named = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    layers = [name for name in named if is_language_weight(name)]
    there = sorted({name.split(".")[-1] for name in layers})
    unknown = [target for target in config.targets if target not in there]
    # The usual ones are those of all families; a mixture of experts has no layers of some of these names.
    if unknown and (config.targets != LoraConfig().targets or len(unknown) == len(config.targets)):
        raise UsageError(
            f"model.lora.targets: no layer of the language model is named {', '.join(unknown)}; its layers are "
            f"{', '.join(there)}"
        )
    return [name for name in layers if name.split(".")[-1] in config.targets]


def _adapted_layers(model: Any) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "enable_adapters") and hasattr(module, "lora_A")]
