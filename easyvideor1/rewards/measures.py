"""Measures between two readable answers, each in [0, 1]; intervals in seconds, boxes [x1, y1, x2, y2]."""

from __future__ import annotations

Interval = tuple[float, float]
Box = tuple[float, float, float, float]

RELATIVE_TOLERANCE = 1e-3
"""For golds written with decimals or as fractions: 3.142 answers 3.14."""
_ROUNDING = 1e-9


def numbers_agree(value: float, gold: float, *, is_gold_whole: bool) -> float:
    """1.0 where two finite numbers are the same answer, else 0.0; exact for golds written as whole numbers.

    >>> numbers_agree(3.1416, 3.14, is_gold_whole=False), numbers_agree(1234.4, 1234, is_gold_whole=True)
    (1.0, 0.0)
    """
    tolerance = 0.0 if is_gold_whole else RELATIVE_TOLERANCE
    return float(abs(value - gold) <= (tolerance + _ROUNDING) * abs(gold))


def interval_iou(first: Interval, second: Interval) -> float:
    """Overlap of two intervals over their union; both finite with start < end.

    >>> interval_iou((10.0, 20.0), (5.0, 25.0)), interval_iou((0.0, 1.0), (1.0, 2.0))
    (0.5, 0.0)
    """
    overlap = min(first[1], second[1]) - max(first[0], second[0])
    if overlap <= 0:
        return 0.0
    return overlap / (max(first[1], second[1]) - min(first[0], second[0]))


_ACCURACY_LEVELS = tuple(range(50, 100, 5))


def mean_relative_accuracy(value: float, gold: float) -> float:
    """Share of the levels t = 0.50, 0.55 .. 0.95 at which |value - gold| / |gold| < 1 - t (arXiv:2412.14171).

    A gold of zero is reached by zero only.

    >>> mean_relative_accuracy(11.7, 10), mean_relative_accuracy(9, 10), mean_relative_accuracy(10, -10)
    (0.7, 0.8, 0.0)
    """
    if gold == 0:
        return float(value == 0)
    # Rounding away the last digits keeps 9 against 10 on its threshold, where `<` fails.
    error = round(abs(value - gold) / abs(gold), 12)
    return sum(error < (100 - level) / 100 for level in _ACCURACY_LEVELS) / len(_ACCURACY_LEVELS)
