"""Groups -> advantages, loss weights and the batch's normalizer."""

from typing import Literal

import numpy as np
import pytest

from easyvideor1.algo.algorithms import ALGORITHMS, Algorithm
from easyvideor1.algo.credit import learning_rollouts, normalizer, with_credit
from easyvideor1.errors import RunError
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


def rollout(
    length=2, *, stop=StopReason.EOS, source: Literal["policy", "offline"] = "policy", logprobs=None
) -> Rollout:
    return Rollout(
        token_ids=tuple(range(length)), text="", logprobs=logprobs, stop_reason=stop, source=source, weights_version=0
    )


def score(value, **parts) -> Score:
    return Score.unscored("no answer") if value is None else Score(value=value, parts=parts)


def group(values, rollouts=None) -> Group:
    """Scores of 0.9 accuracy + 0.1 format where a value is a pair of parts."""
    scores = [
        score(0.9 * value[0] + 0.1 * value[1], accuracy=value[0], format=value[1])
        if isinstance(value, tuple)
        else score(value)
        for value in values
    ]
    return Group(prompt=PROMPT, rollouts=tuple(rollouts or [rollout() for _ in values]), scores=tuple(scores))


def credit(groups, algorithm, **arguments) -> list[float]:
    return [value for item in with_credit(groups, algorithm, **arguments) for value in item.advantages]


def make(**options) -> Algorithm:
    return Algorithm(name="test", paper="", **options)


def near(expected):
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("advantage", "expected"),
    [
        # Rewards 0.1 0.7: mean 0.4, sample deviation sqrt(0.18).
        ("grpo", [-0.3 / (0.18**0.5 + 1e-4), 0.3 / (0.18**0.5 + 1e-4), 0.0, 0.0]),
        ("centered", [-0.3, 0.3, 0.0, 0.0]),
        ("rloo", [-0.6, 0.6, 0.0, 0.0]),
        # Rewards 0.1 0.7 0.2 0.2 of the batch: mean 0.3, sample deviation sqrt(0.22 / 3).
        ("reinforce_plus_plus", [x / ((0.22 / 3) ** 0.5 + 1e-4) for x in (-0.2, 0.4, -0.1, -0.1)]),
        # Centered in their groups: -0.3 0.3 0 0, sample deviation sqrt(0.06).
        ("reinforce_plus_plus_baseline", [-0.3 / (0.06**0.5 + 1e-4), 0.3 / (0.06**0.5 + 1e-4), 0.0, 0.0]),
    ],
)
def test_each_advantage_by_hand(advantage, expected):
    assert credit([group([0.1, 0.7]), group([0.2, 0.2])], make(advantage=advantage)) == near(expected)


def test_imitation_gives_every_response_the_same():
    assert credit([group([0.1, 0.7])], ALGORITHMS["sft"]) == [1.0, 1.0]


def test_remax_takes_the_greedy_score_of_each_group():
    greedy = [score(0.3), score(0.0)]
    groups = [group([0.1, 0.7]), group([0.2, 0.2])]
    assert credit(groups, ALGORITHMS["remax"], greedy_scores=greedy) == near([-0.2, 0.4, 0.2, 0.2])


def test_gdpo_looks_at_each_part_and_then_at_the_batch():
    # Accuracy 1 0 0 and format 0 1 0, each standardized: (2 -1 -1) and (-1 2 -1), over sqrt(3) up to the epsilon.
    unit = 1 / 3 / (3**-0.5 + 1e-4)
    sums = [(0.75 * 2 - 0.25) * unit, (-0.75 + 0.25 * 2) * unit, -1.0 * unit]
    # The other group has no signal: three zeros beside the three sums.
    deviation = (sum(value**2 for value in sums) / 5) ** 0.5
    groups = [group([(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]), group([(1.0, 1.0)] * 3)]
    ours = credit(groups, ALGORITHMS["gdpo"], part_weights={"accuracy": 0.75, "format": 0.25})
    assert ours == near([value / (deviation + 1e-4) for value in sums] + [0.0] * 3)
    assert ours[3:] == [0.0] * 3


def test_pass_at_k_counts_accuracy_not_format():
    groups = [group([(1.0, 0.0), (0.45, 1.0), (0.0, 0.0), (0.0, 1.0)])]
    assert credit(groups, make(advantage="pass_at_k", pass_k=2)) == near([1.0, -1 / 3, -1 / 3, -1 / 3])


@pytest.mark.parametrize("name", ["reinforce_plus_plus", "reinforce_plus_plus_baseline", "gdpo"])
def test_ranks_that_share_their_values_get_what_one_process_gets(name):
    algorithm, weights = ALGORITHMS[name], {"accuracy": 0.9, "format": 0.1}
    groups = [group([(1.0, 0.0), (0.3, 1.0), None]), group([(0.2, 1.0), (0.0, 0.0)])]
    together = credit(groups, algorithm, part_weights=weights)
    shared: list[float] = []

    def gather(values: list[float]) -> list[float]:
        shared.extend(values)
        return shared

    for item in groups:
        with_credit([item], algorithm, part_weights=weights, gather=gather)
    ours = [credit([item], algorithm, part_weights=weights, gather=lambda _: shared) for item in groups]
    assert ours[0] + ours[1] == together


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ("remax", "sft", "ppo")])
def test_unscored_rollouts_have_no_advantage_no_weight_and_no_influence(name):
    weights = {"accuracy": 0.9, "format": 0.1}
    values = [(1.0, 1.0), (0.0, 1.0), (0.0, 0.0), (1.0, 0.0)]
    with_one, *_ = with_credit([group([*values, None])], ALGORITHMS[name], part_weights=weights)
    without = credit([group(values)], ALGORITHMS[name], part_weights=weights)
    assert list(with_one.advantages) == [*without, 0.0]
    assert with_one.weights == (1.0, 1.0, 1.0, 1.0, 0.0)
    assert any(without)


def test_truncated_rollouts_lose_their_weight_but_stay_in_the_mean():
    rollouts = [rollout(), rollout(stop=StopReason.LENGTH)]
    masked, *_ = with_credit([group([0.7, 0.1], rollouts)], make(advantage="centered", mask_truncated=True))
    kept, *_ = with_credit([group([0.7, 0.1], rollouts)], make(advantage="centered"))
    assert masked.weights == (1.0, 0.0)
    assert kept.weights == (1.0, 1.0)
    assert masked.advantages == kept.advantages == near((0.3, -0.3))


def test_weights_follow_the_source_of_a_rollout():
    mixed = group([0.7, 0.1], [rollout(), rollout(source="offline")])
    assert with_credit([mixed], make(offline_weight=0.5))[0].weights == (1.0, 0.5)
    assert with_credit([mixed], ALGORITHMS["sft"])[0].weights == (0.0, 1.0)


def test_a_kl_in_the_reward_lowers_it():
    algorithm = make(advantage="centered", kl_coef=0.1, kl_in="reward")
    # Rewards 0.7 - 0.1 * 2 and 0.1 - 0.1 * 0: 0.5 and 0.1.
    assert credit([group([0.7, 0.1])], algorithm, kl=[[2.0, 0.0]]) == near([0.2, -0.2])


def test_a_kl_in_the_loss_leaves_the_reward_alone():
    assert credit([group([0.7, 0.1])], make(advantage="centered", kl_coef=0.1), kl=[[2.0, 0.0]]) == near([0.3, -0.3])


@pytest.mark.parametrize(
    ("average", "fixed_length", "expected"),
    [("token", None, 7.0), ("sequence", None, 3.0), ("fixed", None, 3 * 64.0), ("fixed", 10, 3 * 10.0)],
)
def test_the_normalizer_counts_what_trains(average, fixed_length, expected):
    algorithm = make(average=average, fixed_length=fixed_length)
    groups = with_credit(
        [group([0.1, 0.7], [rollout(1), rollout(4)]), group([0.2, None], [rollout(2), rollout(9)])], algorithm
    )
    assert normalizer(groups, algorithm, max_response_tokens=64) == expected


def test_nothing_that_trains_is_a_normalizer_of_zero():
    assert normalizer(with_credit([group([None])], make()), make(), max_response_tokens=64) == 0.0


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (ALGORITHMS["remax"], "pass greedy_scores"),
        (ALGORITHMS["gdpo"], "pass part_weights"),
        (make(kl_coef=0.1, kl_in="reward"), "pass kl"),
    ],
)
def test_an_argument_that_the_recipe_needs_must_be_there(algorithm, message):
    with pytest.raises(ValueError, match=message):
        with_credit([group([0.1, 0.2])], algorithm)


def test_a_group_must_be_scored():
    with pytest.raises(ValueError, match="'q7': 1 rollouts, 0 scores"):
        with_credit([Group(prompt=PROMPT, rollouts=(rollout(),))], make())


def test_a_missing_reward_part_names_sample_and_part():
    with pytest.raises(RunError, match=r"'q7': its score has no part 'format' \(it has none\)"):
        with_credit([group([0.1, 0.2])], ALGORITHMS["gdpo"], part_weights={"format": 1.0})


def test_stored_old_logprobs_must_be_stored():
    offline = rollout(source="offline")
    with pytest.raises(RunError, match=r"'q7'.*use 'current' or 'one'"):
        with_credit([group([0.1, 0.7], [rollout(), offline])], make(offline_old="stored"))
    known = rollout(source="offline", logprobs=(-0.5, -0.25))
    assert with_credit([group([0.1, 0.7], [rollout(), known])], make(offline_old="stored"))[0].weights == (1.0, 1.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (0, 4)),
        ({"kl_coef": 0.1}, (0, 1, 4, 5)),
        ({"kl_coef": 0.1, "kl_in": "reward"}, (0, 4)),  # it is in the advantage
        ({"entropy_coef": 0.1}, (0, 1, 4, 5)),
        ({"offline_loss": "cross_entropy"}, (0, 4, 5)),
        ({"offline_loss": "shaped"}, (0, 4)),
    ],
)
def test_what_can_move_the_weights_has_an_advantage_or_a_term_that_does_not_look_at_it(options, expected):
    rollouts = [rollout(), rollout(), rollout(), rollout(0), rollout(source="offline"), rollout(source="offline")]
    item = Group(
        prompt=PROMPT,
        rollouts=tuple(rollouts),
        advantages=(0.3, 0.0, -0.3, 0.3, -0.1, 0.0),
        weights=(1.0, 1.0, 0.0, 1.0, 1.0, 1.0),
    )
    assert learning_rollouts(item, make(**options)) == expected
