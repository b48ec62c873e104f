"""An engine by vLLM in the process of the trainer: asleep while the actor learns, weights handed over in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.vllm.pump import Core, Pump, request_tokens
from easyvideor1.types import Rollout

if TYPE_CHECKING:
    import torch


class VLLMEngine:
    """See rollout.engine.Engine. Responses are a function of their request as far as rounding in batches allows."""

    def __init__(self, core: Core, pump: Pump, *, tokens_per_batch: int) -> None:
        """
        Args:
            pump: over the same core.
            tokens_per_batch: see `pump.request_tokens`; bounds what is asked at once. vLLM has a bound of its own on
                what it computes at once.
        """
        self._core, self._pump = core, pump
        self._tokens_per_batch = tokens_per_batch
        self._is_awake = True
        self._sleep()

    @property
    def banned_hits(self) -> int:
        return self._pump.banned_hits

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        self._wake()
        try:
            yield
        finally:
            self._sleep()

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        assert self._is_awake, "generate within `with engine.awake():`"
        pump, waiting = self._pump, enumerate(requests)
        head = next(waiting, None)
        try:
            while head is not None or len(pump):
                while head is not None and self._has_room(head[1]):
                    pump.add(*head)
                    head = next(waiting, None)
                yield from pump.turn()
        finally:
            pump.drop_all()

    def load_weights(self, tensors: Iterable[tuple[str, torch.Tensor]], *, version: int) -> None:
        self._wake()
        try:
            self._core.load(tensors)
        finally:
            self._sleep()
        self._pump.version = version

    def _has_room(self, request: Request) -> bool:
        return not len(self._pump) or self._pump.num_tokens + request_tokens(request) <= self._tokens_per_batch

    def _wake(self) -> None:
        if not self._is_awake:
            self._core.wake()
            self._is_awake = True

    def _sleep(self) -> None:
        if self._is_awake:
            self._core.sleep()
            self._is_awake = False
