"""Mathematical answers: right where they say the same as the gold, however they are written."""

from __future__ import annotations

from easyvideor1.rewards.algebra import is_small, read_expression, same_math
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample


def _read_gold(sample: Sample) -> str:
    text = read_expression(sample.gold)
    if text is None or not is_small(text):
        raise bad_gold(sample, "a mathematical answer is one expression of moderate size")
    return text


TASK = Task(
    read_gold=_read_gold,
    read_answer=lambda sample, text: read_expression(text),
    accuracy=lambda answer, gold: float(same_math(answer, gold)),
    is_heavy=True,
)
