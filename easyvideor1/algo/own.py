"""An advantage or a loss of the user's own: called, and its result checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.errors import RunError


def own_advantages(algorithm: Algorithm, rewards_G: Sequence[float]) -> list[float]:
    """[G] advantages by the algorithm's `own_advantage` of the rewards of a group (NaN where unscored), 0 for unscored
    ones.

    Raises:
        RunError: it raises, or returns something else than a finite number for each scored reward.
    """
    place = algorithm.own_advantage
    values = _called(algorithm, place, list(rewards_G))
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


def own_loss(algorithm: Algorithm, terms: Any) -> Any:
    """[N] losses of tokens by the algorithm's `own_loss` of `losses.Terms`.

    Raises:
        RunError: it raises, or returns a tensor of another shape.
    """
    place = algorithm.own_loss
    value_N = _called(algorithm, place, terms)
    if getattr(value_N, "shape", None) != terms.logprobs.shape:
        shape = list(getattr(value_N, "shape", ())) or type(value_N).__name__
        raise RunError(
            f"algorithm.options.own_loss: {place} must return a tensor with the loss of each of "
            f"{len(terms.logprobs)} tokens, got {shape}"
        )
    return value_N


def _called(algorithm: Algorithm, place: str | None, argument: Any) -> Any:
    assert place is not None, algorithm.name
    try:
        return algorithm.functions[place](argument)
    except Exception as error:  # whatever the user's code does wrong, the remedy is the same: correct the file
        raise RunError(f"{place}: {type(error).__name__}: {error}; correct the file, then run again") from error
