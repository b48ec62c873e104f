"""Bonuses of Video-R1: for answers that need the order of frames, and for a length."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from easyvideor1.algo.algorithms import ALGORITHMS, Algorithm
from easyvideor1.algo.bonuses import with_bonuses
from easyvideor1.types import Group, Prompt, Rollout, Sample, Score, StopReason

NO_IDS = np.zeros(0, dtype=np.int64)
PROMPT = Prompt(
    sample=Sample(id="q", problem_type="ocr", problem="?", gold="A"),
    text="?", input_ids=NO_IDS, token_types=NO_IDS, position_ids=NO_IDS, plans=(),
)  # fmt: skip


def scores(accuracies: Sequence[float]) -> tuple[Score, ...]:
    return tuple(
        Score.unscored("?") if math.isnan(value) else Score(value=value, parts={"accuracy": value})
        for value in accuracies
    )


def group(accuracies: Sequence[float], lengths: Sequence[int] | None = None) -> Group:
    rollouts = tuple(
        Rollout(token_ids=(1,) * length, text="", logprobs=None, stop_reason=StopReason.EOS)
        for length in lengths or [1] * len(accuracies)
    )
    return Group(prompt=PROMPT, rollouts=rollouts, scores=scores(accuracies))


def values(made: Group) -> list[float]:
    return [score.value for score in made.scores]


@pytest.mark.parametrize(
    ("shuffled", "expected"),
    [
        ([1.0, 0.0], [1.3, 0.0, 1.3, 0.0]),  # half right either way: not worse
        ([0.0, 0.0], [1.3, 0.0, 1.3, 0.0]),
        ([1.0, 1.0], [1.0, 0.0, 1.0, 0.0]),  # the order does not matter to what is answered
        ([1.0, math.nan, 0.0], [1.3, 0.0, 1.3, 0.0]),
        ([math.nan], [1.0, 0.0, 1.0, 0.0]),
        ([], [1.0, 0.0, 1.0, 0.0]),  # a picture
    ],
)
def test_right_answers_get_the_temporal_bonus_where_order_does_not_hurt(
    shuffled: list[float], expected: list[float]
) -> None:
    made = with_bonuses(group([1.0, 0.0, 1.0, 0.0]), ALGORITHMS["t_grpo"], shuffled=scores(shuffled))
    assert values(made) == expected
    assert [score.parts["temporal"] for score in made.scores] == [float(value > 1.0) for value in expected]


def test_right_answers_of_the_length_get_the_length_bonus() -> None:
    algorithm = Algorithm(name="t", paper="", length_bonus=0.2, length_low=320, length_high=512)
    made = with_bonuses(group([1.0, 1.0, 1.0, 1.0, 0.0], [319, 320, 512, 513, 400]), algorithm)
    assert values(made) == [1.0, 1.2, 1.2, 1.0, 0.0]


def test_an_unscored_response_stays_so_and_without_bonuses_nothing_changes() -> None:
    made = with_bonuses(group([math.nan, 1.0]), ALGORITHMS["t_grpo"], shuffled=scores([0.0]))
    assert not made.scores[0].is_scored
    plain = group([1.0, 0.0])
    assert with_bonuses(plain, ALGORITHMS["grpo"], shuffled=scores([0.0])) is plain
