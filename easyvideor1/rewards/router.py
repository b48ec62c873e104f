"""The one grader: problem type -> task, response -> Score. Training, evaluation and the command line all end here."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from easyvideor1.errors import DataError, JobError, UsageError
from easyvideor1.rewards.input_functions import Answered, InputFunction
from easyvideor1.rewards.own_code import call, wanted_names
from easyvideor1.rewards.parse import Response, read_response
from easyvideor1.rewards.parts import format_part
from easyvideor1.rewards.readings import TAGS, Reading
from easyvideor1.rewards.registry import REGISTRY
from easyvideor1.rewards.task import Task
from easyvideor1.rewards.tasks import (
    boolean,
    choice,
    code,
    math,
    number,
    preference,
    selection,
    spatial,
    temporal,
    writing,
)
from easyvideor1.types import Sample, Score

WEIGHTS: Mapping[str, float] = {"accuracy": 0.9, "format": 0.1}
MAX_PARSED_CHARS, MAX_REASON_CHARS, MAX_PARTS = 4096, 500, 64
"""Bounds on what a reward of the user's own returns: the rest is cut, or the result refused."""

TASKS: dict[str, Task] = {
    "multiple choice": choice.TASK,
    "multiple select": selection.TASK,
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


class TaskScore(NamedTuple):
    """The accuracy of a response, before the parts that do not depend on its problem type."""

    accuracy: float
    parsed: str | None
    """What was read out of the response; None for nothing."""
    reason: str = ""
    """Why nothing was read."""
    parts: Mapping[str, float] = MappingProxyType({})
    """Further parts of the score, from a reward of the user."""


def score(
    sample: Sample,
    text: str,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    thinking: bool = False,
    overlong: float | None = None,
    num_tokens: int | None = None,
    reading: Reading = TAGS,
) -> Score:
    """Score one response.

    Args:
        text: the response without special tokens.
        weights: part -> weight, summing to 1. The length part counts as 1 + overlong, so that a value stays in [0, 1].
        thinking: a think block was asked for, so the format part wants one.
        overlong: `parts.overlong_part` of the response, where its length in tokens is known.
        num_tokens: its length, for code of the user's that looks at it; None: not known.
        reading: where the answer stands; training asks for it in tags.

    Returns:
        Score in [0, 1] with the parts "accuracy", "format" and, if given, "overlong" (in [-1, 0]).

    Raises:
        DataError: unknown problem type or unreadable gold answer; `check` finds these before a run.
        UsageError: a weight names a part that this response does not have.
    """
    answered, response = Answered(sample, text, num_tokens, overlong), read_response(text)
    own_reward = REGISTRY.reward_of(sample.problem_type)
    if isinstance(own_reward, InputFunction):
        return scores_of_inputs([answered], thinking=thinking)[0]
    found = _by_own_reward(own_reward, sample, text) if own_reward else _by_task(sample, response, reading)
    if isinstance(found, Score):
        return found
    return finish(found, answered, response, weights=weights, thinking=thinking)


def scores_of_inputs(answered: Sequence[Answered], *, thinking: bool) -> list[Score]:
    """Scores by a function of `reward_input` dictionaries, in one call where it takes many.

    Their values are what it calls overall; the parts that every score has are added to be looked at.

    Args:
        answered: responses to questions whose reward is one such function.
    """
    own_reward = REGISTRY.reward_of(answered[0].sample.problem_type)
    assert isinstance(own_reward, InputFunction), answered[0].sample.problem_type
    made = []
    for item, score in zip(answered, own_reward.scores(answered), strict=True):
        form = format_part(read_response(item.text), is_readable=True, thinking=thinking)
        made.append(replace(score, parts=_with_further_parts({"format": form, **score.parts}, item)))
    return made


def quick_score(answered: Answered, *, weights: Mapping[str, float], thinking: bool, reading: Reading) -> Score | None:
    """The score of a response that costs a few milliseconds at most.

    None where it may take long or runs code of the user's, so that it belongs into a process that can be killed.
    """
    sample, text = answered.sample, answered.text
    if runs_own_code(sample):
        return None
    task = task_of(sample)
    if task.is_heavy and not (task.is_quick(text) and task.is_quick(sample.gold)):
        return None
    response = read_response(text)
    found = _by_task(sample, response, reading, only_quickly=task.is_heavy)
    return None if found is None else finish(found, answered, response, weights=weights, thinking=thinking)


def finish(
    found: TaskScore, answered: Answered, response: Response, *, weights: Mapping[str, float], thinking: bool
) -> Score:
    """Add the parts that do not depend on the problem type to an accuracy, and weigh all of them.

    Args:
        response: the text of `answered`, read.
    """
    form = format_part(response, is_readable=found.parsed is not None, thinking=thinking)
    parts = _with_further_parts({"accuracy": found.accuracy, "format": form, **found.parts}, answered)
    return Score(value=_weighted(parts, weights), parts=parts, parsed=found.parsed, reason=found.reason)


def _with_further_parts(parts: Mapping[str, float], answered: Answered) -> dict[str, float]:
    """The parts, the length part, and those of the user's functions, which may look at the accuracy and the length."""
    sample, text, num_tokens, overlong = answered
    all_parts = {**parts} if overlong is None else {**parts, "overlong": overlong}
    seen = {"accuracy": parts["accuracy"], "num_tokens": num_tokens}
    for name, function in REGISTRY.parts.items():
        place = REGISTRY.places.get(("part", name), name)
        wanted = wanted_names(function) & seen.keys()
        if "num_tokens" in wanted and num_tokens is None:
            raise JobError(
                f"the part '{name}' looks at num_tokens, but this response came without its length ({place})"
            )
        value = call(function, sample, text, **{key: seen[key] for key in wanted})
        if not _is_unit(value):
            raise JobError(f"the part '{name}' must be a number in [0, 1], got {value!r} ({place})")
        all_parts[name] = min(1.0, max(0.0, float(value)))
    return all_parts


def _by_task(sample: Sample, response: Response, reading: Reading, *, only_quickly: bool = False) -> Any:
    """The score by the built-in task; None where that takes long and only quick scores are asked for."""
    task = task_of(sample)
    gold = _gold(sample, task)
    answer, reason = read_answer(sample, response, reading)
    if answer is None:
        return TaskScore(0.0, None, reason)
    measure = task.quick_accuracy if only_quickly and task.quick_accuracy else task.accuracy
    accuracy = measure(answer, gold)
    if accuracy is None:
        return None
    if not 0.0 <= accuracy <= 1.0:
        if not _is_unit(accuracy):
            raise ValueError(f"an accuracy must be a number in [0, 1], got {accuracy!r}")
        accuracy = min(1.0, max(0.0, accuracy))
    return TaskScore(accuracy, task.show(answer))


def read_answer(sample: Sample, response: Response, reading: Reading) -> tuple[Any, str]:
    """The answer of a response, and why there is none."""
    task = task_of(sample)
    texts, reason = reading.find(response)
    for text in texts:
        if len(text) > task.max_chars:
            reason = f"answer longer than {task.max_chars} characters"
            continue
        answer = task.read_answer(sample, text)
        if answer is not None:
            return answer, ""
    if reading.is_prose and task.read_prose and texts and len(texts[-1]) <= task.max_chars:
        answer = task.read_prose(sample, texts[-1])
        if answer is not None:
            return answer, ""
    return None, reason or f"no single answer of the right kind in the {_PLACES.get(reading.name, 'response')}"


_PLACES = {"tags": "answer block"}


MAX_GOLDS = 256
_GOLDS: dict[tuple[str, str, tuple[str, ...]], Any] = {}
"""Golds that were read: all responses to a question share one."""


def _gold(sample: Sample, task: Task) -> Any:
    key = (sample.problem_type, sample.gold, sample.options)
    if key not in _GOLDS:
        if len(_GOLDS) >= MAX_GOLDS:
            _GOLDS.clear()
        _GOLDS[key] = task.read_gold(sample)
    return _GOLDS[key]


def _by_own_reward(function: Callable[..., Any], sample: Sample, text: str) -> TaskScore | Score:
    """Accuracy, and maybe further parts, by a function that the user registered."""
    found = call(function, sample, text)
    place = REGISTRY.place_of(sample.problem_type)
    if not isinstance(found, Score):
        raise JobError(f"the reward must return a Score, got {type(found).__name__} ({place})")
    found = _bounded(found)
    if not found.is_scored:
        return found
    accuracy = found.parts.get("accuracy", found.value)
    if not _is_unit(accuracy):
        raise JobError(f"the accuracy must be a number in [0, 1], got {accuracy!r} ({place})")
    return TaskScore(float(accuracy), found.parsed if found.parsed is not None else "", found.reason, found.parts)


def _bounded(score: Score) -> Score:
    """What a user's function read and says, in a size that records and reports can hold."""
    if len(score.parts) > MAX_PARTS:
        raise JobError(f"the reward returned {len(score.parts)} parts, the most is {MAX_PARTS}")
    parsed = None if score.parsed is None else str(score.parsed)[:MAX_PARSED_CHARS]
    return replace(score, parsed=parsed, reason=str(score.reason)[:MAX_REASON_CHARS])


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
        remedy="correct the problem_type, or register a reward of your own for it",
    )


def check(samples: Iterable[Sample]) -> None:
    """Make sure that every sample can be scored; raises DataError at the first unknown type or unreadable gold."""
    for sample in samples:
        if REGISTRY.reward_of(sample.problem_type) is None:
            task = task_of(sample)
            task.read_gold(sample)
            task.check_gold(sample)


def is_checked_quickly(sample: Sample) -> bool:
    """True where reading the gold answer costs a few milliseconds at most, whatever it is."""
    if REGISTRY.reward_of(sample.problem_type) is not None:
        return True
    task = task_of(sample)
    return not task.is_heavy or (task.is_quick(sample.gold) and not task.is_gold_dear(sample))


def can_be_interrupted(sample: Sample, text: str | None) -> bool:
    """True where scoring a response is Python code, or compiled code that soon ends."""
    task = task_of(sample)
    return not task.is_compiled or (task.is_tame(text or "") and task.is_tame(sample.gold))


def runs_own_code(sample: Sample) -> bool:
    """True where code of the user's takes part in scoring a sample."""
    return REGISTRY.reward_of(sample.problem_type) is not None or bool(REGISTRY.parts)


def is_scored_in_batches(sample: Sample) -> bool:
    """True where the user's function scores many responses in one call."""
    own_reward = REGISTRY.reward_of(sample.problem_type)
    return isinstance(own_reward, InputFunction) and own_reward.is_batch


def _weighted(parts: Mapping[str, float], weights: Mapping[str, float]) -> float:
    value = 0.0
    for name, weight in weights.items():
        if name not in parts:
            raise UsageError(f"reward.weights names the part '{name}', but a response has only {', '.join(parts)}")
        value += weight * (1.0 + parts[name] if name == "overlong" else parts[name])
    return min(1.0, max(0.0, value))


def _is_unit(value: object) -> bool:
    """True for a finite number in [0, 1], up to rounding."""
    return isinstance(value, (int, float)) and -1e-9 <= value <= 1 + 1e-9


_PICTURE = '<svg viewBox="0 0 9 9"><rect width="5" height="5"/><text x="1" y="5">a</text></svg>'
_FIRST_USES = {"math": (r"\sum_{n=1}^{3} n", r"\sum_{k=1}^{3} k"), "svg code": (_PICTURE, _PICTURE)}
"""Problem type -> a gold and an answer that make it import everything it ever needs."""


@functools.cache
def warm_up(problem_type: str) -> None:
    """Import what a type needs by scoring an answer, so that the first response of a worker is not late."""
    if problem_type in _FIRST_USES and REGISTRY.reward_of(problem_type) is None:
        gold, answer = _FIRST_USES[problem_type]
        score(Sample(id="", problem_type=problem_type, problem="", gold=gold), f"<answer>{answer}</answer>")
