"""Asking a model and scoring what it says: the one loop of training, validation and the pass-rate filter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from easyvideor1.errors import DataError
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.types import Example, Rollout, Sample, Score, Scorer

Timer = Callable[[Literal["rollout", "reward"]], contextlib.AbstractContextManager[None]]
"""Measures the time of a part of the work."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The rollouts of one request with their scores."""

    rollouts: tuple[Rollout, ...]
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """What became of a sample: what was scored for each sampling that was wanted, or why it could not be asked."""

    sample: Sample
    scored: tuple[Scored, ...]
    error: DataError | None = None


def ask(
    requests: Sequence[Request],
    *,
    engine: Engine,
    score: Scorer,
    seed: int,
    timed: Timer = lambda part: contextlib.nullcontext(),
) -> list[Scored]:
    """Generate and score the rollouts of every request, in order."""
    with timed("rollout"):
        groups = engine.generate(requests, seed=seed) if requests else []
    with timed("reward"):
        scores = iter(
            score(
                [
                    (request.example.sample, rollout.text, len(rollout.token_ids))
                    for request, group in zip(requests, groups, strict=True)
                    for rollout in group
                ]
            )
        )
    return [Scored(rollouts=group, scores=tuple(next(scores) for _ in group)) for group in groups]


def ask_samples(
    samples: Sequence[Sample],
    samplings: Sequence[Sampling],
    *,
    prepare: Callable[[Sample], Example],
    engine: Engine,
    score: Scorer,
    seed: int,
) -> list[Asked]:
    """Prepare, generate and score a batch of samples, in order; a sample that cannot be prepared carries its error.

    Args:
        samplings: what is wanted of every sample.
        prepare: raises DataError for a sample whose media cannot be read, or whose prompt is too long.
    """
    prepared: list[Example | DataError] = []
    for sample in samples:
        try:
            prepared.append(prepare(sample))
        except DataError as error:
            prepared.append(error)
    requests = [
        Request(example=example, sampling=sampling)
        for sampling in samplings
        for example in prepared
        if isinstance(example, Example)
    ]
    scored = ask(requests, engine=engine, score=score, seed=seed)
    num_ready = sum(isinstance(example, Example) for example in prepared)
    by_sample = iter(zip(*(scored[i * num_ready : (i + 1) * num_ready] for i in range(len(samplings))), strict=True))
    return [
        Asked(sample=sample, scored=(), error=example)
        if isinstance(example, DataError)
        else Asked(sample=sample, scored=next(by_sample))
        for sample, example in zip(samples, prepared, strict=True)
    ]
