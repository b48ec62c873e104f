"""Asking a model and scoring what it says: the one loop of training, validation and the pass-rate filter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
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


def prepare_all(samples: Iterable[Sample], prepare: Callable[[Sample], Example]) -> list[Example | DataError]:
    """The example of each sample, or why there is none: its media cannot be read, or its prompt is too long."""
    prepared: list[Example | DataError] = []
    for sample in samples:
        try:
            prepared.append(prepare(sample))
        except DataError as error:
            prepared.append(error)
    return prepared


def ask_all(
    prepared: Sequence[Example | DataError],
    samplings: Sequence[Sampling],
    *,
    engine: Engine,
    score: Scorer,
    seed: int,
) -> list[tuple[Scored, ...] | DataError]:
    """What each example is answered, once for each sampling; errors stay where they are."""
    ready = [example for example in prepared if isinstance(example, Example)]
    requests = [Request(example=example, sampling=sampling) for sampling in samplings for example in ready]
    scored = ask(requests, engine=engine, score=score, seed=seed)
    by_example = iter([tuple(scored[place :: len(ready)]) for place in range(len(ready))])
    return [item if isinstance(item, DataError) else next(by_example) for item in prepared]
