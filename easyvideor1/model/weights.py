"""The weights of a model as a checkpoint of its family holds them, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from transformers.core_model_loading import revert_weight_conversion

from easyvideor1.model.lora import MARK

BASE = ".base_layer."
"""Part of the name of a weight that has adapters."""


def checkpoint_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(name in a checkpoint, tensor) of every weight, adapters merged in; tied weights once.

    A tensor is made when it is asked for, so at most one that is not the model's own is in memory. Names and shapes are
    those that `save_pretrained` writes and that `from_pretrained` and vLLM read. Those of a sharded model are sharded.
    """
    for name, tensor in _merged_tensors(model):
        yield from revert_weight_conversion(model, {name: tensor}).items()


def full_tensors(tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    """The same with sharded tensors gathered, one at a time; all ranks must go through them."""
    for name, tensor in tensors:
        gather = getattr(tensor, "full_tensor", None)
        yield name, gather() if gather else tensor


@torch.no_grad()
def copy_weights(source: Any, target: Any) -> None:
    """Put the weights of a model, which may be sharded and have adapters, into a plain and whole one of its kind."""
    own = target.state_dict()
    for name, tensor in full_tensors(_merged_tensors(source)):
        own[name].copy_(tensor)


@torch.no_grad()
def _merged_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(name in the model without adapters, tensor) of every weight, adapters merged in; tied weights once."""
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if MARK in name or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if BASE in name:
            layer = model.get_submodule(name.rpartition(BASE)[0])
            if name.endswith(".weight"):
                tensor = tensor + layer.get_delta_weight("default").to(tensor.dtype)
            name = name.replace(BASE, ".")
        yield name, tensor.detach()
