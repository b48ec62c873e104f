"""Putting sizes into as few bins of one capacity as possible; pure functions of their arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

MAX_TRIES = 2_000
"""Placements after which the search for fewer bins gives up; it matters for dozens of sizes only."""


def first_fit_decreasing(sizes: Sequence[int], *, capacity: int) -> list[list[int]]:
    """Indices of the sizes, by bin; within a bin and among bins (by first member) in the given order.

    A size above the capacity gets a bin of its own.

    >>> first_fit_decreasing([2, 5, 3, 9, 4], capacity=7)
    [[0, 1], [2, 4], [3]]
    """
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        found = next((b for b, free in enumerate(room) if free >= sizes[index]), None)
        if found is None:
            bins.append([index])
            room.append(capacity - sizes[index])
        else:
            bins[found].append(index)
            room[found] -= sizes[index]
    return sorted(sorted(members) for members in bins)


def fewest_bins(sizes: Sequence[int], *, capacity: int) -> list[list[int]]:
    """Indices of the sizes in the fewest possible bins (for up to some twenty sizes; else as few as were found).

    >>> first_fit_decreasing([4, 4, 3, 3, 3, 3], capacity=10)
    [[0, 1], [2, 3, 4], [5]]
    >>> fewest_bins([4, 4, 3, 3, 3, 3], capacity=10)
    [[0, 2, 3], [1, 4, 5]]
    """
    assert max(sizes, default=0) <= capacity, f"a size of {max(sizes)} fits no bin of {capacity}"
    simple = first_fit_decreasing(sizes, capacity=capacity)
    for num_bins in range(math.ceil(sum(sizes) / capacity), len(simple)):
        found = _fit(sizes, num_bins=num_bins, capacity=capacity)
        if found is not None:
            return found
    return simple


def _fit(sizes: Sequence[int], *, num_bins: int, capacity: int) -> list[list[int]] | None:
    """All sizes in this many bins, by trying, the largest first; None where they do not fit, or not found in time."""
    in_order = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    room = [capacity] * num_bins
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    tries = 0

    def place(rank: int) -> bool:
        nonlocal tries
        if rank == len(in_order):
            return True
        index = in_order[rank]
        for free in sorted(set(room)):  # bins with the same room are the same
            if free < sizes[index] or tries >= MAX_TRIES:
                continue
            tries += 1
            chosen = room.index(free)
            room[chosen] -= sizes[index]
            bins[chosen].append(index)
            if place(rank + 1):
                return True
            bins[chosen].pop()
            room[chosen] += sizes[index]
        return False

    return sorted(sorted(members) for members in bins) if place(0) else None
