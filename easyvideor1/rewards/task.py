"""The functions of a problem type: reading its gold answer, reading a response, comparing the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.rewards.parse import MAX_ANSWER_CHARS
from easyvideor1.types import Sample


@dataclass(frozen=True, kw_only=True)
class Task:
    """The reward of one problem type."""

    read_gold: Callable[[Sample], Any]
    """The gold answer, ready to compare; raises DataError where it cannot be read."""
    read_answer: Callable[[Sample, str], Any]
    """The answer in a text; None where there is none, or more than one."""
    read_prose: Callable[[Sample, str], Any] | None = None
    """The answer somewhere in free text, for readings that look there; None: there is no such rule for the type."""
    accuracy: Callable[[Any, Any], float]
    """Answer and gold -> [0, 1]."""
    show: Callable[[Any], str] = str
    """The answer as text for people."""
    is_heavy: bool = False
    """True: may take long or much memory on a hostile answer, and then runs in a killable process."""
    is_quick: Callable[[str], bool] = lambda text: True
    """For a heavy type: texts, of golds and answers, that are always read in a few milliseconds."""
    is_compiled: bool = False
    """For a heavy type: True where compiled code reads it, which cannot be interrupted and may crash."""
    is_tame: Callable[[str], bool] = lambda text: False
    """For a compiled type: texts that a worker can read without a process for them alone."""
    quick_accuracy: Callable[[Any, Any], float | None] | None = None
    """For a heavy type: the accuracy where computing it is quick, or None where only `accuracy` can tell. None as the
    function: `accuracy` itself is quick."""
    is_gold_dear: Callable[[Sample], bool] = lambda sample: False
    """For a heavy type: True where `check_gold` must run in a worker."""
    check_gold: Callable[[Sample], None] = lambda sample: None
    """The costly part of reading a gold answer, done once before a run; raises DataError where it cannot be read."""
    max_chars: int = MAX_ANSWER_CHARS


def bad_gold(sample: Sample, problem: str, *, remedy: str = "") -> DataError:
    """The error for a gold answer that no response could be compared with."""
    shown = sample.gold if len(sample.gold) <= 80 else sample.gold[:77] + "..."
    return DataError(
        f"{problem}, got {shown!r}",
        where=sample.where or sample.id,
        field="answer",
        remedy=remedy
        or f"write the answer in that form, or give the row another problem_type than '{sample.problem_type}'",
    )
