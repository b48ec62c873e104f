"""The grader tried by hand: responses of a file scored one by one, and a data set tried with its own gold answers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.config import SourceConfig
from easyvideor1.data.rows import read_rows
from easyvideor1.data.samples import read_sources
from easyvideor1.errors import DataError
from easyvideor1.rewards import router
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.parts import overlong_part
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample, Score

FIELDS = {"id", "problem_type", "problem", "ground_truth", "response", "options"}
LOW = 0.5
"""Gold answers of other questions should score less than this on average."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How the gold answers of one problem type score."""

    problem_type: str
    num_rows: int
    golds: list[Score]
    others: list[Score]
    """Gold answers of other questions of the type."""
    empty: list[Score]
    mistakes: list[tuple[Sample, str, Score]]
    """(sample, what was answered, its score) of what must not be."""

    @property
    def verdict(self) -> str:
        if self.mistakes:
            return "wrong"
        return "other golds score high" if self.others and mean(self.others) >= LOW else "ok"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What became of the rows of a data file."""

    trials: list[Trial]
    bad: list[DataError]
    """What is wrong with each row that could not be tried."""


def score_cases(cases: Path, pool: RewardPool) -> list[dict[str, Any]]:
    """One result per case of a file, in order: the parts of its score, or why there is none.

    Raises:
        DataError: an unreadable file, or a case without a needed field.
    """
    rows = list(read_rows(cases))
    errors: dict[int, str] = {}
    items: dict[int, tuple[Sample, str]] = {}
    for index, row in enumerate(rows):
        sample = _sample(row.fields, where=row.where)
        try:
            pool.check([sample])
        except DataError as error:
            errors[index] = str(error)
        else:
            items[index] = (sample, _text(row.fields["response"]))
    scores = dict(zip(items, pool.score(list(items.values())), strict=True))
    return [
        _failed(row.fields, errors[index]) if index in errors else _result(row.fields, scores[index], where=row.where)
        for index, row in enumerate(rows)
    ]


def try_golds(data: Path, pool: RewardPool) -> Tried:
    """Score every gold answer, the gold answer of another question, and nothing, as responses; by problem type.

    Raises:
        DataError: the file cannot be read at all.
    """
    bad: list[DataError] = []
    groups: dict[str, list[Sample]] = defaultdict(list)
    for item in read_sources([SourceConfig(path=str(data))], on_bad=bad.append):
        try:
            pool.check([item.sample])
        except DataError as error:
            bad.append(error)
        else:
            groups[item.sample.problem_type].append(item.sample)
    trials = [_trial(problem_type, group, pool) for problem_type, group in sorted(groups.items())]
    return Tried(trials=trials, bad=bad)


def mean(scores: Sequence[Score]) -> float:
    """Mean accuracy; unscored responses count 0 here, and are named with the mistakes."""
    return sum(score.parts.get("accuracy", 0.0) for score in scores) / len(scores)


def _trial(problem_type: str, group: Sequence[Sample], pool: RewardPool) -> Trial:
    golds = pool.score([(sample, _respond(sample.gold)) for sample in group])
    others = pool.score(
        [(sample, _respond(other)) for sample, other in zip(group, _shuffled(group), strict=True) if other]
    )
    empty = pool.score([(sample, _respond("")) for sample in group])
    mistakes = [
        (sample, "its own gold answer", score)
        for sample, score in zip(group, golds, strict=True)
        if not (score.is_scored and score.parts["accuracy"] > 0.999)
    ]
    mistakes += [
        (sample, "an empty answer", score) for sample, score in zip(group, empty, strict=True) if score.value != 0
    ]
    return Trial(
        problem_type=problem_type, num_rows=len(group), golds=golds, others=others, empty=empty, mistakes=mistakes
    )


def _respond(answer: str) -> str:
    return f"<think>I look at the frames.</think><answer>{answer}</answer>"


def _shuffled(group: Sequence[Sample]) -> list[str]:
    """For each sample the answer of the next one that answers differently; "" where all answer alike."""
    answers = [sample.gold for sample in group]
    following = answers + answers
    return [
        next((other for other in following[place + 1 : place + len(answers)] if other != answer), "")
        for place, answer in enumerate(answers)
    ]


def _sample(row: Mapping[str, Any], *, where: str) -> Sample:
    for name in ("problem_type", "ground_truth", "response"):
        if name not in row:
            raise DataError(
                "missing", where=where, field=name, remedy="a case has a problem_type, a ground_truth and a response"
            )
    options = row.get("options") or ()
    if isinstance(options, dict):
        options = [f"{letter}. {text}" for letter, text in options.items()]
    answer = _text(row["ground_truth"])
    return Sample(
        id=str(row.get("id", where)),
        problem_type=str(row["problem_type"]),
        problem=_text(row.get("problem")),
        gold=(read_response(answer).answer or answer).strip(),
        options=tuple(map(str, options)),
        where=where,
        extra={name: value for name, value in row.items() if name not in FIELDS},
    )


def _text(value: Any) -> str:
    """Texts as they are, other JSON values as JSON, null as nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _result(row: Mapping[str, Any], score: Score, *, where: str) -> dict[str, Any]:
    if not score.is_scored:
        return _failed(row, score.reason, status="unscored")
    parts = dict(score.parts)
    weights = {
        name: _number(row, f"{name}_weight", where=where, default=weight) for name, weight in router.WEIGHTS.items()
    }
    return {
        "id": row.get("id"),
        **parts,
        "overall": sum(weight * parts[name] for name, weight in weights.items()),
        "overlong": _overlong(row, where=where),
        "status": score.status,
        "reason": score.reason,
        "parsed": score.parsed,
    }


def _overlong(row: Mapping[str, Any], *, where: str) -> float | None:
    """The length part of a case that brings its length in tokens."""
    if row.get("response_length") is None:
        return None
    return overlong_part(
        _number(row, "response_length", where=where),
        max_tokens=_number(row, "max_response_length", where=where),
        buffer_tokens=_number(row, "overlong_buffer_length", where=where, default=0),
    )


def _number(row: Mapping[str, Any], name: str, *, where: str, default: float | None = None) -> Any:
    value = row.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataError(f"must be a number, got {value!r}", where=where, field=name, remedy="give a number, or none")
    return value


def _failed(row: Mapping[str, Any], reason: str, *, status: str = "error") -> dict[str, Any]:
    numbers = dict.fromkeys(("accuracy", "format", "overall", "overlong"))
    return {"id": row.get("id"), **numbers, "status": status, "reason": reason, "parsed": None}
