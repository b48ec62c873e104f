"""Scoring one response in a worker process: the settings travel there once, the user's own functions by their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from easyvideor1.rewards import router
from easyvideor1.rewards.registry import REGISTRY, register_places
from easyvideor1.rewards.sandbox import sandbox_reward
from easyvideor1.types import Sample, Score


@dataclass(frozen=True, kw_only=True)
class Heavy:
    """A response on its way to a worker."""

    number: int
    """Its place in the batch."""
    sample: Sample
    text: str
    overlong: float | None


@dataclass(frozen=True, kw_only=True)
class Grader:
    """The function of the worker processes."""

    weights: Mapping[str, float]
    thinking: bool
    rewards: Mapping[str, str]
    """Problem type -> "file.py:function"."""
    parts: Mapping[str, str]
    """Name -> "file.py:function"."""
    sandbox: tuple[str, ...]
    deadline_s: float

    def warm_up(self, response: Heavy) -> None:
        """Load the user's functions, and import what the response's problem type needs."""
        register_places(rewards=self.rewards, parts=self.parts)
        if self.sandbox:
            # A little less than the deadline, so that the command is ended too and not only this process.
            REGISTRY.rewards["python code"] = sandbox_reward(self.sandbox, timeout_s=0.9 * self.deadline_s)
        router.warm_up(response.sample.problem_type)

    def __call__(self, response: Heavy) -> Score:
        return router.score(
            response.sample,
            response.text,
            weights=self.weights,
            thinking=self.thinking,
            overlong=response.overlong,
        )


def without_content(sample: Sample) -> Sample:
    """The sample with its media named but not carried along."""
    if not any(media.data for media in sample.media):
        return sample
    return replace(sample, media=tuple(replace(media, data=None) for media in sample.media))
