"""What algorithms remember from step to step: moments of each task's rewards, an adaptive KL coefficient."""

import math
from dataclasses import replace

import numpy as np
import pytest

from easyvideor1.algo.advantages import ema_grpo
from easyvideor1.algo.algorithms import ALGORITHMS, Algorithm
from easyvideor1.algo.carried import Carried, task_of
from easyvideor1.algo.credit import with_credit
from easyvideor1.types import Group, Media, Prompt, Rollout, Sample, Score, StopReason

NO_IDS = np.zeros(0, dtype=np.int64)


def group(values: list[float], problem_type: str = "ocr") -> Group:
    sample = Sample(id="q", problem_type=problem_type, problem="?", gold="A")
    prompt = Prompt(
        sample=sample, text="?", input_ids=NO_IDS, token_types=NO_IDS, position_ids=NO_IDS, plans=()
    )  # fmt: skip
    rollouts = tuple(Rollout(token_ids=(1,), text="", logprobs=None, stop_reason=StopReason.EOS) for _ in values)
    scores = tuple(Score.unscored("?") if math.isnan(value) else Score(value=value) for value in values)
    return Group(prompt=prompt, rollouts=rollouts, scores=scores)


def test_moments_of_a_task_move_towards_those_of_the_step() -> None:
    first = Carried().with_rewards([group([1.0, 0.0]), group([1.0, 1.0]), group([0.5], "math")], decay=0.9)
    assert first.moments == {"ocr": (0.75, 0.75), "math": (0.5, 0.25)}
    second = first.with_rewards([group([0.0, 0.0, math.nan])], decay=0.9)
    assert second.moments["ocr"] == pytest.approx((0.675, 0.675))
    assert second.moments["math"] == (0.5, 0.25)
    sample = group([0.0]).prompt.sample
    assert second.std_of(sample) == pytest.approx(math.sqrt(0.675 - 0.675**2))
    assert first.std_of(replace(sample, problem_type="math")) == 1e-3  # all equal: its scale is not known to be 0


def test_segmentation_of_images_and_of_videos_are_two_tasks() -> None:
    still = Sample(
        id="1", problem_type="segmentation", problem="?", gold="", media=(Media(kind="image", path="a.png"),)
    )
    moving = replace(still, media=(Media(kind="video", path="a.mp4"),))
    assert (task_of(still), task_of(moving)) == ("segmentation/image", "segmentation/video")


def test_ema_grpo_by_hand() -> None:
    # The task: 4 rewards of mean 0.5 and deviation 0.5; both groups are divided by it.
    algorithm = ALGORITHMS["ema_grpo"]
    groups = [group([1.0, 0.0]), group([1.0, 1.0]), group([0.0, 0.0])]
    advantages = [item.advantages for item in with_credit(groups, algorithm)]
    assert advantages[0] == pytest.approx((1.0, -1.0), rel=1e-5)
    assert advantages[1:] == [(0.0, 0.0), (0.0, 0.0)]
    # Before, its rewards were 0 or 2: moments (1, 2) move to (0.995, 1.985), a deviation of 0.9975.
    before = Carried(moments={"ocr": (1.0, 2.0)})
    [[first, _], *_] = [item.advantages for item in with_credit(groups, algorithm, carried=before)]
    assert first == pytest.approx(0.5 / math.sqrt(1.985 - 0.995**2), rel=1e-5)


def test_a_group_beyond_the_guard_takes_its_own_deviation() -> None:
    assert ema_grpo([1.0, 0.0, 0.0, 0.0], task_std=0.2, guard=5.0) == pytest.approx(
        [3.75, -1.25, -1.25, -1.25], rel=1e-5
    )
    own = math.sqrt(3) / 4  # of the population
    assert ema_grpo([1.0, 0.0, 0.0, 0.0], task_std=0.1, guard=5.0) == pytest.approx(
        [0.75 / own, -0.25 / own, -0.25 / own, -0.25 / own], rel=1e-5
    )
    assert ema_grpo([1.0, 0.0, 0.0, 0.0], task_std=0.1, guard=None)[0] == pytest.approx(7.5, rel=1e-4)
    assert ema_grpo([1.0, math.nan, 1.0], task_std=0.5) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("kl", "rollouts", "expected"),
    [(0.2, 100, 1.02), (0.11, 100, 1.01), (0.0, 100, 0.98), (0.1, 100, 1.0), (0.2, 5000, 1.2), (math.nan, 100, 1.0)],
)
def test_an_adaptive_coefficient_moves_towards_its_target(kl: float, rollouts: int, expected: float) -> None:
    algorithm = Algorithm(name="t", paper="", kl_coef=1.0, kl_target=0.1, kl_horizon=1000.0)
    moved = Carried().with_kl(kl, algorithm, num_rollouts=rollouts)
    assert moved.coef_of(algorithm) == pytest.approx(expected)
    assert Carried().with_kl(kl, replace(algorithm, kl_target=None), num_rollouts=rollouts) == Carried()
