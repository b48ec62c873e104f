"""The reference model that a KL term measures distance from: a frozen model, or the base under the LoRA adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class Frozen:
    """A model of its own that nothing trains, for runs that train all weights."""

    def __init__(self, model: Any) -> None:
        self._model = model.requires_grad_(False).eval()

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


def reference_of(model: Any, *, base: Callable[[], Any]) -> Reference:
    """The reference of a model that trains.

    Args:
        base: loads the model that the run began with, ready for packs; only where it is no part of `model`.
    """
    return UnderAdapters(model) if lora.has_adapters(model) else Frozen(base())
