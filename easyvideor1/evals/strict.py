"""The strict score: what the grader of training makes of a response, whose answer may stand outside of tags.

The one place where benchmarks meet `easyvideor1.rewards`. Evaluation differs from training in three measures only: mean
relative accuracy counts its thresholds in, a reversed span is swapped, and a tube has its overlaps apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from easyvideor1.evals.benchmark import Item, Outcome
from easyvideor1.evals.metrics import mean_relative_accuracy
from easyvideor1.evals.puzzles import moves_in, reaches_target
from easyvideor1.evals.spans import first_span, tube_measures
from easyvideor1.rewards import router
from easyvideor1.rewards.numbers.quantity import read_number
from easyvideor1.rewards.parse import fold, plain, read_response
from easyvideor1.rewards.readings import reading_of
from easyvideor1.rewards.tasks.temporal import TASK as SPAN

HIDDEN = "hidden"
"""The `judge` of an item whose gold answer the authors do not publish."""


def strict(item: Item, response: str, *, reading: str) -> Outcome:
    """The worth of a response; unscored where it needs the judge."""
    if item.judge:
        reason = "its gold answer is not public" if item.judge == HIDDEN else "needs a judge"
        return Outcome(item=item, value=None, reason=reason)
    if not response.strip():
        return Outcome(item=item, value=0.0, parts=_zero_parts(item), reason="empty response")
    if not item.sample.gold and item.form != "plan":
        return Outcome(item=item, value=0.0, reason="the item has no right answer")
    kind = item.sample.problem_type
    if item.form == "plan":
        return _plan(item, response)
    if item.form == "tube":
        return _tube(item, response)
    if kind == "temporal grounding":
        return _span(item, response, reading)
    if kind == "regression":
        return _number(item, response, reading)
    golds: Sequence[str] = item.fields.get("golds") or [item.sample.gold]
    return max((_graded(item, response, gold, reading) for gold in golds), key=lambda outcome: outcome.value or 0.0)


def letter_of(item: Item, response: str, *, reading: str) -> str:
    """The letter of the option that a response names, whatever is right; "" where it names none."""
    return (_graded(item, response, "A", reading).parsed or "") if response.strip() else ""


def _graded(item: Item, response: str, gold: str, reading: str) -> Outcome:
    """The outcome by the task of the problem type; open answers that a rule compares must be the same words."""
    sample = replace(item.sample, gold=gold)
    if sample.problem_type == "numerical" and read_number(gold) is None:
        sample = replace(sample, problem_type="open-ended")
    if sample.problem_type == "open-ended":
        said = texts(response, reading)
        is_same = any(fold(plain(text)) == fold(plain(gold)) for text in said)
        return Outcome(item=item, value=float(is_same), parsed=said[0] if said else None)
    score = router.score(sample, response, reading=reading_of(reading))
    value = score.parts.get("accuracy", 0.0)
    return Outcome(item=item, value=value, parsed=score.parsed, reason=score.reason)


def _number(item: Item, response: str, reading: str) -> Outcome:
    gold = read_number(item.sample.gold)
    for text in texts(response, reading):
        number = read_number(text)
        if number is not None and gold is not None:
            value = mean_relative_accuracy(number.value, gold.value)
            return Outcome(item=item, value=value, parsed=str(number))
    return Outcome(item=item, value=0.0, reason="no single number")


def _span(item: Item, response: str, reading: str) -> Outcome:
    gold = SPAN.read_gold(item.sample)
    for text in texts(response, reading):
        span = SPAN.read_answer(item.sample, text) or _swapped(text)
        if span is not None:
            return Outcome(item=item, value=SPAN.accuracy(span, gold), parsed=str(span))
    return Outcome(item=item, value=0.0, reason="no time span")


def _swapped(text: str) -> tuple[float, float] | None:
    span = first_span(text)
    return span if span and span[0] < span[1] else None


def _tube(item: Item, response: str) -> Outcome:
    measures = dict(tube_measures(response, item))
    return Outcome(item=item, value=measures.pop("value"), parts=measures, parsed="")


def _zero_parts(item: Item) -> dict[str, float]:
    return (
        {name: value for name, value in tube_measures("", item).items() if name != "value"}
        if item.form == "tube"
        else {}
    )


def _plan(item: Item, response: str) -> Outcome:
    """A plan is played; it must stand behind "Final Answer"."""
    found = re.split(r"final answer\W{0,4}", response.rpartition("</think>")[2], flags=re.IGNORECASE)
    if len(found) < 2:
        return Outcome(item=item, value=0.0, reason="no final answer")
    demo = item.fields["demo"]
    moves = moves_in(found[-1], demo)
    return Outcome(item=item, value=float(reaches_target(demo, item.fields["row"], moves)), parsed=", ".join(moves))


def texts(response: str, reading: str) -> Sequence[str]:
    """The texts of a response that may hold its answer, the likeliest first, by the name of a reading."""
    return reading_of(reading).find(read_response(response))[0]
