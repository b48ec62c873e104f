"""Advantages against numbers worked by hand, and what must not change them."""

import math

import pytest

from easyvideor1.algo import advantages

NAN = math.nan
REWARDS = [0.1, 0.7, 0.3, 0.3]
"""Mean 0.35, deviations -0.25 0.35 -0.05 -0.05, sample deviation sqrt(0.19 / 3) = 0.2516611478."""

GROUP_FUNCTIONS = {
    "grpo": advantages.grpo,
    "centered": advantages.centered,
    "rloo": advantages.rloo,
    "gdpo": lambda rewards: advantages.gdpo_sums({"accuracy": rewards}, weights={"accuracy": 1.0}),
}
over_groups = pytest.mark.parametrize("function", GROUP_FUNCTIONS.values(), ids=list(GROUP_FUNCTIONS))


def near(expected):
    # The numbers below are written with nine digits.
    return pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_grpo_divides_by_the_sample_deviation():
    assert advantages.grpo(REWARDS) == near([value / 0.2517611478 for value in (-0.25, 0.35, -0.05, -0.05)])


def test_dr_grpo_only_centers():
    assert advantages.centered(REWARDS) == near([-0.25, 0.35, -0.05, -0.05])


def test_rloo_compares_with_the_mean_of_the_others():
    assert advantages.rloo(REWARDS) == near([0.1 - 1.3 / 3, 0.7 - 0.7 / 3, 0.3 - 1.1 / 3, 0.3 - 1.1 / 3])


def test_remax_compares_with_the_greedy_response():
    assert advantages.remax([0.1, 0.7, NAN], greedy_reward=0.3) == near([-0.2, 0.4, 0.0])
    assert advantages.remax([0.1, 0.7], greedy_reward=NAN) == [0.0, 0.0]


def test_pass_at_k_is_the_closed_form_of_its_paper():
    # 5 responses, 3 failed, k = 2: a choice fails with 3/10, sd = sqrt(0.21). A pass is in choices of mean reward 1:
    # 0.3 / sd. A failure's other member is one of 4 responses, 2 of them failed: mean 0.5, (0.5 - 0.7) / sd.
    sd = 0.458257569496
    assert advantages.pass_at_k([1, 0, 0, 1, 0], k=2) == near([0.3 / sd, -0.2 / sd, -0.2 / sd, 0.3 / sd, -0.2 / sd])


def test_pass_at_one_is_standardizing_with_the_population_deviation():
    # 1 of 4 passed: mean 0.25, deviation sqrt(3) / 4.
    assert advantages.pass_at_k([0, 1, 0, 0], k=1) == near([-1 / 3**0.5, 3**0.5, -1 / 3**0.5, -1 / 3**0.5])


@pytest.mark.parametrize("passed", [[1, 1, 1], [0, 0, 0], [1, 1, 0], [0], [], [NAN, NAN]])
def test_pass_at_k_is_zero_where_every_draw_ends_alike(passed):
    assert advantages.pass_at_k(passed, k=2) == [0.0] * len(passed)


def test_pass_at_k_refuses_partial_scores():
    with pytest.raises(ValueError, match=r"1\.0, 0\.0 or NaN"):
        advantages.pass_at_k([0.5, 1.0], k=1)


def test_gdpo_keeps_apart_what_a_sum_of_parts_would_join():
    # Two right answers without format and one formatted wrong one: at equal weights all sum to 1, grpo sees nothing.
    parts = {"accuracy": [1.0, 1.0, 0.0], "format": [0.0, 0.0, 1.0]}
    sums = advantages.gdpo_sums(parts, weights={"accuracy": 0.75, "format": 0.25})
    # Each column is (1/3, 1/3, -2/3) or its negative over sqrt(1/3) + 1e-4; weights 0.75 - 0.25 remain.
    assert sums == near([0.5 / 3 / 0.577450269, 0.5 / 3 / 0.577450269, -1 / 3 / 0.577450269])


def test_over_batch_steps_use_every_response_of_the_batch():
    batch = [0.0, 0.6, 0.3, NAN]
    # Mean 0.3, sample deviation 0.3.
    assert advantages.standardized_over_batch([0.6, NAN], batch_B=batch) == near([0.3 / 0.3001, 0.0])
    assert advantages.scaled_over_batch([0.6, 0.0], batch_B=batch) == near([0.6 / 0.3001, 0.0])


@over_groups
@pytest.mark.parametrize("rewards", [[0.1, 0.1, 0.1], [0.7], [], [NAN, 0.1, 0.1], [NAN, 0.3], [NAN, NAN]])
def test_equal_rewards_give_exactly_zero(function, rewards):
    # 0.1: the mean of three of them is not 0.1 in binary.
    assert function(rewards) == [0.0] * len(rewards)


@pytest.mark.parametrize("function", [advantages.standardized_over_batch, advantages.scaled_over_batch])
def test_an_equal_batch_gives_exactly_zero(function):
    assert function([0.1, 0.1], batch_B=[0.1] * 3) == [0.0, 0.0]


@over_groups
def test_adding_a_constant_to_every_reward_changes_nothing(function):
    assert function([reward + 0.37 for reward in REWARDS]) == pytest.approx(function(REWARDS), abs=1e-14)


@over_groups
def test_the_order_of_rollouts_does_not_matter(function):
    order = [2, 0, 3, 1]
    # Exactly: sums are rounded once.
    assert function([REWARDS[index] for index in order]) == [function(REWARDS)[index] for index in order]


@over_groups
def test_an_unscored_rollout_changes_nothing_for_the_others(function):
    first, *rest = function(REWARDS)
    assert function([REWARDS[0], NAN, *REWARDS[1:]]) == [first, 0.0, *rest]


@over_groups
def test_advantages_of_a_group_sum_to_zero(function):
    assert math.fsum(function(REWARDS)) == pytest.approx(0.0, abs=1e-14)
