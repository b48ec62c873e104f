"""A model without its weights, and what each of them is made of in the files of its folder.

Transformers' own loading makes every weight whole on every process. A model that several ranks share is made without
any, cut into the parts of the ranks (`training.sharded`), and then each rank reads its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoConfig, AutoModelForImageTextToText, GenerationConfig, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

from easyvideor1.errors import UsageError
from easyvideor1.model.lora import MARK
from easyvideor1.model.weights import BASE

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
GENERATION = "generation_config.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredAdapters:
    """Adapters that are added into the weights."""

    path: Path
    """A safetensors file."""
    scale: float
    """Factor of the product of their matrices: alpha / rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """The weights of a model on disk."""

    folder: Path
    """In Transformers' layout."""
    adapters: Sequence[StoredAdapters] = ()
    """To be merged in, one after another."""

    @property
    def files(self) -> list[Path]:
        """The safetensors files of the weights.

        Raises:
            UsageError: there are none, or their index cannot be read.
        """
        if (index := self.folder / INDEX).is_file():
            try:
                names = set(json.loads(index.read_bytes())["weight_map"].values())
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                raise UsageError(f"{index}: does not say which file holds which weight: {error}") from None
            return [self.folder / name for name in sorted(names)]
        if (single := self.folder / SINGLE).is_file():
            return [single]
        raise UsageError(
            f"{self.folder}: a model that several ranks share is read from safetensors files, and there is neither "
            f"{SINGLE} nor {INDEX}; load it with Transformers and `save_pretrained` it to get them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What a weight is made of."""

    names: tuple[str, ...]
    """Tensors in the files."""
    convert: Callable[[Sequence[torch.Tensor]], torch.Tensor] | None
    """Makes the weight of them, whole; None: it is the only one, as it is."""


def skeleton(folder: Path, *, dtype: torch.dtype) -> PreTrainedModel:
    """The model of a folder with its weights on the meta device; what it computes by itself (the frequencies of rotary
    positions) is there."""
    with _weights_on_meta():
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        model = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    if (folder / GENERATION).is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    return model.eval()


def origins(model: Any, stored: Iterable[str], *, where: Path) -> dict[str, Origin]:
    """What each weight of a model is made of, by the rules that Transformers loads it with; tied weights once, those of
    new adapters not at all.

    Args:
        stored: names of all tensors in the files.
        where: for errors.

    Raises:
        UsageError: a weight is not there.
    """
    names = _names_of_weights(model)
    own: Mapping[str, Any] = dict.fromkeys((name for same in names.values() for name in same), True)
    transforms = get_model_conversion_mapping(model)
    renamings = [rule for rule in transforms if isinstance(rule, WeightRenaming)]
    converters = [rule for rule in transforms if isinstance(rule, WeightConverter)]
    by_pattern = {pattern: rule for rule in converters for pattern in rule.source_patterns}
    found: dict[str, list[tuple[str, str | None]]] = {}
    for name in sorted(stored, key=dot_natural_key):
        target, pattern = rename_source_key(name, renamings, converters, model.base_model_prefix, dict(own))
        if target not in own and name in own:
            target, pattern = name, None
        if target in own:
            found.setdefault(target, []).append((name, pattern))
    # A checkpoint of this model gets the names that it came with, as after `from_pretrained`.
    model._weight_conversions = [rule for rule in transforms if rule.was_used()]
    made = {}
    for parameter, same in names.items():
        target = next((name for name in same if name in found), None)
        if target is None:
            raise UsageError(f"{where}: the weight {same[0]} is in none of its files; is the folder complete?")
        parts = found[target]
        patterns = {pattern for _, pattern in parts}
        rule = by_pattern[pattern] if (pattern := next(iter(patterns))) is not None else None
        made[parameter] = Origin(
            names=tuple(name for name, _ in parts),
            convert=None if rule is None else _conversion(rule, target, [pattern for _, pattern in parts], model),
        )
    return made


def base_name(name: str) -> str:
    """Name of a weight in the model without adapters."""
    return name.replace(BASE, ".")


def _names_of_weights(model: Any) -> dict[str, list[str]]:
    """Name of each weight -> all names it has without adapters, which are several where it is tied."""
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if MARK not in name:
            names.setdefault(first.setdefault(id(weight), name), []).append(base_name(name))
    return names


def _conversion(
    rule: WeightConverter, target: str, patterns: Sequence[str | None], model: Any
) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    def convert(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        own: Any = deepcopy(rule)
        for pattern, tensor in zip(patterns, tensors, strict=True):
            own.add_tensor(target, target, str(pattern), tensor)
        made: Any = own.convert(target, model=model, config=model.config)[target]
        return made[0] if isinstance(made, list) else made

    return convert


@contextmanager
def _weights_on_meta() -> Iterator[None]:
    """Within the block, parameters of modules lose their numbers as soon as they are set; buffers keep theirs."""

    def emptied(module: nn.Module, name: str, parameter: nn.Parameter | None) -> Any:
        if parameter is None or parameter.is_meta:
            return None  # as it is: a tied weight stays the same object
        return nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)

    handle = register_module_parameter_registration_hook(emptied)
    try:
        yield
    finally:
        handle.remove()
