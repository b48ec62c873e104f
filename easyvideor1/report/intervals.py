"""95 % intervals of accuracies and of their change, for answers scored in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959964


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean with the interval that holds the true one 95 times in 100."""

    mean: float
    low: float
    high: float
    count: int
    """Things the mean is over."""


def accuracy(values: Sequence[float]) -> Estimate:
    """Mean of scores in [0, 1] with Wilson's interval (Wilson 1927, JASA 22).

    Exact counting statistics for right/wrong scores. Scores between 0 and 1 vary less than right/wrong ones of the
    same mean, so for them the interval is wider than it needs to be, never narrower.

    Raises:
        ValueError: no values.

    >>> estimate = accuracy([1.0] * 8 + [0.0] * 2)
    >>> round(estimate.low, 3), estimate.mean, round(estimate.high, 3)
    (0.49, 0.8, 0.943)
    """
    if not values:
        raise ValueError("an accuracy needs at least one answer")
    n = len(values)
    mean = math.fsum(values) / n
    shrink = 1 + Z95**2 / n
    middle = (mean + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n**2))
    return Estimate(mean=mean, low=max(0.0, middle - half), high=min(1.0, middle + half), count=n)


def change(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """Mean of after - before over the same questions, with an interval that uses the pairing.

    The interval is the adjusted Wald interval of Agresti and Min (2005, Statistics in Medicine 24), which adds half a
    pair to each of the four right/wrong cells: two pairs in all, so it has a width even where no answer changed.

    Args:
        before: scores in [0, 1], one per question.
        after: scores of the same questions in the same order.

    Raises:
        ValueError: unequal numbers, or none.
    """
    differences = [late - early for early, late in zip(before, after, strict=True)]
    if not differences:
        raise ValueError("a change needs at least one pair")
    n = len(differences)
    total, squares = math.fsum(differences), math.fsum(d * d for d in differences)
    middle = total / (n + 2)
    half = Z95 * math.sqrt(((squares + 1) / (n + 2) - middle**2) / (n + 2))
    return Estimate(mean=total / n, low=max(-1.0, middle - half), high=min(1.0, middle + half), count=n)
