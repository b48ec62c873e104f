"""Intervals against published and hand-worked numbers."""

import math

import pytest

from easyvideor1.report.intervals import accuracy, change

ROUNDED = 5e-5
"""Reference numbers below are given to four digits."""


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), table I, Wilson score without continuity correction
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_equals_newcombes_table(right, count, low, high):
    estimate = accuracy([1.0] * right + [0.0] * (count - right))
    assert (estimate.count, estimate.mean) == (count, right / count)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=ROUNDED)


def test_a_perfect_score_still_has_a_width():
    estimate = accuracy([1.0] * 10)
    assert estimate.high == pytest.approx(1.0)
    assert estimate.low == pytest.approx(10 / (10 + 1.959964**2))


def test_right_and_wrong_change_places():
    mostly_right, mostly_wrong = accuracy([1.0] * 7 + [0.0] * 3), accuracy([0.0] * 7 + [1.0] * 3)
    assert mostly_right.low == pytest.approx(1 - mostly_wrong.high)


def test_the_paired_change_equals_the_formula_worked_by_hand():
    # 12 questions: 6 became right, 1 became wrong; with half a pair in each cell n = 14, c = 6.5, b = 1.5.
    before = [0.0] * 6 + [1.0] + [1.0] * 3 + [0.0] * 2
    after = [1.0] * 6 + [0.0] + [1.0] * 3 + [0.0] * 2
    estimate = change(before, after)
    half = 1.959964 * math.sqrt((6.5 + 1.5) - (6.5 - 1.5) ** 2 / 14) / 14
    assert estimate.mean == pytest.approx(5 / 12)
    assert (estimate.low, estimate.high) == pytest.approx((5 / 14 - half, 5 / 14 + half))


def test_no_changed_answer_gives_an_interval_around_zero_that_has_a_width():
    estimate = change([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert estimate.mean == 0.0
    assert estimate.low == -estimate.high < 0


def test_pairing_makes_the_interval_narrower_than_two_separate_ones():
    before = [1.0] * 40 + [0.0] * 60
    after = [1.0] * 60 + [0.0] * 40
    paired = change(before, after)
    shuffled = change(before, after[50:] + after[:50])
    assert paired.mean == pytest.approx(shuffled.mean)
    assert paired.high - paired.low < shuffled.high - shuffled.low


def test_nothing_to_judge_is_an_error():
    with pytest.raises(ValueError, match="at least one answer"):
        accuracy([])
    with pytest.raises(ValueError, match="at least one pair"):
        change([], [])
