"""Numerical answers (equal or not) and regression (mean relative accuracy)."""

from __future__ import annotations

from easyvideor1.rewards.measures import mean_relative_accuracy, numbers_agree
from easyvideor1.rewards.numbers import Number, read_number
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
    accuracy=lambda answer, gold: numbers_agree(answer.value, gold.value, is_gold_whole=gold.is_whole),
)
REGRESSION = Task(
    read_gold=_read_gold,
    read_answer=_read_answer,
    accuracy=lambda answer, gold: mean_relative_accuracy(answer.value, gold.value),
)
