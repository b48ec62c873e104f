"""Validation in training: every question answered greedily and, if asked, k times by sampling; none is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from easyvideor1.data.dataset import Example, mix_seed
from easyvideor1.errors import DataError
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.types import Answer, Sample, Score, Scorer


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
) -> Iterator[Answer]:
    """Answers to all questions, batch by batch; only one batch of pixels is in memory.

    Args:
        on_bad: is told what is wrong with a question that cannot be asked, which then has unscored answers and stays in
            every denominator; None: the error is raised.
        num_samples: further responses per question at temperature 1, beside the greedy one.
        batch: questions answered at once.

    Raises:
        DataError: see `on_bad`.
    """
    greedy = Sampling(temperature=0.0, max_response_tokens=max_response_tokens)
    sampled = Sampling(n=num_samples, max_response_tokens=max_response_tokens)
    for start in range(0, len(questions), batch):
        examples: list[Example] = []
        for question in questions[start : start + batch]:
            try:
                examples.append(prepare(question))
            except DataError as error:
                if on_bad is None:
                    raise
                on_bad(error)
                for draw in (None, *range(1, num_samples + 1)):
                    yield Answer(sample=question, draw=draw, response="", score=Score.unscored(str(error)))
        if not examples:
            continue
        answers = [
            (example.sample, None, group[0])
            for example, group in zip(examples, engine.generate(examples, greedy, seed=seed), strict=True)
        ]
        if num_samples:
            groups = engine.generate(examples, sampled, seed=mix_seed(seed, start // batch))
            answers += [
                (example.sample, draw, rollout)
                for example, group in zip(examples, groups, strict=True)
                for draw, rollout in enumerate(group, start=1)
            ]
        scores = score([(sample, rollout.text, len(rollout.token_ids)) for sample, _, rollout in answers])
        for (sample, draw, rollout), judged in zip(answers, scores, strict=True):
            yield Answer(sample=sample, draw=draw, response=rollout.text, score=judged)
