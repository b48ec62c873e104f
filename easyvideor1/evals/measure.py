"""Measuring pass rates: k responses to every row, judged, and noted down batch by batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from easyvideor1.data.dataset import Example, mix_seed
from easyvideor1.errors import DataError
from easyvideor1.evals.pass_rate import Failure, Measured, RateFile, Row
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.types import Rollout, Sample, Score, Scorer, StopReason


def measure(
    rows: Sequence[Row],
    *,
    prepare: Callable[[Sample], Example],
    engine: Engine,
    score: Scorer,
    sampling: Sampling,
    rows_per_batch: int,
    seed: int,
    rates: RateFile,
) -> Iterator[tuple[int, list[Failure]]]:
    """Measure every row that the file does not know, and yield (rows done, those without a rate) batch by batch.

    Batches are cut from the rows in their order, and each batch's seed is made of its ids: a resumed run samples the
    same batches in the same way, however far the killed one got. A row without a rate is tried again by every run.

    Args:
        prepare: raises DataError for a sample whose media cannot be read, or whose prompt is too long.
        rows_per_batch: responses generated at once.
    """
    size = max(1, rows_per_batch // sampling.n)
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        failures: list[Failure] = []
        if any(rates.get(row) is None for row in batch):
            ready, failures = _prepared(batch, prepare)
            if any(rates.get(row) is None for row, _ in ready):
                failures += _measure_batch(ready, engine=engine, score=score, sampling=sampling, seed=seed, rates=rates)
        # A row that was measured before is not lost because its media are gone now.
        known = {row.sample.id for row in batch if rates.get(row) is not None}
        yield len(batch), [failure for failure in failures if failure.id not in known]


def _prepared(
    rows: Iterable[Row], prepare: Callable[[Sample], Example]
) -> tuple[list[tuple[Row, Example]], list[Failure]]:
    ready: list[tuple[Row, Example]] = []
    failures: list[Failure] = []
    for row in rows:
        try:
            ready.append((row, prepare(row.sample)))
        except DataError as error:
            failures.append(_failure(row, str(error)))
    return ready, failures


def _measure_batch(
    ready: Sequence[tuple[Row, Example]],
    *,
    engine: Engine,
    score: Scorer,
    sampling: Sampling,
    seed: int,
    rates: RateFile,
) -> list[Failure]:
    """Answer, judge and note down one batch."""
    groups = engine.generate([example for _, example in ready], sampling, seed=_batch_seed(seed, ready))
    pairs = [(row, rollout) for (row, _), group in zip(ready, groups, strict=True) for rollout in group]
    scores = iter(score([(row.sample, rollout.text, len(rollout.token_ids)) for row, rollout in pairs]))
    failures = []
    for (row, _), group in zip(ready, groups, strict=True):
        judged = [(rollout, next(scores)) for rollout in group]
        if any(score.is_scored for _, score in judged):
            rates.add(row, _measured(judged))
        else:
            failures.append(_failure(row, f"no response could be scored: {judged[0][1].reason}"))
    return failures


def _measured(judged: Sequence[tuple[Rollout, Score]]) -> Measured:
    best = min(
        (rollout for rollout, score in judged if _is_exemplary(rollout, score)),
        key=lambda rollout: len(rollout.token_ids),
        default=None,
    )
    return Measured(
        accuracies=tuple(score.parts["accuracy"] if score.is_scored else None for _, score in judged),
        best=best.text if best is not None else None,
    )


def _is_exemplary(rollout: Rollout, score: Score) -> bool:
    """Right, well-formed, and ended by the model itself."""
    parts = score.parts if score.is_scored else {}
    is_right = parts.get("accuracy", 0.0) >= 1.0 and parts.get("format", 0.0) >= 1.0
    return is_right and rollout.stop_reason is StopReason.EOS


def _batch_seed(seed: int, ready: Sequence[tuple[Row, Example]]) -> int:
    ids = json.dumps([row.sample.id for row, _ in ready])
    return mix_seed(seed, int.from_bytes(hashlib.sha256(ids.encode()).digest()[:8], "big"))


def _failure(row: Row, error: str) -> Failure:
    return Failure(where=row.sample.where, id=row.sample.id, error=error)
