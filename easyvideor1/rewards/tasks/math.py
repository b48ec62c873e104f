"""Mathematical answers: right where they say the same as the gold, however they are written."""

from __future__ import annotations

from easyvideor1.rewards.algebra.compare import OpenError, kind_of, leave_open, open_parts, same_math
from easyvideor1.rewards.algebra.latex import read_expression
from easyvideor1.rewards.algebra.size import is_small
from easyvideor1.rewards.algebra.symbols import is_readable, same_symbols
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample


def _read_gold(sample: Sample) -> str:
    text = read_expression(sample.gold)
    kind = kind_of(text) if text else ""
    if text is None or not kind or (kind == "algebra" and not is_small(text)):
        raise bad_gold(sample, "a mathematical answer is one expression of moderate size")
    return text


def _is_for_algebra(sample: Sample) -> bool:
    text = read_expression(sample.gold)
    return bool(text) and bool(open_parts(text or ""))


def _check_gold(sample: Sample) -> None:
    for part in open_parts(read_expression(sample.gold) or ""):
        if not is_readable(part):
            raise bad_gold(sample, f"{part!r} in a mathematical answer is no expression that algebra can read")


def _quick(answer: str, gold: str) -> float | None:
    try:
        return float(same_math(answer, gold, algebra=leave_open))
    except OpenError:
        return None


TASK = Task(
    read_gold=_read_gold,
    read_answer=lambda sample, text: read_expression(text),
    accuracy=lambda answer, gold: float(same_math(answer, gold, algebra=same_symbols)),
    quick_accuracy=_quick,
    is_heavy=True,
    is_gold_dear=_is_for_algebra,
    check_gold=_check_gold,
)
