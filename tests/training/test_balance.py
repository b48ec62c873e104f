"""Who computes what: every rollout once, and no rank with much more than the others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from easyvideor1.training.balance import Costs, GroupCost, deal, karmarkar_karp


def made_groups(rng: np.random.Generator, *, count: int) -> list[GroupCost]:
    """Prompts of 100 to 800, mostly short, and 8 responses each; some groups compute a part of them, or none."""
    prompts = np.clip(rng.lognormal(np.log(200), 0.8, count), 100, 800).astype(int)
    return [
        GroupCost(prompt=int(prompt), responses=tuple(rng.integers(20, 200, rng.choice([0, 3, 8, 8])).tolist()))
        for prompt in prompts
    ]


def test_karmarkar_karp_joins_the_two_least_even_divisions_until_one_is_left() -> None:
    # By hand: 8 and 7 -> 1 apart, 6 and 5 -> 1, then 4 and 1 -> 3, 3 and 1 -> 2: sums of 14 and 16.
    assert karmarkar_karp([8, 7, 6, 5, 4], num_parts=2) == [[0, 2], [1, 3, 4]]
    assert karmarkar_karp([3], num_parts=3) == [[0], [], []]
    assert karmarkar_karp([], num_parts=2) == [[], []]


@pytest.mark.parametrize("num_parts", [2, 3])
def test_parts_are_close_to_the_best_there_are(num_parts: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        costs = rng.integers(1, 100, 8).tolist()
        parts = karmarkar_karp(costs, num_parts=num_parts)
        assert sorted(itertools.chain(*parts)) == list(range(8))
        best = min(
            int(np.bincount(owners, weights=costs, minlength=num_parts).max())
            for owners in itertools.product(range(num_parts), repeat=8)
        )
        assert max(sum(costs[i] for i in part) for part in parts) <= 1.15 * best


@pytest.mark.parametrize("num_ranks", [1, 2, 7, 40])
def test_every_response_is_dealt_once_and_the_costs_are_those_of_what_was_dealt(num_ranks: int) -> None:
    groups = made_groups(np.random.default_rng(num_ranks), count=24)
    dealt = deal(groups, num_ranks=num_ranks)
    assert len(dealt.ranks) == len(dealt.costs) == num_ranks
    for number, group in enumerate(groups):
        given = [response for of_rank in dealt.ranks for response in of_rank[number]]
        assert sorted(given) == list(range(len(group.responses)))
    for of_rank, cost in zip(dealt.ranks, dealt.costs, strict=True):
        pairs = zip(groups, of_rank, strict=True)
        assert cost == sum(group.prompt + sum(group.responses[i] for i in own) for group, own in pairs if own)
    assert deal(groups, num_ranks=num_ranks) == dealt


def test_whole_groups_are_dealt_where_they_balance_and_cut_where_they_do_not() -> None:
    even = [GroupCost(prompt=50, responses=(10, 10))] * 8
    dealt = deal(even, num_ranks=4)
    assert all(own in ((), (0, 1)) for of_rank in dealt.ranks for own in of_rank)
    assert dealt.imbalance == 1.0
    # Whole groups: 10 + 8 * 50 = 410 against 60. Cut in halves: 210 each, and the small ones beside nobody.
    one_long = [GroupCost(prompt=10, responses=(50,) * 8), GroupCost(prompt=10, responses=(50,))]
    assert max(deal(one_long, num_ranks=2).costs) <= 260
    # 256 groups on 256 ranks: none is above what cannot be cut, or a quarter above the mean.
    groups = made_groups(np.random.default_rng(0), count=64)
    dealt = deal(groups, num_ranks=64)
    least = max(group.prompt + max(group.responses) for group in groups if group.responses)
    mean = sum(dealt.costs) / 64
    assert max(dealt.costs) <= max(1.25 * mean, 1.02 * least)
    assert max(dealt.costs) < max(group.whole for group in groups)


def test_a_cost_is_that_of_its_tokens_the_pairs_that_attend_and_the_vision_tower() -> None:
    costs = Costs(token=1000, pair=1, vision=100, output=10)
    assert costs.prompt(num_tokens=20, num_vision=8) == 20_000 + 200 + 800
    assert costs.response(10, num_prompt=20) == 10 * 1010 + 10 * 25
