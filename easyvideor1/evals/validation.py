"""Validation in training: every question answered greedily and, if asked, k times by sampling; none is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from easyvideor1.data.dataset import Example, mix_seed
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.types import Answer, Scorer


def validate(
    examples: Iterable[Example],
    *,
    engine: Engine,
    score: Scorer,
    max_response_tokens: int,
    num_samples: int,
    seed: int,
    batch: int = 32,
) -> Iterator[Answer]:
    """Answers to all questions, batch by batch.

    Args:
        examples: consumed lazily, so that only one batch of pixels is in memory.
        num_samples: further responses per question at temperature 1, beside the greedy one.
        batch: questions answered at once.
    """
    greedy = Sampling(temperature=0.0, max_response_tokens=max_response_tokens)
    sampled = Sampling(n=num_samples, max_response_tokens=max_response_tokens)
    for place, chunk in enumerate(_chunks(examples, batch)):
        answers = [
            (example.sample, None, group[0])
            for example, group in zip(chunk, engine.generate(chunk, greedy, seed=seed), strict=True)
        ]
        if num_samples:
            groups = engine.generate(chunk, sampled, seed=mix_seed(seed, place))
            answers += [
                (example.sample, draw, rollout)
                for example, group in zip(chunk, groups, strict=True)
                for draw, rollout in enumerate(group, start=1)
            ]
        scores = score([(sample, rollout.text, len(rollout.token_ids)) for sample, _, rollout in answers])
        for (sample, draw, rollout), judged in zip(answers, scores, strict=True):
            yield Answer(sample=sample, draw=draw, response=rollout.text, score=judged)


def _chunks(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    chunk: list[Example] = []
    for example in examples:
        chunk.append(example)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
