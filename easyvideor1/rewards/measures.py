"""Measures between two readable answers, each in [0, 1]; intervals in seconds, boxes [x1, y1, x2, y2]."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from rapidfuzz.distance import LCSseq, Levenshtein

Interval = tuple[float, float]
Box = tuple[float, float, float, float]
Point = tuple[float, float]


def interval_iou(first: Interval, second: Interval) -> float:
    """Overlap of two intervals over their union; both finite with start < end.

    >>> interval_iou((10.0, 20.0), (5.0, 25.0)), interval_iou((0.0, 1.0), (1.0, 2.0))
    (0.5, 0.0)
    """
    overlap = min(first[1], second[1]) - max(first[0], second[0])
    if overlap <= 0:
        return 0.0
    return overlap / (max(first[1], second[1]) - min(first[0], second[0]))


_ERROR_LEVELS = tuple(100 - level for level in range(50, 100, 5))
"""Percents of the gold that an error must stay below."""


def mean_relative_accuracy(value: float | Fraction, gold: float | Fraction) -> float:
    """Share of the levels t = 0.50, 0.55 .. 0.95 at which |value - gold| / |gold| < 1 - t (arXiv:2412.14171).

    A gold of zero is reached by zero only.

    >>> mean_relative_accuracy(11.7, 10), mean_relative_accuracy(9, 10), mean_relative_accuracy(10, -10)
    (0.7, 0.8, 0.0)
    """
    if gold == 0:
        return float(value == 0)
    percent = 100 * abs(value - gold)
    if isinstance(percent, float):
        # Rounding away the last digits keeps 0.9 against 1 on its threshold, where `<` fails.
        percent = round(percent / abs(gold), 9) * abs(gold)
    size = abs(gold)
    return sum([percent < left * size for left in _ERROR_LEVELS]) / len(_ERROR_LEVELS)


def box_iou(first: Box, second: Box) -> float:
    """Area of the overlap of two boxes over the area of their union; 0.0 for an inverted, empty or endless box.

    >>> box_iou((0, 0, 2, 2), (0, 0, 2, 1)), box_iou((0, 0, 1, 1), (1, 0, 2, 1)), box_iou((2, 2, 0, 0), (0, 0, 2, 2))
    (0.5, 0.0, 0.0)
    """
    left, top, right, bottom = first
    other_left, other_top, other_right, other_bottom = second
    # Comparisons cost a third of `min` and `max` here, in the innermost loop of tracking.
    width = (right if right < other_right else other_right) - (left if left > other_left else other_left)
    height = (bottom if bottom < other_bottom else other_bottom) - (top if top > other_top else other_top)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    areas = (right - left) * (bottom - top) + (other_right - other_left) * (other_bottom - other_top)
    union = areas - shared
    return shared / union if 0 < union < math.inf else 0.0


def mean_frame_iou(boxes: Mapping[float, Box], gold: Mapping[float, Box]) -> float:
    """Box IoU averaged over the gold frames; a frame without a box counts 0, frames beyond the gold count nothing.

    Averaging over the frames in common instead would pay for naming the easiest frame alone.

    >>> mean_frame_iou({1: (0, 0, 2, 2), 9: (0, 0, 2, 2)}, {1: (0, 0, 2, 2), 2: (0, 0, 2, 2)})
    0.5
    """
    return sum([box_iou(boxes[frame], box) for frame, box in gold.items() if frame in boxes]) / len(gold)


POINT_SCALE = 50.0
"""Distance, in units of a picture 1000 wide, at which a point is worth exp(-1/2)."""


def point_similarity(points: Sequence[Point], gold: Sequence[Point]) -> float:
    """exp(-d^2 / (2 * 50^2)) with d the mean distance of the best one-to-one match; the counts are equal and small.

    >>> point_similarity([(0, 0), (9, 9)], [(9, 9), (0, 0)])
    1.0
    """
    distances = [[math.dist(point, other) for other in gold] for point in points]
    total = min(
        sum(row[place] for row, place in zip(distances, order, strict=True))
        for order in itertools.permutations(range(len(gold)))
    )
    return math.exp(-((min(total / len(gold), 1e6) / POINT_SCALE) ** 2) / 2)


def rouge(words: Sequence[str], gold: Sequence[str]) -> float:
    """Mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004); ROUGE-2 counts only where the gold has two words.

    >>> round(rouge(["a", "b", "c"], ["a", "b", "d"]), 6)  # (2/3 + 1/2 + 2/3) / 3
    0.611111
    """
    if not words or not gold:
        return 0.0
    scores = [_ngram_f1(words, gold, 1), _f1(LCSseq.similarity(words, gold), len(words), len(gold))]
    if len(gold) > 1:
        scores.append(_ngram_f1(words, gold, 2))
    return sum(scores) / len(scores)


def _ngram_f1(words: Sequence[str], gold: Sequence[str], size: int) -> float:
    counts = [Counter(zip(*(text[shift:] for shift in range(size)), strict=False)) for text in (words, gold)]
    return _f1((counts[0] & counts[1]).total(), counts[0].total(), counts[1].total())


def _f1(num_shared: int, num_answer: int, num_gold: int) -> float:
    return 2 * num_shared / (num_answer + num_gold) if num_shared else 0.0


def word_accuracy(words: Sequence[str], gold: Sequence[str]) -> float:
    """1 - word error rate, not below 0: edits from the gold words to these over the number of gold words.

    >>> word_accuracy(["gate", "5"], ["gate", "5", "open", "now"])
    0.5
    """
    return max(0.0, 1.0 - Levenshtein.distance(gold, words) / len(gold))


ANLS_LEVEL = 0.5
"""Likeness below which a text is another text and not a misread one."""


def edit_similarity(text: str, gold: str) -> float:
    """1 - edit distance over the length of the longer text, 0 below one half: ANLS (arXiv:1905.13648, equation 1).

    >>> edit_similarity("st4rt", "start"), edit_similarity("stop", "start")
    (0.8, 0.0)
    """
    similarity = Levenshtein.normalized_similarity(gold, text)
    return similarity if similarity > ANLS_LEVEL else 0.0
