"""The reference model that a KL term measures distance from: a frozen copy, or the base under the LoRA adapters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

import torch

from easyvideor1.model import lora
from easyvideor1.model.vision import Media
from easyvideor1.training.forward import PackForward
from easyvideor1.training.full_kl import Words
from easyvideor1.training.pack import Pack


class Reference(Protocol):
    def logprobs(self, pack: Pack, media: Mapping[int, Media], *, temperature: float) -> torch.Tensor:
        """[N] float32 log-probs of a pack's response tokens, without gradients."""
        ...

    def words(self, pack: Pack, media: Mapping[int, Media]) -> AbstractContextManager[Words]:
        """What its log-probs of all words are made of, for the time of a block (see `PackForward.words`)."""
        ...


class Frozen:
    """A model of its own that nothing trains, for runs that train all weights."""

    def __init__(self, forward: PackForward) -> None:
        self._forward = forward

    def logprobs(self, pack: Pack, media: Mapping[int, Media], *, temperature: float) -> torch.Tensor:
        with torch.no_grad():
            return self._forward(pack, media, temperature=temperature).logprobs

    def words(self, pack: Pack, media: Mapping[int, Media]) -> AbstractContextManager[Words]:
        return self._forward.words(pack, media)


class UnderAdapters:
    """The model itself with its adapters switched off: needs no second copy of the weights."""

    def __init__(self, forward: PackForward) -> None:
        self._forward = forward

    def logprobs(self, pack: Pack, media: Mapping[int, Media], *, temperature: float) -> torch.Tensor:
        with torch.no_grad(), lora.adapters_off(self._forward.model):
            return self._forward(pack, media, temperature=temperature).logprobs

    @contextmanager
    def words(self, pack: Pack, media: Mapping[int, Media]) -> Iterator[Words]:
        with ExitStack() as stack:
            with lora.adapters_off(self._forward.model):
                words = stack.enter_context(self._forward.words(pack, media))
            yield words


def reference_of(model: Any, *, base: Callable[[], PackForward] | None = None) -> Reference:
    """The reference of a model before its first update.

    Args:
        model: or its forward over packs.
        base: loads the model that the run began with, which nothing trains; None: it is copied from `model`.
    """
    forward = model if isinstance(model, PackForward) else PackForward(model)
    if lora.has_adapters(forward.model):
        return UnderAdapters(forward)
    if base is not None:
        return Frozen(base())
    frozen = copy.deepcopy(forward.model).requires_grad_(False).eval()
    return Frozen(PackForward(frozen, sequence=forward.sequence))
