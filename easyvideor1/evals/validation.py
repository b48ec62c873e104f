"""Validation in training: every question answered greedily and, if asked, k times by sampling; none is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from easyvideor1.errors import DataError
from easyvideor1.rollout.ask import Scored, ask
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.types import Example, Sample, Score, ScoredResponse, Scorer


def validate(
    questions: Sequence[Sample],
    *,
    prepare: Callable[[Sample], Example],
    on_bad: Callable[[DataError], None] | None,
    engine: Engine,
    score: Scorer,
    sampling: Sampling,
    num_samples: int,
    seed: int,
) -> Iterator[ScoredResponse]:
    """Scored responses to all questions, in the order of the questions.

    A question is prepared when the engine has room for it, so only the pixels of those under way are in memory.

    Args:
        on_bad: called with the error of a question that cannot be asked, whose responses are then unscored and stay
            in every denominator; None: the error is raised.
        engine: awake.
        sampling: of further responses; its length limit is that of the greedy one too.
        num_samples: how many of them per question, beside the greedy one.

    Raises:
        DataError: see `on_bad`.
    """
    samplings = [Sampling(temperature=0.0, max_response_tokens=sampling.max_response_tokens)]
    if num_samples:
        samplings.append(replace(sampling, n=num_samples))
    asked: list[tuple[int, int]] = []
    """(number of the question, number of the sampling) of each request."""
    found: dict[int, dict[int, Scored] | DataError] = {}
    """Number of a question -> what was answered by each sampling, or why it could not be asked."""

    def requests() -> Iterator[Request]:
        for number, question in enumerate(questions):
            try:
                example = prepare(question)
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
                found[number] = error
                continue
            for way, sampling in enumerate(samplings):
                asked.append((number, way))
                yield Request(example=example, sampling=sampling, seed=seed)

    num_given = 0
    for place, scored in ask(requests(), engine=engine, score=score):
        number, way = asked[place]
        answers = found.setdefault(number, {})
        assert isinstance(answers, dict)
        answers[way] = scored
        while _is_whole(found.get(num_given), len(samplings)):
            yield from _responses(questions[num_given], found.pop(num_given), num_samples=num_samples)
            num_given += 1
    for number in range(num_given, len(questions)):  # those at the end that could not be asked
        yield from _responses(questions[number], found[number], num_samples=num_samples)


def _is_whole(answers: dict[int, Scored] | DataError | None, num_samplings: int) -> bool:
    return isinstance(answers, DataError) or (answers is not None and len(answers) == num_samplings)


def _responses(
    question: Sample, answers: dict[int, Scored] | DataError, *, num_samples: int
) -> Iterator[ScoredResponse]:
    """The greedy response, then the sampled ones."""
    if isinstance(answers, DataError):
        unscored = Score.unscored(str(answers))
        for index in (None, *range(1, num_samples + 1)):
            yield ScoredResponse(sample=question, index=index, response="", score=unscored, is_asked=False)
        return
    pairs = [pair for way in sorted(answers) for pair in zip(answers[way].rollouts, answers[way].scores, strict=True)]
    for number, (rollout, score) in enumerate(pairs):
        yield ScoredResponse(sample=question, index=number or None, response=rollout.text, score=score)
