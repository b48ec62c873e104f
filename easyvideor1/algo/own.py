"""An advantage or a loss of the user's own, from a file; whoever puts a run together loads it and registers it here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from easyvideor1.errors import RunError

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Place ("file.py:function") -> the function there."""


def own_advantages(place: str, rewards_G: Sequence[float]) -> list[float]:
    """[G] advantages by the user's function of the rewards of a group (NaN where unscored), 0 for unscored ones.

    Raises:
        RunError: it raises, or returns something else than a finite number for each scored reward.
    """
    values = _called(place, list(rewards_G))
    try:
        found = [float(value) for value in values]
    except (TypeError, ValueError):
        raise RunError(f"algorithm.options.own_advantage: {place} must return a list of numbers") from None
    scored = [value for value, reward in zip(found, rewards_G, strict=False) if not math.isnan(reward)]
    if len(found) != len(rewards_G) or not all(map(math.isfinite, scored)):
        raise RunError(
            f"algorithm.options.own_advantage: {place} must return a finite number for each of {len(rewards_G)} "
            f"rewards, got {found}"
        )
    return [0.0 if math.isnan(reward) else value for value, reward in zip(found, rewards_G, strict=True)]


def own_loss(place: str, terms: Any) -> Any:
    """[N] losses of tokens by the user's function of `losses.Terms`.

    Raises:
        RunError: it raises, or returns a tensor of another shape.
    """
    value_N = _called(place, terms)
    if getattr(value_N, "shape", None) != terms.logprobs.shape:
        shape = list(getattr(value_N, "shape", ())) or type(value_N).__name__
        raise RunError(
            f"algorithm.options.own_loss: {place} must return a tensor with the loss of each of "
            f"{len(terms.logprobs)} tokens, got {shape}"
        )
    return value_N


def _called(place: str, argument: Any) -> Any:
    try:
        return FUNCTIONS[place](argument)
    except Exception as error:  # whatever the user's code does wrong, the remedy is the same: correct the file
        raise RunError(f"{place}: {type(error).__name__}: {error}; correct the file, then run again") from error
