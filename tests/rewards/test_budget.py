"""The time of a batch, worked out by hand."""

import pytest

from easyvideor1.rewards.budget import Budget


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_limits_without_a_loss_do_not_depend_on_the_number_of_workers(workers):
    budget = Budget(deadline_s=10.0, workers=workers)
    assert budget.first_limit_s() == 0.9375  # 0.75 * 10 / 2 / 4
    assert budget.own_limit_s() == 10.0
    assert budget.second_limit_s(1) == min(10.0, 7.5 * workers)


def test_what_64_hostile_answers_can_cost_on_two_workers():
    budget = Budget(deadline_s=10.0, workers=2)
    limits = []
    for _ in range(64):
        limits.append(budget.first_limit_s())
        budget.lost_s += limits[-1]
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] == 0.25
    assert sum(limits) / 2 < 11  # seconds of wall time
    assert budget.second_limit_s(64) is None


def test_one_slow_answer_is_tried_again_with_the_whole_deadline():
    budget = Budget(deadline_s=10.0, workers=2)
    budget.lost_s += budget.first_limit_s()
    assert budget.second_limit_s(1) == 10.0


def test_rewards_of_ones_own_that_hang_again_and_again_get_less_time_each():
    budget = Budget(deadline_s=10.0, workers=1)
    limits = []
    for _ in range(64):
        limits.append(budget.own_limit_s())
        budget.lost_s += limits[-1]
    assert limits[:3] == [10.0, 5.0, 2.5]
    assert limits[-1] == 1.0
