"""Measuring pass rates: k responses to every row, scored, and noted down as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from easyvideor1.errors import DataError
from easyvideor1.filter.pass_rate import Failure, Measured, RateFile, Row
from easyvideor1.rollout.ask import Scored, ask
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.types import Example, Rollout, Sample, Score, Scorer, StopReason


def measure(
    rows: Sequence[Row],
    *,
    prepare: Callable[[Sample], Example],
    engine: Engine,
    score: Scorer,
    sampling: Sampling,
    seed: int,
    rates: RateFile,
) -> Iterator[tuple[int, list[Failure]]]:
    """Measure every row that the file does not know, and yield (rows done, those without a rate) as they come.

    What is sampled for a row depends on the seed and its id alone: a run that goes on asks only for the rows that are
    missing, and finds for them what the killed one would have found. A row without a rate is tried again by every run.

    Args:
        prepare: raises DataError for a sample whose media cannot be read, or whose prompt is too long; called when the
            engine has room for the sample.
    """
    unknown = [row for row in rows if rates.get(row) is None]
    yield len(rows) - len(unknown), []
    asked: list[Row] = []
    failures: list[Failure] = []
    """Failures of rows that could not be asked and are not yet reported."""

    def requests() -> Iterator[Request]:
        for row in unknown:
            try:
                example = prepare(row.sample)
            except DataError as error:
                failures.append(_failure(row, str(error)))
                continue
            asked.append(row)
            yield Request(example=example, sampling=sampling, seed=seed)

    with engine.awake():
        for place, scored in ask(requests(), engine=engine, score=score):
            noted = _note(asked[place], scored, rates)
            yield 1 + len(failures), [*failures, *noted]
            failures.clear()
    yield len(failures), failures


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
