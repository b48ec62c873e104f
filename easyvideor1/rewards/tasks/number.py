"""Numerical answers (equal or not) and regression (mean relative accuracy)."""

from __future__ import annotations

from easyvideor1.rewards.measures import mean_relative_accuracy
from easyvideor1.rewards.numbers.quantity import Number, comparable, read_number, same_number
from easyvideor1.rewards.numbers.units import BARE
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample


def _read_gold(sample: Sample) -> Number:
    number = read_number(sample.gold)
    if number is None:
        raise bad_gold(sample, "a numerical answer is one finite number")
    return number


def _read_answer(sample: Sample, text: str) -> Number | None:
    return read_number(text)


NUMERICAL = Task(
    read_gold=_read_gold,
    read_answer=_read_answer,
    accuracy=lambda answer, gold: float(same_number(answer, gold)),
)


def _relative_accuracy(answer: Number, gold: Number) -> float:
    if answer.unit is gold.unit is BARE and not (answer.is_percent or gold.is_percent):
        return mean_relative_accuracy(answer.num * gold.den, gold.num * answer.den)  # exact, and the same share
    values = comparable(answer, gold)
    return 0.0 if values is None else mean_relative_accuracy(*values)


REGRESSION = Task(
    read_gold=_read_gold,
    read_answer=_read_answer,
    accuracy=_relative_accuracy,
)
