"""Measuring pass rates: k responses to every row, scored, and noted down batch by batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence

from easyvideor1.errors import DataError
from easyvideor1.filter.pass_rate import Failure, Measured, RateFile, Row
from easyvideor1.rollout.ask import Scored, ask_all, prepare_all
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.seeds import mix_seed
from easyvideor1.types import Example, Rollout, Sample, Score, Scorer, StopReason


def measure(
    rows: Sequence[Row],
    *,
    prepare: Callable[[Sample], Example],
    engine: Engine,
    score: Scorer,
    sampling: Sampling,
    responses_per_batch: int,
    seed: int,
    rates: RateFile,
) -> Iterator[tuple[int, list[Failure]]]:
    """Measure every row that the file does not know, and yield (rows done, those without a rate) batch by batch.

    Batches are cut from the rows in their order, and each batch's seed is made of its ids: a resumed run samples the
    same batches in the same way, however far the killed one got. A row without a rate is tried again by every run.

    Args:
        prepare: raises DataError for a sample whose media cannot be read, or whose prompt is too long.
        responses_per_batch: responses generated at once.
    """
    size = max(1, responses_per_batch // sampling.n)
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        failures: list[Failure] = []
        if any(rates.get(row) is None for row in batch):
            prepared = prepare_all([row.sample for row in batch], prepare)
            pairs = list(zip(batch, prepared, strict=True))
            # A row that was measured before is not lost because its media are gone now.
            failures = [
                _failure(row, str(item))
                for row, item in pairs
                if isinstance(item, DataError) and rates.get(row) is None
            ]
            if any(rates.get(row) is None for row, item in pairs if isinstance(item, Example)):
                found = ask_all(prepared, [sampling], engine=engine, score=score, seed=_batch_seed(seed, batch))
                for row, item in zip(batch, found, strict=True):
                    if rates.get(row) is None and not isinstance(item, DataError):
                        failures += _note(row, item[0], rates)
        yield len(batch), failures


def _note(row: Row, scored: Scored, rates: RateFile) -> list[Failure]:
    """Note a row's rate down; a failure where it has none."""
    if not any(score.is_scored for score in scored.scores):
        return [_failure(row, f"no response could be scored: {scored.scores[0].reason}")]
    rates.add(row, _measured(scored))
    return []


def _failure(row: Row, error: str) -> Failure:
    return Failure(where=row.sample.where, id=row.sample.id, error=error)


def _measured(scored: Scored) -> Measured:
    pairs = list(zip(scored.rollouts, scored.scores, strict=True))
    best = min(
        (rollout for rollout, score in pairs if _is_exemplary(rollout, score)),
        key=lambda rollout: len(rollout.token_ids),
        default=None,
    )
    return Measured(
        accuracies=tuple(score.parts["accuracy"] if score.is_scored else None for score in scored.scores),
        best=best.text if best is not None else None,
    )


def _is_exemplary(rollout: Rollout, score: Score) -> bool:
    """Right, well-formed, and ended by the model itself."""
    parts = score.parts if score.is_scored else {}
    is_right = parts.get("accuracy", 0.0) >= 1.0 and parts.get("format", 0.0) >= 1.0
    return is_right and rollout.stop_reason is StopReason.EOS


def _batch_seed(seed: int, batch: Sequence[Row]) -> int:
    ids = json.dumps([row.sample.id for row in batch])
    return mix_seed(seed, int.from_bytes(hashlib.sha256(ids.encode()).digest()[:8], "big"))
