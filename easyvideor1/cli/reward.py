"""`easyvideor1 reward score CASES.jsonl --out SCORES.jsonl` and `reward test DATA`: the grader by hand."""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from easyvideor1.config import RewardConfig
from easyvideor1.data.schema import read_rows, read_samples
from easyvideor1.errors import DataError, UsageError
from easyvideor1.rewards import router
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.parts import overlong_part
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample, Score

FIELDS = {"id", "problem_type", "problem", "ground_truth", "response", "options"}
LOW = 0.5
"""Answers of other questions should score less than this on average."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    score = actions.add_parser("score", help="judge responses: one JSON row in, one out")
    score.add_argument("data", metavar="CASES.jsonl", help="rows of id, problem_type, ground_truth and response")
    score.add_argument("--out", required=True, metavar="SCORES.jsonl")
    test = actions.add_parser("test", help="gold answers must score 1, answers of other questions little, empty ones 0")
    test.add_argument("data", metavar="DATA", help="a training or evaluation data file")
    for action in (score, test):
        action.add_argument("--thinking", action="store_true", help="a response must think before it answers")
        action.add_argument("--workers", type=int, default=2, help="processes for answers that may take long")
        action.add_argument(
            "--deadline", type=float, default=10.0, metavar="S", help="seconds one answer may take there"
        )
        action.add_argument(
            "--reward",
            action="append",
            default=[],
            metavar="TYPE=FILE.py:FUNCTION",
            help="a reward of your own for a problem type",
        )


def run(args: argparse.Namespace) -> int:
    rewards = dict(map(_own_reward, args.reward))
    config = RewardConfig(rewards=rewards, workers=args.workers, deadline_s=args.deadline)
    with RewardPool.from_config(config, thinking=args.thinking, max_response_tokens=0) as pool:
        if args.action == "score":
            return _score(Path(args.data), Path(args.out), pool)
        return _test(Path(args.data), pool)


def _own_reward(word: str) -> tuple[str, str]:
    problem_type, equals, place = word.partition("=")
    if not equals:
        raise UsageError(f"--reward {word}: write TYPE=path/to/file.py:function")
    return problem_type, place


def _score(cases: Path, out: Path, pool: RewardPool) -> int:
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: the folder {out.parent} does not exist; make it first")
    rows = list(read_rows(cases))
    errors: dict[int, str] = {}
    items: dict[int, tuple[Sample, str]] = {}
    for index, (where, row) in enumerate(rows):
        sample = _sample(row, where=where)
        try:
            pool.check([sample])
        except DataError as error:
            errors[index] = str(error)
        else:
            items[index] = (sample, _text(row["response"]))
    scores = dict(zip(items, pool.score(list(items.values())), strict=True))
    results = [
        _failed(row, errors[index]) if index in errors else _result(row, scores[index], where=where)
        for index, (where, row) in enumerate(rows)
    ]
    with out.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    counts = Counter(result["status"] for result in results)
    print(f"{len(results)} responses: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    return 0


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
        raise DataError(f"must be a number, got {value!r}", where=where, field=name, remedy="mend the row")
    return value


def _failed(row: Mapping[str, Any], reason: str, *, status: str = "error") -> dict[str, Any]:
    numbers = dict.fromkeys(("accuracy", "format", "overall", "overlong"))
    return {"id": row.get("id"), **numbers, "status": status, "reason": reason, "parsed": None}


def _test(data: Path, pool: RewardPool) -> int:
    """Judge every gold answer, the gold answer of another question, and nothing, as responses."""
    samples = read_samples(data)
    pool.check(samples)
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.problem_type].append(sample)
    table = Table("problem type", "rows", "gold", "other gold", "empty", "verdict")
    mistakes = []
    for problem_type, group in sorted(groups.items()):
        golds = pool.score([(sample, _respond(sample.gold)) for sample in group])
        others = pool.score(
            [(sample, _respond(other)) for sample, other in zip(group, _shuffled(group), strict=True) if other]
        )
        empty = pool.score([(sample, _respond("")) for sample in group])
        wrong = [(sample, score) for sample, score in zip(group, golds, strict=True) if not _is_full(score)]
        paid = [(sample, score) for sample, score in zip(group, empty, strict=True) if score.value != 0]
        mistakes += [(sample, "its own gold answer", score) for sample, score in wrong]
        mistakes += [(sample, "an empty answer", score) for sample, score in paid]
        is_high = bool(others) and _mean(others) >= LOW
        verdict = "wrong" if wrong or paid else "other golds score high" if is_high else "ok"
        table.add_row(
            problem_type,
            str(len(group)),
            *(f"{_mean(part):.3f}" if part else "-" for part in (golds, others, empty)),
            verdict,
        )
    Console().print(table)
    for sample, what, score in mistakes[:10]:
        print(f"{sample.where}: {what} scores {score.parts.get('accuracy')} ({score.reason or score.parsed})")
    return 1 if mistakes else 0


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


def _is_full(score: Score) -> bool:
    return score.is_scored and score.parts["accuracy"] > 0.999


def _mean(scores: Sequence[Score]) -> float:
    """Mean accuracy; unscored responses count 0 here, and are named below the table."""
    return sum(score.parts.get("accuracy", 0.0) for score in scores) / len(scores)
