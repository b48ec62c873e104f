"""An engine by vLLM in the process of the trainer: asleep while the actor learns, weights handed over in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from easyvideor1.config import RunConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.rollout.engine import Request
from easyvideor1.rollout.vllm.arguments import Among, check_one_gpu
from easyvideor1.rollout.vllm.contract import kind_for
from easyvideor1.rollout.vllm.core import VLLMCore
from easyvideor1.rollout.vllm.pump import Core, Pump, Queue, request_tokens
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

    @property
    def needs_still_actor(self) -> bool:
        return True  # it sleeps while the actor learns

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        self._wake()
        try:
            yield
        finally:
            self._sleep()

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        assert self._is_awake, "generate within `with engine.awake():`"
        pump, queue = self._pump, Queue(requests)
        try:
            while not queue.is_over or len(pump):
                while queue.head is not None and self._has_room(queue.head):
                    pump.add(*queue.take())
                yield from pump.turn()
                queue.ask_again()
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


def open_core(
    config: RunConfig, encoder: Encoder, *, folder: Path, sleeps: bool, among_ranks: Among | None = None
) -> tuple[VLLMCore, Pump]:
    """vLLM's engine for a recipe, with the pump over it.

    Args:
        folder: the model, in Transformers' format.
        among_ranks: see VLLMCore.

    Raises:
        UsageError: vLLM is missing, untested in this version, or refuses the recipe.
    """
    check_one_gpu(config.rollout.vllm.engine_args)
    rollout, kind = config.rollout, kind_for(config.rollout.temperature)
    core = VLLMCore(
        folder,
        encoder,
        kind=kind,
        dtype=config.model.dtype,
        max_model_tokens=config.data.max_prompt_tokens + rollout.max_response_tokens,
        seed=config.seed,
        sleeps=sleeps,
        engine_args=rollout.vllm.engine_args,
        among_ranks=among_ranks,
    )
    pump = Pump(
        core,
        kind=kind,
        end_ids=encoder.end_ids,
        banned_ids=encoder.banned_ids,
        text_of=encoder.response_text,
        seeded=rollout.vllm.seeded,
        deadline_s=rollout.vllm.deadline_s,
    )
    return core, pump


def colocated_engine(
    config: RunConfig, encoder: Encoder, *, folder: Path, among_ranks: Among | None = None
) -> VLLMEngine:
    """An engine for a recipe; of several ranks each has one, and all make theirs at once."""
    core, pump = open_core(config, encoder, folder=folder, sleeps=True, among_ranks=among_ranks)
    return VLLMEngine(core, pump, tokens_per_batch=config.rollout.tokens_per_batch)
