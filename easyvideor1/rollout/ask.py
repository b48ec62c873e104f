"""Asking a model and scoring what it says: the one loop of training, validation and the pass-rate filter."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from easyvideor1.rollout.engine import Engine, Request
from easyvideor1.types import Rollout, Sample, Score, Scorer, StopReason

Timer = Callable[[Literal["rollout", "reward"]], contextlib.AbstractContextManager[None]]
"""Measures the time of a part of the work: waiting for the engine, and for the scores after it is done."""
ABORTED = "the engine gave the response up"


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """The rollouts of one request with their scores."""

    rollouts: tuple[Rollout, ...]
    scores: tuple[Score, ...]


def ask(
    requests: Iterable[Request],
    *,
    engine: Engine,
    score: Scorer,
    timed: Timer = lambda part: contextlib.nullcontext(),
) -> Iterator[tuple[int, Scored]]:
    """(place of a request, its rollouts with their scores), as they complete.

    Rollouts are scored in another thread while the engine goes on with other requests. Those that the engine gave up
    are unscored: they do not train, and they count as wrong in validation.

    Args:
        requests: taken as the engine has room for them (see Engine.generate).
        engine: awake.
    """
    samples: list[Sample] = []

    def noted() -> Iterator[Request]:
        for request in requests:
            samples.append(request.example.sample)
            yield request

    waiting: deque[tuple[int, Sample, tuple[Rollout, ...]]] = deque()
    running: deque[Future[list[tuple[int, Scored]]]] = deque()

    def score_waiting() -> list[tuple[int, Scored]]:
        """All that has come since the last call, at once: the scorer works on the responses of a call in parallel."""
        return _scored([waiting.popleft() for _ in range(len(waiting))], score)

    generated = engine.generate(noted())
    with ThreadPoolExecutor(max_workers=1) as thread:
        try:
            while True:
                with timed("rollout"):
                    found = next(generated, None)
                if found is None:
                    break
                place, rollouts = found
                waiting.append((place, samples[place], rollouts))
                running.append(thread.submit(score_waiting))
                while running and running[0].done():
                    yield from running.popleft().result()
            while running:
                with timed("reward"):
                    done = running.popleft().result()
                yield from done
        finally:
            thread.shutdown(wait=False, cancel_futures=True)


def _scored(groups: list[tuple[int, Sample, tuple[Rollout, ...]]], score: Scorer) -> list[tuple[int, Scored]]:
    wanted = [
        (sample, rollout.text, len(rollout.token_ids))
        for _, sample, rollouts in groups
        for rollout in rollouts
        if rollout.stop_reason is not StopReason.ABORT
    ]
    scores = iter(score(wanted) if wanted else [])
    return [
        (
            place,
            Scored(
                rollouts=rollouts,
                scores=tuple(
                    Score.unscored(ABORTED) if rollout.stop_reason is StopReason.ABORT else next(scores)
                    for rollout in rollouts
                ),
            ),
        )
        for place, _, rollouts in groups
    ]
