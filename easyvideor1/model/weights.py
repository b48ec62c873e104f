"""The weights of a model as a checkpoint of its family holds them, a few tensors at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import torch
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange, revert_weight_conversion

from easyvideor1.model.lora import MARK
from easyvideor1.model.whole import whole

BASE = ".base_layer."
"""Part of the name of a weight that has adapters."""


def checkpoint_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(name in a checkpoint, tensor) of every weight, adapters merged in; tied weights once.

    Names and shapes are those that `save_pretrained` writes and that `from_pretrained` and vLLM read. A tensor is made
    when it is asked for. Those of a sharded model are gathered, a bounded number at once (`model.whole`); all ranks
    must go through them.
    """
    return _as_stored(model, _merged_tensors(model))


def checkpoint_shapes(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The same on the meta device, which are names, shapes and types; it holds no collective."""
    empty = (
        (name, torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")) for name, tensor, _ in _weights(model)
    )
    return _as_stored(model, empty)


@torch.no_grad()
def copy_weights(source: Any, target: Any) -> None:
    """Put the weights of a model, which may be sharded and have adapters, into a plain and whole one of its kind."""
    own = target.state_dict()
    for name, tensor in _merged_tensors(source):
        own[name].copy_(tensor)


def _as_stored(model: Any, tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors under the names, and cut into those, that a checkpoint has."""
    if getattr(model, "_weight_conversions", None) is None:
        # It does not come from files. Transformers would look the rules up in all its modules, for every tensor.
        rules = get_model_conversion_mapping(model, add_legacy=False)
        model._weight_conversions = [rule for rule in rules if not isinstance(rule, PrefixChange)]
    if not model._weight_conversions:
        yield from tensors
        return
    for name, tensor in tensors:
        yield from revert_weight_conversion(model, {name: tensor}).items()


@torch.no_grad()
def _merged_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(name in the model without adapters, whole tensor) of every weight, adapters merged in; tied weights once."""
    weights = list(_weights(model))
    tensors = whole(chain.from_iterable((tensor, *_adapters(layer)) for _, tensor, layer in weights))
    for name, _, layer in weights:
        tensor = next(tensors).detach()
        if layer is not None:
            first, second = next(tensors), next(tensors)
            change = second.float() @ first.float() * layer.scaling["default"]
            tensor = tensor + change.to(tensor.dtype)
        yield name, tensor


def _weights(model: Any) -> Iterator[tuple[str, torch.Tensor, Any]]:
    """(name in the model without adapters, weight, the layer with its adapters or None); tied weights once."""
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if MARK in name or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        layer = model.get_submodule(name.rpartition(BASE)[0]) if BASE in name else None
        yield name.replace(BASE, "."), tensor, layer if name.endswith(".weight") else None


def _adapters(layer: Any) -> tuple[torch.Tensor, ...]:
    """The matrix that reads the layer's input, and the one that writes its output."""
    return () if layer is None else (layer.lora_A["default"].weight, layer.lora_B["default"].weight)
