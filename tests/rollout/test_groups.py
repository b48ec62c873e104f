"""Offline trajectories in groups, and which groups carry signal."""

import numpy as np
import pytest

from easyvideor1.config import OfflineConfig
from easyvideor1.errors import UsageError
from easyvideor1.rollout.groups import fill, has_signal, is_within, num_sampled, takes_offline, with_offline
from easyvideor1.types import Group, Prompt, Rollout, Sample, Score, StopReason

NO_IDS = np.zeros(0, dtype=np.int64)
PROMPT = Prompt(
    sample=Sample(id="q7", problem_type="multiple choice", problem="?", gold="A"),
    text="?",
    input_ids=NO_IDS,
    token_types=NO_IDS,
    position_ids=NO_IDS,
    plans=(),
)
UNSCORED = Score.unscored("no answer")
OFF = OfflineConfig()
ALWAYS = OfflineConfig(enable=True)
BELOW_HALF = OfflineConfig(enable=True, accuracy_threshold=0.5)
OFFLINE = Rollout(token_ids=(9,), text="offline", logprobs=None, stop_reason=StopReason.EOS, source="offline")


def accuracy(value: float) -> Score:
    return Score(value=0.9 * value, parts={"accuracy": value})


def group(*scores: Score) -> Group:
    rollouts = tuple(
        Rollout(token_ids=(index,), text=str(index), logprobs=(-1.0,), stop_reason=StopReason.EOS)
        for index in range(len(scores))
    )
    return Group(prompt=PROMPT, rollouts=rollouts, scores=scores)


@pytest.mark.parametrize(
    ("offline", "has_offline", "expected"),
    [(OFF, True, 8), (ALWAYS, True, 7), (ALWAYS, False, 8), (BELOW_HALF, True, 8), (BELOW_HALF, False, 8)],
)
def test_one_rollout_fewer_is_sampled_only_where_a_stored_one_surely_comes(offline, has_offline, expected):
    assert num_sampled(8, has_offline=has_offline, offline=offline) == expected


@pytest.mark.parametrize(
    ("offline", "scores", "expected"),
    [
        (OFF, [accuracy(0.0)], False),
        (ALWAYS, [accuracy(1.0)], True),
        (BELOW_HALF, [accuracy(1.0), accuracy(0.0), accuracy(0.0)], True),
        (BELOW_HALF, [accuracy(1.0), accuracy(0.0)], False),  # exactly the threshold is not below it
        (BELOW_HALF, [accuracy(1.0), UNSCORED, UNSCORED], False),
        (BELOW_HALF, [accuracy(0.4), UNSCORED], True),
        (BELOW_HALF, [UNSCORED, UNSCORED], False),
    ],
)
def test_the_threshold_looks_at_the_mean_accuracy_of_what_was_scored(offline, scores, expected):
    assert takes_offline(scores, offline=offline) is expected


def test_an_offline_trajectory_is_added_to_n_minus_one_rollouts():
    before = group(accuracy(0.0), accuracy(1.0))
    mixed = with_offline(before, trajectory=OFFLINE, score=accuracy(0.7), n=3)
    assert mixed.rollouts == (*before.rollouts, OFFLINE)
    assert mixed.scores == (*before.scores, accuracy(0.7))


def test_an_offline_trajectory_replaces_the_last_of_n_and_no_other():
    before = group(accuracy(0.0), accuracy(0.2), accuracy(0.1))
    mixed = with_offline(before, trajectory=OFFLINE, score=accuracy(0.7), n=3)
    assert mixed.rollouts == (*before.rollouts[:2], OFFLINE)
    assert mixed.scores == (*before.scores[:2], accuracy(0.7))


@pytest.mark.parametrize("num_rollouts", [1, 4])
def test_a_group_of_another_size_is_refused(num_rollouts):
    with pytest.raises(ValueError, match=rf"'q7': a group of 3 .* {num_rollouts} rollouts"):
        with_offline(group(*[accuracy(0.0)] * num_rollouts), trajectory=OFFLINE, score=accuracy(1.0), n=3)


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.5])
def test_a_threshold_that_never_or_always_holds_is_refused(threshold):
    with pytest.raises(UsageError, match="accuracy_threshold must be above 0 and at most 1"):
        OfflineConfig(enable=True, accuracy_threshold=threshold)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([accuracy(0.1), accuracy(0.1), accuracy(0.1)], False),
        ([accuracy(0.1), accuracy(0.2)], True),
        ([accuracy(0.1), UNSCORED], False),
        ([UNSCORED], False),
        ([], False),
    ],
)
def test_a_group_has_signal_where_scored_rewards_differ(scores, expected):
    assert has_signal(group(*scores)) is expected


class Source:
    """Gives 0, 1, 2, ... and remembers how many it was asked for each time."""

    def __init__(self) -> None:
        self.place = 0
        self.asked: list[int] = []

    def take(self, count: int) -> list[int]:
        self.asked.append(count)
        self.place += count
        return list(range(self.place - count, self.place))


def test_dropped_items_are_refilled_by_exactly_as_many_as_are_missing():
    source = Source()
    filled = fill(source.take, wanted=4, max_rounds=5, keeps=lambda item: item % 2 == 0)
    # 0-3 keeps 0 2; 4 5 keeps 4; 6 keeps 6.
    assert filled.kept == [0, 2, 4, 6]
    assert source.asked == [4, 2, 1]
    assert (filled.num_taken, filled.num_rounds) == (7, 2)
    assert filled.dropped_frac == pytest.approx(3 / 7)


def test_refilling_ends_after_its_rounds_with_what_it_has():
    source = Source()
    filled = fill(source.take, wanted=3, max_rounds=2, keeps=lambda item: item == 1)
    assert filled.kept == [1]
    assert (source.asked, filled.num_rounds) == ([3, 2, 2], 2)


def test_without_drops_there_is_one_round():
    source = Source()
    filled = fill(source.take, wanted=3, max_rounds=0, keeps=lambda item: True)
    assert (filled.kept, source.asked, filled.num_rounds, filled.dropped_frac) == ([0, 1, 2], [3], 0, 0.0)


def test_steps_of_refilling_read_the_order_without_gaps_or_repeats():
    source = Source()
    kept = [fill(source.take, wanted=3, max_rounds=9, keeps=lambda item: item % 3 != 0).kept for _ in range(4)]
    flat = [item for step in kept for item in step]
    assert flat == [item for item in range(source.place) if item % 3 != 0]


@pytest.mark.parametrize(
    ("values", "keeps"),
    [
        ([1.0, 0.0], True),
        ([1.0, 1.0], False),
        ([0.0, 0.0], False),
        ([0.5, 0.5], True),
        ([None, 1.0], False),
        ([None], False),
    ],
)
def test_a_group_is_kept_by_the_mean_of_a_part_within_bounds(values: list[float | None], keeps: bool) -> None:
    made = group(*(UNSCORED if value is None else Score(value=1.0, parts={"accuracy": value}) for value in values))
    assert is_within(made, part="accuracy", low=0.01, high=0.99) == keeps
    assert not is_within(made, part="overall", low=0.01, high=0.99)


def test_a_part_that_no_score_has_is_named() -> None:
    with pytest.raises(UsageError, match="filter_part: a score has no part 'acuracy', only overall, accuracy"):
        is_within(group(accuracy(1.0)), part="acuracy", low=0.0, high=1.0)
