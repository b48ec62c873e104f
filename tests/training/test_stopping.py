"""Which runs the stopping rules end, from the metrics of their steps alone."""

import pytest

from easyvideor1.config import StopConfig
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
