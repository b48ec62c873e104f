"""The grader tried by hand: single cases scored, and the rewards of a data set tried on its own gold answers.

Both use the rewards of a recipe where one is given: its weights, its judge, and rewards and parts of your own.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from easyvideor1.config import Settings
from easyvideor1.config_reward import RewardConfig
from easyvideor1.data.rows import read_rows
from easyvideor1.errors import DataError
from easyvideor1.rewards.code_tests import are_in_gold, is_tried
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.parts import overlong_part
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample, Score

LOW = 0.5
"""Answers of other questions should score less than this on average."""
_FIELDS = {"id", "problem_type", "problem", "ground_truth", "response", "options"}


@dataclass(frozen=True, kw_only=True)
class RewardSetup:
    """How responses are scored."""

    reward: RewardConfig = field(default_factory=RewardConfig)
    thinking: bool = False
    max_response_tokens: int = 0

    @classmethod
    def of(cls, settings: Settings) -> RewardSetup:
        """The setup of a recipe, or of the options that take its place."""
        return cls(
            reward=settings.reward,
            thinking=settings.data.thinking,
            max_response_tokens=settings.rollout.max_response_tokens,
        )

    def open(self) -> RewardPool:
        """The pool that scores; use it as a context manager."""
        return RewardPool.from_config(self.reward, thinking=self.thinking, max_response_tokens=self.max_response_tokens)


def score_cases(path: Path, setup: RewardSetup) -> list[dict[str, Any]]:
    """A result for each row of a file of cases (id, problem_type, ground_truth, response), in order.

    A result holds every part, overall, overlong, status ("scored", "unscored" or "error"), reason and parsed.

    Raises:
        DataError: the file or a row of it is no case at all.
        UsageError: a reward of your own cannot be loaded, or the judge does not work.
    """
    rows = [(row.where, row.fields) for row in read_rows(path)]
    results: dict[int, dict[str, Any]] = {}
    items: dict[int, tuple[Sample, str, int]] = {}
    with setup.open() as pool:
        for index, (where, row) in enumerate(rows):
            sample = _sample(row, where=where)
            try:
                pool.check([sample])
            except DataError as error:
                results[index] = _failed(row, str(error), status="error")
            else:
                length = row.get("response_length")
                tokens = 0 if length is None else _number(row, "response_length", where=where)
                items[index] = (sample, _text(row["response"]), tokens)
        scores = dict(zip(items, pool.score(list(items.values())), strict=True))
    for index, score in scores.items():
        where, row = rows[index]
        results[index] = _result(row, score, setup.reward.weights, where=where)
    return [results[index] for index in range(len(rows))]


def counts_of(results: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Status -> results."""
    return Counter(str(result["status"]) for result in results)


def exit_code(results: Sequence[Mapping[str, Any]]) -> int:
    """1 where there are results and not one of them is a score, else 0."""
    return int(bool(results) and not counts_of(results)["scored"])


@dataclass(frozen=True, kw_only=True)
class TypeTrial:
    """How the rewards of one problem type did on their own data."""

    problem_type: str
    num_rows: int
    gold: float
    """Mean accuracy of gold answers."""
    other: float | None
    """Mean accuracy of the gold answers of other questions; None where all questions have the same one."""
    empty: float
    """Mean accuracy of empty answers."""
    parts: Mapping[str, float]
    """Means of all other parts over the gold answers."""
    num_unscored: int
    """Gold answers that could not be scored."""
    is_wrong: bool
    """A gold answer is not worth 1, or an empty one is worth something."""

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.num_unscored == self.num_rows:
            return "nothing scored"
        if self.is_wrong:
            return "wrong"
        return "other golds score high" if self.other is not None and self.other >= LOW else "ok"


@dataclass(frozen=True, kw_only=True)
class DataTrial:
    """How the rewards of a data set did on it."""

    types: Sequence[TypeTrial]
    mistakes: Sequence[str]
    """One line for each: place of the row, what was answered, what it scored."""
    bad: Sequence[str]
    """Rows that no response could be scored for, with the reasons."""

    @property
    def exit_code(self) -> int:
        return int(bool(self.mistakes or self.bad))


def try_rewards(samples: Sequence[Sample], setup: RewardSetup) -> DataTrial:
    """Score every gold answer, the gold answer of another question, and nothing, as responses.

    Rows with an unknown type or an unreadable gold are counted and left out; rows whose gold is tests are left out
    uncounted. Raises UsageError where the judge, or a reward of your own, does not work.
    """
    groups: dict[str, list[Sample]] = defaultdict(list)
    bad: list[str] = []
    types: list[TypeTrial] = []
    mistakes: list[str] = []
    with setup.open() as pool:
        for sample in samples:
            try:
                pool.check([sample])
            except DataError as error:
                bad.append(str(error))
            else:
                if not (is_tried(sample) and are_in_gold(sample)):  # tests are no program that could pass them
                    groups[sample.problem_type].append(sample)
        for problem_type, group in sorted(groups.items()):
            tried, wrong = _try_type(problem_type, group, pool)
            types.append(tried)
            mistakes += wrong
    return DataTrial(types=types, mistakes=mistakes, bad=bad)


def _try_type(problem_type: str, group: Sequence[Sample], pool: RewardPool) -> tuple[TypeTrial, list[str]]:
    golds = pool.score([_item(sample, sample.gold) for sample in group])
    others = pool.score(
        [_item(sample, other) for sample, other in zip(group, _shuffled(group), strict=True) if other is not None]
    )
    empty = pool.score([_item(sample, "") for sample in group])
    wrong = [
        _mistake(sample, "its own gold answer", score)
        for sample, score in zip(group, golds, strict=True)
        if not _is_full(score)
    ]
    wrong += [
        _mistake(sample, "an empty answer", score)
        for sample, score in zip(group, empty, strict=True)
        if _accuracy(score) != 0
    ]
    names = sorted({name for score in golds for name in score.parts} - {"accuracy"})
    scored = [score for score in golds if score.is_scored]
    tried = TypeTrial(
        problem_type=problem_type,
        num_rows=len(group),
        gold=_mean(golds),
        other=_mean(others) if others else None,
        empty=_mean(empty),
        parts={name: sum(score.parts.get(name, 0.0) for score in scored) / len(scored) for name in names},
        num_unscored=len(golds) - len(scored),
        is_wrong=bool(wrong),
    )
    return tried, wrong


def _item(sample: Sample, answer: str) -> tuple[Sample, str, int]:
    return sample, f"<think>I look at the frames.</think><answer>{answer}</answer>", 0


def _shuffled(group: Sequence[Sample]) -> list[str | None]:
    """For each sample the answer of the next one that answers differently; None where all answer alike."""
    answers = [sample.gold for sample in group]
    following: list[str | None] = [None] * len(answers)
    upcoming: str | None = None
    for place in range(2 * len(answers) - 1, -1, -1):  # backwards through the list twice, as if it were a ring
        here, behind = answers[place % len(answers)], answers[(place + 1) % len(answers)]
        upcoming = behind if behind != here else upcoming
        if place < len(answers):
            following[place] = upcoming
    return following


def _mistake(sample: Sample, what: str, score: Score) -> str:
    return f"{sample.where or sample.id}: {what} scores {score.parts.get('accuracy')} ({score.reason or score.parsed})"


def _is_full(score: Score) -> bool:
    return score.is_scored and score.parts["accuracy"] > 0.999


def _accuracy(score: Score) -> float:
    """Unscored responses count 0 here, and are told of as mistakes."""
    return score.parts.get("accuracy", 0.0)


def _mean(scores: Sequence[Score]) -> float:
    return sum(map(_accuracy, scores)) / len(scores)


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
        extra={name: value for name, value in row.items() if name not in _FIELDS},
    )


def _text(value: Any) -> str:
    """Texts as they are, other JSON values as JSON, null as nothing."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _result(row: Mapping[str, Any], score: Score, weights: Mapping[str, float], *, where: str) -> dict[str, Any]:
    if not score.is_scored:
        return _failed(row, score.reason, status="unscored")
    parts = dict(score.parts)
    own = {name: _number(row, f"{name}_weight", where=where, default=weight) for name, weight in weights.items()}
    is_own = any(f"{name}_weight" in row for name in weights)
    return {
        "id": row.get("id"),
        **parts,
        "overall": sum(weight * parts[name] for name, weight in own.items()) if is_own else score.value,
        "overlong": _overlong(row, where=where),
        "status": score.status,
        "reason": score.reason,
        "parsed": score.parsed,
    }


def _overlong(row: Mapping[str, Any], *, where: str) -> float | None:
    """The length part of a case that brings its length in tokens and its limits."""
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
        raise DataError(
            f"must be a number, got {value!r}", where=where, field=name, remedy="write a number there, without quotes"
        )
    return value


def _failed(row: Mapping[str, Any], reason: str, *, status: str) -> dict[str, Any]:
    numbers = dict.fromkeys(("accuracy", "format", "overall", "overlong"))
    return {"id": row.get("id"), **numbers, "status": status, "reason": reason, "parsed": None}
