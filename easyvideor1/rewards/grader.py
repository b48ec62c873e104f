"""Scoring one response in a worker process, which gets the settings once and imports the user's functions itself."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from easyvideor1.errors import JobTimeout
from easyvideor1.rewards import router
from easyvideor1.rewards.child import in_child, in_time
from easyvideor1.rewards.code_tests import check_tests, is_tried, read_tests
from easyvideor1.rewards.code_trial import tried
from easyvideor1.rewards.input_functions import Answered
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.readings import reading_of
from easyvideor1.rewards.registry import REGISTRY, register_places
from easyvideor1.rewards.router import TaskScore
from easyvideor1.rewards.sandbox import sandbox_reward
from easyvideor1.sandbox.isolation import Isolation
from easyvideor1.sandbox.runs import Limits, Sandbox
from easyvideor1.types import Sample, Score


@dataclass(frozen=True, kw_only=True)
class Heavy:
    """A response on its way to a worker."""

    number: int
    """Place of the response in the batch."""
    sample: Sample
    text: str | None
    """None: only read the gold answer."""
    overlong: float | None = None
    num_tokens: int | None = None
    limit_s: float
    """Wall time it may take."""

    @property
    def answered(self) -> Answered:
        return Answered(self.sample, self.text or "", self.num_tokens, self.overlong)


@dataclass(frozen=True, kw_only=True)
class Together:
    """Responses that one call of the user's function scores."""

    responses: tuple[Heavy, ...]
    limit_s: float
    """Wall time they may take."""

    @property
    def sample(self) -> Sample:
        """The first of their samples, which stands for all."""
        return self.responses[0].sample


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that all workers share."""

    weights: Mapping[str, float]
    thinking: bool
    reading: str
    """Name of a reading: where the answer stands."""
    sandbox: tuple[str, ...]
    isolation: Isolation | None
    """The walls behind which Python answers are run on the tests of their rows; None: they are not run."""
    workers: int
    deadline_s: float
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class Grader:
    """The function of the worker processes."""

    settings: Settings
    rewards: Mapping[str, str]
    """Problem type -> "file.py:function"."""
    parts: Mapping[str, str]
    """Name -> "file.py:function"."""
    arguments: Mapping[str, Mapping[str, Any]]
    """Name of one of these -> keyword arguments of its function."""

    def warm_up(self, response: Heavy | Together) -> None:
        """Load the user's functions, and import what the response's problem type needs."""
        register_places(rewards=self.rewards, parts=self.parts, arguments=self.arguments)
        settings = self.settings
        if settings.sandbox:
            # A little less than the deadline, so that the command is ended too and not only this process.
            REGISTRY.rewards["python code"] = sandbox_reward(settings.sandbox, timeout_s=0.9 * settings.deadline_s)
        router.warm_up(response.sample.problem_type)

    def __call__(self, response: Heavy | Together) -> Score | list[Score]:
        """The score, or those of several in order; of a gold answer alone a score of 1, or the error of
        `router.check`."""
        if isinstance(response, Together):
            answered = [item.answered for item in response.responses]
            return router.scores_of_inputs(answered, thinking=self.settings.thinking)
        sample, text, isolation = response.sample, response.text, self.settings.isolation
        if text is not None and isolation is not None and is_tried(sample):
            return self._tried(response, isolation)
        if text is not None and router.runs_own_code(sample):
            return self._score(response)
        run = in_time if router.can_be_interrupted(sample, text) else in_child
        return run(lambda: self._score_or_check(response), limit_s=response.limit_s)

    def _score_or_check(self, response: Heavy) -> Score:
        if response.text is not None:
            return self._score(response)
        router.check([response.sample])
        if self.settings.isolation is not None:
            check_tests(response.sample, "run")
        return Score(value=1.0)

    def _tried(self, response: Heavy, isolation: Isolation) -> Score:
        """The score of a program that is run on the tests of its row."""
        sample, settings = response.sample, self.settings
        said, reading = read_response(response.text or ""), reading_of(settings.reading)
        program, reason = in_time(lambda: router.read_answer(sample, said, reading), limit_s=response.limit_s)
        found = TaskScore(0.0, None, reason)
        if program is not None:
            wall_s = wall_limit_s(response.limit_s)
            limits = Limits(cpu_s=response.limit_s, wall_s=wall_s, memory_bytes=settings.memory_bytes)
            try:
                trial = tried(program.source, read_tests(sample), _sandbox(isolation), limits)
            except JobTimeout as late:
                if not REGISTRY.parts:
                    raise
                # The user's parts are not run where a late answer is settled, which is the trainer.
                trial = 0.0, late.problem
            found = TaskScore(trial[0], program.source, trial[1])
        return router.finish(found, response.answered, said, weights=settings.weights, thinking=settings.thinking)

    def _score(self, response: Heavy) -> Score:
        settings = self.settings
        return router.score(
            response.sample,
            response.text or "",
            weights=settings.weights,
            thinking=settings.thinking,
            overlong=response.overlong,
            num_tokens=response.num_tokens,
            reading=reading_of(settings.reading),
        )


def wall_limit_s(limit_s: float) -> float:
    """Wall time for a program that may use this much processor time.

    On a busy machine it waits for its turns, and one that sleeps must not hold the others for long.

    >>> wall_limit_s(0.25), wall_limit_s(10.0)
    (0.75, 12.0)
    """
    return min(3 * limit_s, limit_s + 2.0)


@functools.cache
def _sandbox(isolation: Isolation) -> Sandbox:
    """The sandbox of this process, which ends with it."""
    return Sandbox(isolation)


def without_content(sample: Sample) -> Sample:
    """The sample with its media named but not carried along."""
    if not any(media.data for media in sample.media):
        return sample
    return replace(sample, media=tuple(replace(media, data=None) for media in sample.media))
