"""The reference model that a KL term measures distance from: a frozen copy, or the base under the LoRA adapters."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from easyvideor1.model import lora
from easyvideor1.model.vision import Media
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import Pack


class Reference(Protocol):
    def logprobs(self, pack: Pack, media: Mapping[int, Media], *, temperature: float) -> torch.Tensor:
        """[N] float32 log-probs of a pack's response tokens, without gradients."""
        ...


class FrozenCopy:
    """A copy of the model as it is now, for runs that train all weights."""

    def __init__(self, model: Any) -> None:
        self._model = copy.deepcopy(model).requires_grad_(False).eval()

    def logprobs(self, pack: Pack, media: Mapping[int, Media], *, temperature: float) -> torch.Tensor:
        with torch.no_grad():
            return response_logprobs(self._model, pack, media, temperature=temperature)[0]


class UnderAdapters:
    """The model itself with its adapters switched off: needs no second copy of the weights."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def logprobs(self, pack: Pack, media: Mapping[int, Media], *, temperature: float) -> torch.Tensor:
        with torch.no_grad(), lora.adapters_off(self._model):
            return response_logprobs(self._model, pack, media, temperature=temperature)[0]


def reference_of(model: Any) -> Reference:
    """The reference of a model before its first update."""
    return UnderAdapters(model) if lora.has_adapters(model) else FrozenCopy(model)
