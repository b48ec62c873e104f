"""What an algorithm remembers from one step to the next; a part of every checkpoint, so that a run goes on exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.types import Group, Sample

LEAST_STD = 1e-3
"""Below it a task's deviation is not taken to be smaller: one of equal rewards says nothing about its scale."""
KL_STEP = 0.2
"""Largest relative error that the adaptive KL coefficient reacts to."""


@dataclass(frozen=True, kw_only=True)
class Carried:
    """The memory of an algorithm."""

    kl_coef: float | None = None
    """The coefficient that an adaptive KL has come to; None: that of the algorithm."""
    moments: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Task -> moving averages of its rewards and of their squares."""

    def with_rewards(self, groups: Sequence[Group], *, decay: float) -> Carried:
        """The memory after the scored rewards of a step: each task's averages move by 1 - decay towards the step's.

        A task that comes for the first time begins with the averages of its step.
        """
        rewards: dict[str, list[float]] = {}
        for group in groups:
            scored = [score.value for score in group.scores if score.is_scored]
            rewards.setdefault(task_of(group.prompt.sample), []).extend(scored)
        moments = dict(self.moments)
        for task, values in rewards.items():
            if values:
                now = math.fsum(values) / len(values), math.fsum(value * value for value in values) / len(values)
                old = moments.get(task, now)
                moments[task] = (decay * old[0] + (1 - decay) * now[0], decay * old[1] + (1 - decay) * now[1])
        return replace(self, moments=moments)

    def std_of(self, sample: Sample) -> float:
        """The deviation of the rewards of a sample's task."""
        mean, square = self.moments.get(task_of(sample), (0.0, 0.0))  # no reward of it could be scored yet
        return math.sqrt(max(square - mean * mean, LEAST_STD**2))

    def with_kl(self, kl: float, algorithm: Algorithm, *, num_rollouts: int) -> Carried:
        """The memory after a step whose KL from the reference was `kl` nats: the coefficient moves towards the target.

        Source: arXiv:1909.08593, section 2.2: coef *= 1 + clip(kl / target - 1, -0.2, 0.2) * rollouts / horizon,
        where more rollouts than the horizon count as the horizon.
        """
        if algorithm.kl_target is None or not math.isfinite(kl):
            return self
        error = min(KL_STEP, max(-KL_STEP, kl / algorithm.kl_target - 1.0))
        return replace(
            self, kl_coef=self.coef_of(algorithm) * (1.0 + error * min(1.0, num_rollouts / algorithm.kl_horizon))
        )

    def coef_of(self, algorithm: Algorithm) -> float:
        """The KL coefficient of the next step."""
        return algorithm.kl_coef if self.kl_coef is None else self.kl_coef


def task_of(sample: Sample) -> str:
    """The task whose rewards are alike: the problem type, segmentation of images and of videos apart."""
    return f"{sample.problem_type}/{sample.modality}" if sample.problem_type == "segmentation" else sample.problem_type
