"""The parts that training, evaluation and the filter are put together from, opened and closed in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
import transformers

from easyvideor1.config import RunConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.data.prepare import Planner, Preparer
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.encoders import encoder_of
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.known_files import known_files
from easyvideor1.video.pool import DecodePool


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The objects that make prompts with pixels out of samples and score responses to them."""

    encoder: Encoder
    prepare: Preparer
    rewards: RewardPool
    question_frames: FrameCache
    """What the media of validation questions are read with."""
    plan: Planner
    """Plans a medium where a file cannot hang this process."""

    @property
    def prepare_question(self) -> Preparer:
        return self.prepare.reading(self.question_frames)


@contextmanager
def opened(config: RunConfig) -> Iterator[Parts]:
    """The parts of a configuration; their processes end with the block."""
    transformers.logging.disable_progress_bar()
    rewards = RewardPool.from_config(
        config.reward, thinking=config.data.thinking, max_response_tokens=config.rollout.max_response_tokens
    )
    with (
        _own_modes(),
        rewards,
        DecodePool(config.data.workers, config.cache.deadline_s, files=known_files(config.cache)) as decoder,
    ):
        encoder = encoder_of(config.model, system=config.data.system)
        prepare = Preparer(
            encoder,
            FrameCache.open(config.cache, decode=decoder.decode),
            video=config.data.video,
            image=config.data.image,
            thinking=config.data.thinking,
            templates=config.data.templates,
            max_prompt_tokens=config.data.max_prompt_tokens,
            dtype=getattr(torch, config.model.dtype),
            plan=decoder.plan,
        )
        yield Parts(
            encoder=encoder,
            prepare=prepare,
            rewards=rewards,
            question_frames=FrameCache.open(config.question_cache, decode=decoder.decode),
            plan=decoder.plan,
        )


@contextmanager
def _own_modes() -> Iterator[None]:
    """The modes of PyTorch that everything here is written for, whatever a notebook switched on before it asked for a
    run: gradients, no automatic mixed precision, tensors in main memory unless it is said where."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield
