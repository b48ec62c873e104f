"""Rewards written for EasyR1 and its descendants: functions of `reward_input` dictionaries, run as they are.

Such a function takes one dictionary, or a list of them, with `response`, `response_length` (tokens, where known),
`ground_truth`, `data_type`, `problem_type`, `problem` and `problem_id`, each as the row writes it. It returns one
dictionary for each, with `overall` (the whole reward), often `accuracy` and `format`, and further numbers. `overall` is
taken as it is: no weight applies to it. All numbers become parts of the score, to be logged.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from easyvideor1.errors import JobError
from easyvideor1.rewards.own_code import call
from easyvideor1.types import Sample, Score

MAX_PARTS = 64
"""Numbers that one result may hold."""


class Answered(NamedTuple):
    """A response on its way to a reward."""

    sample: Sample
    text: str
    num_tokens: int | None = None
    """Its length, where it is known."""
    overlong: float | None = None
    """`parts.overlong_part` of it, where its length counts."""


@dataclass(frozen=True)
class InputFunction:
    """A function of `reward_input` dictionaries as a reward of this package."""

    function: Callable[..., Any]
    is_batch: bool
    """The function takes a list of dictionaries; otherwise one."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments from the recipe."""
    place: str = ""
    """ "file.py:function", for messages."""

    def scores(self, answered: Sequence[Answered]) -> list[Score]:
        """The scores of some responses, in order.

        Raises:
            JobError: the results are not what such a function returns.
        """
        inputs = [reward_input(item) for item in answered]
        if self.is_batch:
            results = call(self.function, inputs, **self.arguments)
            if not isinstance(results, (list, tuple)) or len(results) != len(inputs):
                count = f"{len(results)}" if isinstance(results, (list, tuple)) else type(results).__name__
                raise JobError(f"{len(inputs)} reward inputs gave {count} results ({self.place})")
        else:
            results = [call(self.function, item, **self.arguments) for item in inputs]
        return [self._score(result) for result in results]

    def _score(self, result: Any) -> Score:
        if not isinstance(result, Mapping) or "overall" not in result:
            raise JobError(f"a reward is a dictionary with 'overall', got {result!r:.80} ({self.place})")
        parts = {str(name): float(value) for name, value in result.items() if _is_number(value) and name != "overall"}
        if not _is_number(result["overall"]) or not math.isfinite(result["overall"]):
            raise JobError(f"'overall' must be a finite number, got {result['overall']!r:.80} ({self.place})")
        if len(parts) > MAX_PARTS or not all(map(math.isfinite, parts.values())):
            raise JobError(f"a reward holds at most {MAX_PARTS} finite numbers, got {result!r:.80} ({self.place})")
        overall = float(result["overall"])
        return Score(value=overall, parts={"accuracy": min(1.0, max(0.0, overall)), **parts}, parsed="")


def reward_input(answered: Answered) -> dict[str, Any]:
    """The dictionary of a response: the row's fields as the row writes them."""
    sample, given = answered.sample, answered.sample.given
    return {
        "response": answered.text,
        **({} if answered.num_tokens is None else {"response_length": answered.num_tokens}),
        "ground_truth": given.get("answer", sample.gold),
        "data_type": given.get("data_type", sample.modality),
        "problem_type": given.get("problem_type", sample.problem_type),
        "problem": sample.problem,
        "problem_id": given.get("problem_id", sample.id),
    }


def takes_inputs(function: Callable) -> bool:
    """Whether a function is one of `reward_input` dictionaries: it needs one argument, where a reward of this package
    takes a sample and a text, and either the argument is called so or its file gives REWARD_TYPE or REWARD_NAME."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return False
    places = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    needed = [item for item in places if item.default is item.empty]
    module = inspect.getmodule(function)
    says_so = any(hasattr(module, name) for name in ("REWARD_TYPE", "REWARD_NAME"))
    return len(needed) == 1 and (says_so or needed[0].name.startswith("reward_input"))


def takes_list(function: Callable) -> bool:
    """Whether it takes a list of inputs: its file says so in REWARD_TYPE ("batch" or "sequential"); without
    that a single one where its argument is called `reward_input`, and a list where not."""
    kind = getattr(inspect.getmodule(function), "REWARD_TYPE", None)
    if kind in ("batch", "sequential"):
        return kind == "batch"
    return next(iter(inspect.signature(function).parameters)) != "reward_input"


def _is_number(value: Any) -> bool:
    """True for numbers, those of NumPy included, and truth values."""
    return isinstance(value, (int, float)) or (hasattr(value, "__float__") and getattr(value, "ndim", None) == 0)
