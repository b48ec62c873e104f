"""The one grader: problem type -> task, response -> Score. Training, evaluation and the command line all end here."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping

from easyvideor1.errors import DataError, UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.parts import format_part
from easyvideor1.rewards.task import Task
from easyvideor1.rewards.tasks import boolean, choice, number, temporal
from easyvideor1.types import Sample, Score

WEIGHTS: Mapping[str, float] = {"accuracy": 0.9, "format": 0.1}

TASKS: dict[str, Task] = {
    "multiple choice": choice.TASK,
    "numerical": number.NUMERICAL,
    "regression": number.REGRESSION,
    "boolean": boolean.TASK,
    "temporal grounding": temporal.TASK,
}


def score(
    sample: Sample,
    text: str,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    thinking: bool = False,
    overlong: float | None = None,
) -> Score:
    """Judge one response.

    Args:
        text: the response without special tokens.
        weights: part -> weight, summing to 1. The length part counts as 1 + overlong, so that a value stays in [0, 1].
        thinking: a think block was asked for, so the format part wants one.
        overlong: `parts.overlong_part` of the response, where its length in tokens is known.

    Returns:
        Score in [0, 1] with the parts "accuracy", "format" and, if given, "overlong" (in [-1, 0]).

    Raises:
        DataError: unknown problem type or unreadable gold answer; `check` finds these before a run.
        UsageError: a weight names a part that this response does not have.
    """
    task = task_of(sample)
    gold = task.read_gold(sample)
    response = read_response(text)
    body = response.answer
    answer, reason = None, ""
    if not response.answers:
        reason = "no complete answer block after the thinking"
    elif body is None:
        reason = "answer blocks contradict each other"
    elif len(body) > task.max_chars:
        reason = f"answer longer than {task.max_chars} characters"
    elif body.strip():
        answer = task.read_answer(sample, body)
    if answer is None and not reason:
        reason = "no single answer of the right kind in the answer block"
    accuracy = 0.0 if answer is None else task.accuracy(answer, gold)
    parts = {
        "accuracy": accuracy,
        "format": format_part(response, is_readable=answer is not None, thinking=thinking),
    }
    if overlong is not None:
        parts["overlong"] = overlong
    return Score(
        value=_weighted(parts, weights), parts=parts, parsed=None if answer is None else str(answer), reason=reason
    )


def task_of(sample: Sample) -> Task:
    """The task of a sample's problem type; DataError with the nearest name for an unknown type."""
    name = canonical(sample.problem_type)
    if name in TASKS:
        return TASKS[name]
    near = difflib.get_close_matches(name, TASKS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known types: {', '.join(sorted(TASKS))}"
    raise DataError(
        f"'{sample.problem_type}' has no reward; {hint}",
        where=sample.where or sample.id,
        field="problem_type",
        remedy="mend the row, or register a reward of your own for it",
    )


def check(samples: Iterable[Sample]) -> None:
    """Make sure that every sample can be judged; raises DataError at the first unknown type or unreadable gold."""
    for sample in samples:
        task_of(sample).read_gold(sample)


def _weighted(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    for name in weights:
        if name not in parts:
            raise UsageError(f"reward.weights names the part '{name}', but a response has only {', '.join(parts)}")
    value = sum(weight * (1.0 + parts[name] if name == "overlong" else parts[name]) for name, weight in weights.items())
    assert math.isfinite(value), (parts, weights)
    return min(1.0, max(0.0, value))
