"""The step from a Sample to an Example: prompt, frames and patches, each made once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from easyvideor1.data.encode import Encoder
from easyvideor1.data.prompts import instruction
from easyvideor1.data.vision_inputs import media_inputs
from easyvideor1.errors import DataError
from easyvideor1.types import Clip, Example, FrameSpec, Media, MediaPlan, Prompt, Sample, VisionSpec
from easyvideor1.video.sampling import plan_media

if TYPE_CHECKING:
    import torch


Planner = Callable[[Media, FrameSpec, VisionSpec], MediaPlan]
"""`plan_media`, or the same where a file cannot hang this process (`DecodePool.plan`)."""


class ClipSource(Protocol):
    """The source of frames: the frame cache, or a stand-in in tests."""

    def load(self, plan: MediaPlan) -> Clip: ...


class Preparer:
    """Makes Examples out of Samples; the only place that does, so every stage sees the same ids and pixels."""

    def __init__(
        self,
        encoder: Encoder,
        clips: ClipSource,
        *,
        video: FrameSpec,
        image: FrameSpec,
        thinking: bool,
        max_prompt_tokens: int,
        dtype: torch.dtype,
        templates: str | None = None,
        plan: Planner = plan_media,
    ) -> None:
        self.encoder = encoder
        self._plan = plan
        self._clips = clips
        self._specs = {"video": video, "image": image}
        self._thinking, self._templates = thinking, templates
        self._max_prompt_tokens = max_prompt_tokens
        self.check_plan: Callable[[MediaPlan], object] = lambda plan: None
        """Sees every plan, and may refuse it."""
        self._dtype = dtype

    def prompt(self, sample: Sample) -> Prompt:
        """The encoded prompt; nothing is decoded.

        Raises:
            DataError: unreadable media, tags that do not match them, or a prompt over the limit.
        """
        plans = [self._plan(media, self._specs[media.kind], self.encoder.vision) for media in sample.media]
        for plan in plans:
            self.check_plan(plan)
        text = instruction(sample, thinking=self._thinking, templates=self._templates)
        prompt = self.encoder.encode(sample, plans, text)
        if len(prompt) > self._max_prompt_tokens:
            vision = sum(plan.num_tokens for plan in plans)
            raise DataError(
                f"sample {sample.id}: the prompt has {len(prompt)} tokens ({vision} of them vision), the limit is "
                f"{self._max_prompt_tokens}",
                where=sample.where,
                remedy="lower data.video.max_frames or max_pixels, or raise data.max_prompt_tokens",
            )
        return prompt

    def clips(self, prompt: Prompt) -> tuple[Clip, ...]:
        return tuple(self._clips.load(plan) for plan in prompt.plans)

    def reading(self, clips: ClipSource) -> Preparer:
        """The same, with clips from elsewhere."""
        other = copy.copy(self)
        other._clips = clips
        return other

    def num_bytes(self, prompt: Prompt) -> int:
        """Memory that the pixels of a prompt take: uint8 frames, and patches in the model's type."""
        vision = self.encoder.vision
        return sum(pixel_bytes(plan, vision, itemsize=self._dtype.itemsize) for plan in prompt.plans)

    def example(self, prompt: Prompt, clips: tuple[Clip, ...]) -> Example:
        features = media_inputs(prompt, clips, self.encoder.vision, dtype=self._dtype)
        return Example(prompt=prompt, clips=clips, features=features)

    def __call__(self, sample: Sample) -> Example:
        prompt = self.prompt(sample)
        return self.example(prompt, self.clips(prompt))


def pixel_bytes(plan: MediaPlan, vision: VisionSpec, *, itemsize: int) -> int:
    """Memory that a medium takes once it is read: uint8 frames, and patches of numbers of that size."""
    num_padded = plan.grid_thw[0] * vision.temporal_patch
    return 3 * plan.height * plan.width * (len(plan.times_s) + num_padded * itemsize)
