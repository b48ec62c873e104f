"""Validation in training: every question answered greedily and, if asked, k times by sampling; none is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from easyvideor1.errors import DataError
from easyvideor1.rollout.ask import ask_all, prepare_all
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.seeds import mix_seed
from easyvideor1.types import Example, Sample, Score, ScoredResponse, Scorer


def validate(
    questions: Sequence[Sample],
    *,
    prepare: Callable[[Sample], Example],
    on_bad: Callable[[DataError], None] | None,
    engine: Engine,
    score: Scorer,
    max_response_tokens: int,
    num_samples: int,
    seed: int,
    batch: int = 32,
) -> Iterator[ScoredResponse]:
    """Scored responses to all questions, batch by batch; only one batch of pixels is in memory.

    Args:
        on_bad: is told what is wrong with a question that cannot be asked, whose responses are then unscored and stay
            in every denominator; None: the error is raised.
        num_samples: further responses per question at temperature 1, beside the greedy one.
        batch: questions asked at once.

    Raises:
        DataError: see `on_bad`.
    """
    samplings = [Sampling(temperature=0.0, max_response_tokens=max_response_tokens)]
    if num_samples:
        samplings.append(Sampling(n=num_samples, max_response_tokens=max_response_tokens))
    for start in range(0, len(questions), batch):
        asked = questions[start : start + batch]
        found = ask_all(
            prepare_all(asked, prepare), samplings, engine=engine, score=score, seed=mix_seed(seed, start // batch)
        )
        for question, item in zip(asked, found, strict=True):
            if isinstance(item, DataError):
                if on_bad is None:
                    raise item
                on_bad(item)
                for index in (None, *range(1, num_samples + 1)):
                    unscored = Score.unscored(str(item))
                    yield ScoredResponse(sample=question, index=index, response="", score=unscored)
                continue
            pairs = [pair for scored in item for pair in zip(scored.rollouts, scored.scores, strict=True)]
            for number, (rollout, score_of) in enumerate(pairs):
                yield ScoredResponse(sample=question, index=number or None, response=rollout.text, score=score_of)
