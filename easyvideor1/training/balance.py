"""Dealing the work of a step to ranks so that none has much more than the others; pure functions of integers.

The costs are multiplications, not seconds: what counts is their ratio. A group is dealt whole where that is balanced;
else it is cut into segments of its rollouts, each of which computes the prompt and its media again.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from easyvideor1.training.bins import fewest_bins

GOOD_ENOUGH = 1.02
"""Largest cost of a rank over the mean at which no group is cut: the prompt of each piece is computed again."""
TRIES = 8
"""Bounds on the size of a piece that are tried where groups are cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Multiplications in one forward of a model, for each thing there is to compute."""

    token: int
    """A token through the text layers, attention to others left out."""
    pair: int
    """A token that attends to another, in all text layers."""
    vision: int
    """The patches of a vision token through the tower."""
    output: int
    """The logits of a response token."""

    def prompt(self, *, num_tokens: int, num_vision: int) -> int:
        """A prompt of so many tokens, some of them vision tokens."""
        return num_tokens * self.token + num_tokens * num_tokens // 2 * self.pair + num_vision * self.vision

    def response(self, length: int, *, num_prompt: int) -> int:
        """A response to a prompt that is computed beside it."""
        return length * (self.token + self.output) + length * (num_prompt + length // 2) * self.pair


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupCost:
    """What those rollouts of a group cost that are to be computed."""

    prompt: int
    """Once for each segment."""
    responses: tuple[int, ...]

    @property
    def whole(self) -> int:
        """All of them in one place."""
        return self.prompt + sum(self.responses) if self.responses else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Dealt:
    """Who computes what."""

    ranks: tuple[tuple[tuple[int, ...], ...], ...]
    """The share of each rank: for each group, which of its responses, in order."""
    costs: tuple[int, ...]
    """The cost of each rank's share."""

    @property
    def imbalance(self) -> float:
        """Largest cost of a rank over the mean; 1: all have the same."""
        return max(self.costs) * len(self.costs) / sum(self.costs) if any(self.costs) else 1.0


def deal(groups: Sequence[GroupCost], *, num_ranks: int) -> Dealt:
    """Deal groups, or segments of them where whole ones would not be balanced.

    >>> pair = [GroupCost(prompt=1, responses=(1, 1)), GroupCost(prompt=1, responses=(9, 9))]
    >>> deal(pair, num_ranks=2).ranks
    (((0, 1), (1,)), ((), (0,)))
    """
    if num_ranks == 1:
        everything = tuple(tuple(range(len(group.responses))) for group in groups)
        return Dealt(ranks=(everything,), costs=(sum(group.whole for group in groups),))
    best = _dealt(groups, _pieces(groups, largest=None), num_ranks)
    # What no deal can be below: the mean of whole groups, and the largest prompt with its largest response.
    mean = math.ceil(sum(group.whole for group in groups) / num_ranks)
    least = max((group.prompt + max(group.responses) for group in groups if group.responses), default=0)
    most = max(best.costs)
    for step in range(TRIES):
        if max(best.costs) <= GOOD_ENOUGH * max(mean, least):
            break
        largest = round(least * (most / least) ** (step / TRIES))
        found = _dealt(groups, _pieces(groups, largest=largest), num_ranks)
        if max(found.costs) < max(best.costs):
            best = found
    return best


def karmarkar_karp(costs: Sequence[int], *, num_parts: int) -> list[list[int]]:
    """Indices of the costs in parts whose sums are close, by the largest differencing method (Karmarkar and Karp,
    1982): the two partial divisions that are least even are joined, largest part to smallest, until one is left.

    >>> karmarkar_karp([8, 7, 6, 5, 4], num_parts=2)
    [[0, 2], [1, 3, 4]]
    """
    order = itertools.count()
    heap: list[tuple[int, int, np.ndarray, list[list[int]]]] = []
    for index, cost in enumerate(costs):
        sums = np.zeros(num_parts, dtype=np.int64)
        sums[-1] = cost
        heap.append((-cost, next(order), sums, [[] for _ in range(num_parts - 1)] + [[index]]))
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, sums, parts = heapq.heappop(heap)
        _, _, others, other_parts = heapq.heappop(heap)
        joined = sums + others[::-1]
        pairs = zip(parts, reversed(other_parts), strict=True)
        members = [mine + theirs if mine and theirs else mine or theirs for mine, theirs in pairs]
        rank = np.argsort(joined, kind="stable")
        joined = joined[rank]
        heapq.heappush(
            heap, (-int(joined[-1] - joined[0]), next(order), joined, [members[place] for place in rank.tolist()])
        )
    parts = heap[0][3] if heap else [[] for _ in range(num_parts)]
    return sorted((sorted(part) for part in parts), key=lambda part: part[0] if part else math.inf)


def _pieces(groups: Sequence[GroupCost], *, largest: int | None) -> list[tuple[int, tuple[int, ...]]]:
    """(group, its responses) of the fewest segments whose cost is within a bound; None: whole groups."""
    pieces = []
    for number, group in enumerate(groups):
        everything = tuple(range(len(group.responses)))
        if largest is None or group.whole <= largest:
            pieces += [(number, everything)] if everything else []
        else:
            bins = fewest_bins(group.responses, capacity=largest - group.prompt)
            pieces += [(number, tuple(members)) for members in bins]
    return pieces


def _dealt(groups: Sequence[GroupCost], pieces: Sequence[tuple[int, tuple[int, ...]]], num_ranks: int) -> Dealt:
    costs = [groups[number].prompt + sum(groups[number].responses[i] for i in members) for number, members in pieces]
    ranks, sums = [], []
    for part in karmarkar_karp(costs, num_parts=num_ranks):
        of_rank: list[tuple[int, ...]] = [()] * len(groups)
        for place in part:
            number, members = pieces[place]
            of_rank[number] = tuple(sorted((*of_rank[number], *members)))
        ranks.append(tuple(of_rank))
        sums.append(
            sum(
                group.prompt + sum(group.responses[i] for i in members)
                for group, members in zip(groups, of_rank, strict=True)
                if members
            )
        )
    return Dealt(ranks=tuple(ranks), costs=tuple(sums))
