"""Which runs the stopping rules end, from the metrics of their steps alone."""

import pytest

from easyvideor1.config_train import StopConfig
from easyvideor1.errors import RunError
from easyvideor1.training.stopping import Trend, watch_trend


def watch(steps, **rules) -> Trend:
    """The trend after the steps, each the metrics of one."""
    trend = Trend()
    for step, values in enumerate(steps, start=1):
        trend = watch_trend(trend, values, [], config=StopConfig(**rules), step=step)
    return trend


def rewards(*values, accuracy=1.0):
    return [{"reward/mean": value, "reward/accuracy_frac": accuracy} for value in values]


def test_wrong_steps_count_only_in_a_row():
    wrong, right = rewards(0.1, accuracy=0.0), rewards(0.9)
    assert watch([*wrong, *right, *wrong], zero_reward_steps=2).zero_steps == 1
    with pytest.raises(RunError, match="step 3: no rollout was right in 2 steps"):
        watch([*right, *wrong, *wrong], zero_reward_steps=2)
    assert watch(wrong * 50, zero_reward_steps=0).zero_steps == 50


def test_steps_without_sampled_or_scored_rollouts_say_nothing():
    steps = [*rewards(0.9), *[{"loss/total": 1.0}] * 20]
    assert watch(steps, zero_reward_steps=2, collapse_frac=0.9) == watch(rewards(0.9), zero_reward_steps=2)


def test_a_collapse_is_judged_by_averages_after_they_have_settled():
    # The average goes by a tenth of the way: 0.9 * 0.9^7 = 0.43 is the first below half of 0.9, at the 7th bad step.
    good, bad = rewards(*[0.9] * 11), rewards(*[0.0] * 7, accuracy=1.0)
    watch([*good, *bad[:6]], collapse_frac=0.5)
    with pytest.raises(RunError, match=r"step 18: the reward fell to 0\.430, below 0\.5 of its best average 0\.900"):
        watch([*good, *bad], collapse_frac=0.5)
    # In the first ten steps the average has seen too little.
    watch(rewards(0.9, *[0.0] * 9), collapse_frac=0.5)


@pytest.mark.parametrize("name", ["loss/kl_ref", "reward/kl_ref", "loss/kl_old"])
def test_a_kl_above_its_limit_ends_the_run_wherever_it_is_measured(name):
    watch([{name: 0.1}], max_kl=0.1)
    watch([{name: 5.0}], max_kl=0.0)
    with pytest.raises(RunError, match=f"step 1: {name} is 0.2, above train.stop.max_kl=0.1"):
        watch([{name: 0.2}], max_kl=0.1)


def test_a_run_that_an_update_broke_ends_and_says_which_weights_still_worked():
    alive = [{**step, "update/grad_norm": 0.5, "update/idle_groups_frac": 0.0} for step in rewards(0.3, 0.4)]
    dead = [{**step, "update/idle_groups_frac": 1.0} for step in rewards(*[0.0] * 5, accuracy=0.0)]
    assert watch([*alive, *dead[:4]]).dead_steps == 4
    with pytest.raises(
        RunError, match=r"step 7: .* the update of step 2 broke the weights.* Those of step 1 or before"
    ):
        watch([*alive, *dead])
    assert watch([*alive, *dead[:4], *alive]).dead_steps == 0
    assert watch(dead * 3).dead_steps == 0, "it never had rewards: that is another rule"
    assert watch([*alive, *dead * 3], dead_steps=0).dead_steps == 15
    missed = [{**step, "update/grad_norm": 0.5} for step in rewards(*[0.0] * 9)]
    assert watch([*alive, *missed]).dead_steps == 0, "something trains"
