"""Bins by hand, and against an exhaustive search."""

import itertools
import random

import pytest

from easyvideor1.training.bins import fewest_bins, first_fit_decreasing


def test_packing_fills_bins_and_keeps_the_order_within():
    # Sizes 9, 2, 5, 7, 4, 3 in packs of 10: 9 | 7 + 3 | 5 + 4 | 2, and then the 2 still fits nowhere else.
    assert first_fit_decreasing([9, 2, 5, 7, 4, 3], capacity=10) == [[0], [1], [2, 4], [3, 5]]
    assert first_fit_decreasing([3, 3, 3], capacity=2) == [[0], [1], [2]]
    assert first_fit_decreasing([], capacity=2) == []


def test_the_fewest_bins_are_those_of_an_exhaustive_search():
    rng = random.Random(0)
    num_better = 0
    for _ in range(150):
        sizes = [rng.randint(2, 6) for _ in range(7)]
        found = fewest_bins(sizes, capacity=10)
        assert sorted(itertools.chain(*found)) == list(range(7))
        assert all(members and sum(sizes[i] for i in members) <= 10 for members in found)
        assert len(found) == exhaustive(sizes, capacity=10), sizes
        num_better += len(found) < len(first_fit_decreasing(sizes, capacity=10))
    assert num_better, "the cases must hold some that first-fit decreasing does not solve"


def exhaustive(sizes, *, capacity):
    for num_bins in range(1, len(sizes) + 1):
        for places in itertools.product(range(num_bins), repeat=len(sizes)):
            loads = [
                sum(size for size, place in zip(sizes, places, strict=True) if place == b) for b in range(num_bins)
            ]
            if max(loads) <= capacity:
                return num_bins
    raise AssertionError


def test_many_sizes_end_soon_and_nothing_is_left_out():
    rng = random.Random(1)
    sizes = [rng.randint(200, 401) for _ in range(300)]
    found = fewest_bins(sizes, capacity=1000)
    assert sorted(itertools.chain(*found)) == list(range(300))
    assert len(found) <= len(first_fit_decreasing(sizes, capacity=1000))


def test_no_sizes_need_no_bin_and_one_over_the_capacity_is_a_mistake():
    assert fewest_bins([], capacity=3) == []
    with pytest.raises(AssertionError, match="a size of 4"):
        fewest_bins([1, 4], capacity=3)
