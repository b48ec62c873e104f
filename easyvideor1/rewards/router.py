"""The one grader: problem type -> task, response -> Score. Training, evaluation and the command line all end here."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from easyvideor1.errors import DataError, UsageError
from easyvideor1.rewards.parse import Response, read_response
from easyvideor1.rewards.parts import format_part
from easyvideor1.rewards.registry import REGISTRY, RewardFunction
from easyvideor1.rewards.task import Task
from easyvideor1.rewards.tasks import boolean, choice, code, math, number, preference, spatial, temporal, writing
from easyvideor1.types import Sample, Score

WEIGHTS: Mapping[str, float] = {"accuracy": 0.9, "format": 0.1}

TASKS: dict[str, Task] = {
    "multiple choice": choice.TASK,
    "numerical": number.NUMERICAL,
    "regression": number.REGRESSION,
    "boolean": boolean.TASK,
    "temporal grounding": temporal.TASK,
    "spatial grounding": spatial.GROUNDING,
    "tracking": spatial.TRACKING,
    "spatial-temporal grounding": spatial.SPATIAL_TEMPORAL,
    "segmentation": spatial.SEGMENTATION,
    "open-ended": writing.OPEN_ENDED,
    "math": math.TASK,
    "ocr": writing.OCR,
    "svg code": code.SVG,
    "html code": code.HTML,
    "python code": code.PYTHON,
    "preference": preference.TASK,
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
    response = read_response(text)
    own_reward = REGISTRY.rewards.get(sample.problem_type)
    judged = _by_own_reward(own_reward, sample, text) if own_reward else _by_task(sample, response)
    if not judged.is_scored:
        return judged
    return finish(judged, sample, text, response=response, weights=weights, thinking=thinking, overlong=overlong)


def finish(
    judged: Score,
    sample: Sample,
    text: str,
    *,
    response: Response,
    weights: Mapping[str, float],
    thinking: bool,
    overlong: float | None,
) -> Score:
    """Add the parts that do not depend on the problem type to an accuracy, and weigh all of them."""
    readable = format_part(response, is_readable=judged.parsed is not None, thinking=thinking)
    parts = {"accuracy": judged.value, "format": readable} | dict(judged.parts)
    if overlong is not None:
        parts["overlong"] = overlong
    for name, function in REGISTRY.parts.items():
        parts[name] = _unit(function(sample, text), f"the part '{name}'")
    return replace(judged, value=_weighted(parts, weights), parts=parts)


def _by_task(sample: Sample, response: Response) -> Score:
    """Accuracy by the built-in task."""
    task = task_of(sample)
    gold = _gold(sample)
    answer, reason = None, unreadable(response, max_chars=task.max_chars)
    if response.answer is not None and not reason:
        answer = task.read_answer(sample, response.answer)
        reason = "" if answer is not None else "no single answer of the right kind in the answer block"
    if answer is None:
        return Score(value=0.0, reason=reason)
    return Score(value=_unit(task.accuracy(answer, gold), "the accuracy"), parsed=task.show(answer))


def _gold(sample: Sample) -> Any:
    """The gold answer of a sample, read once for all responses to it."""
    try:
        return _read_gold(sample.problem_type, sample.gold, sample.options)
    except DataError:
        return task_of(sample).read_gold(sample)  # raises again, with the place of the row


@functools.lru_cache(maxsize=128)
def _read_gold(problem_type: str, answer: str, options: tuple[str, ...]) -> Any:
    sample = Sample(id="", problem_type=problem_type, problem="", gold=answer, options=options)
    return TASKS[problem_type].read_gold(sample)


def _by_own_reward(function: RewardFunction, sample: Sample, text: str) -> Score:
    """Accuracy, and maybe further parts, by a function that the user registered."""
    judged = function(sample, text)
    if not isinstance(judged, Score):
        raise TypeError(f"the reward of '{sample.problem_type}' must return a Score, got {type(judged).__name__}")
    if not judged.is_scored:
        return judged
    accuracy = _unit(judged.parts.get("accuracy", judged.value), "the accuracy")
    return replace(judged, value=accuracy, parsed=judged.parsed if judged.parsed is not None else "")


def unreadable(response: Response, *, max_chars: int) -> str:
    """Why the answer of a response cannot be read at all; "" where it can."""
    if not response.answers:
        return "no complete answer block after the thinking"
    if response.answer is None:
        return "answer blocks contradict each other"
    if len(response.answer) > max_chars:
        return f"answer longer than {max_chars} characters"
    return "" if response.answer.strip() else "the answer block is empty"


def task_of(sample: Sample) -> Task:
    """The task of a sample's problem type; DataError with the nearest name for an unknown type."""
    name = sample.problem_type
    if name in TASKS:
        return TASKS[name]
    known = sorted({*TASKS, *REGISTRY.rewards})
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known types: {', '.join(known)}"
    raise DataError(
        f"'{sample.problem_type}' has no reward; {hint}",
        where=sample.where or sample.id,
        field="problem_type",
        remedy="mend the row, or register a reward of your own for it",
    )


def check(samples: Iterable[Sample]) -> None:
    """Make sure that every sample can be judged; raises DataError at the first unknown type or unreadable gold."""
    for sample in samples:
        if sample.problem_type not in REGISTRY.rewards:
            task_of(sample).read_gold(sample)


def is_heavy(sample: Sample) -> bool:
    """True where judging may take long or runs code of the user's, so that it belongs into a killable process."""
    return sample.problem_type in REGISTRY.rewards or bool(REGISTRY.parts) or task_of(sample).is_heavy


def _weighted(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    for name in weights:
        if name not in parts:
            raise UsageError(f"reward.weights names the part '{name}', but a response has only {', '.join(parts)}")
    value = sum(weight * (1.0 + parts[name] if name == "overlong" else parts[name]) for name, weight in weights.items())
    return min(1.0, max(0.0, value))


def _unit(value: float, what: str) -> float:
    """A value that must be finite and in [0, 1], up to rounding."""
    if not (isinstance(value, (int, float)) and -1e-9 <= value <= 1 + 1e-9):
        raise ValueError(f"{what} must be a number in [0, 1], got {value!r}")
    return min(1.0, max(0.0, float(value)))


_PICTURE = '<svg viewBox="0 0 9 9"><rect width="5" height="5"/><text x="1" y="5">a</text></svg>'
_FIRST_USES = {"math": (r"(x + 1)^2 \sin x", r"x^2 \sin x + 2x \sin x + \sin x"), "svg code": (_PICTURE, _PICTURE)}
"""Problem type -> a gold and an answer that make it import everything it ever needs."""


@functools.cache
def warm_up(problem_type: str) -> None:
    """Import what a type needs by judging an answer, so that the first response of a worker is not late."""
    if problem_type in _FIRST_USES:
        gold, answer = _FIRST_USES[problem_type]
        score(Sample(id="", problem_type=problem_type, problem="", gold=gold), f"<answer>{answer}</answer>")
