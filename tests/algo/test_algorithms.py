"""Named algorithms and the options put over them."""

import pytest

from easyvideor1.algo.algorithms import ALGORITHMS, Algorithm, named_algorithm
from easyvideor1.algo.losses import TOKEN_LOSSES
from easyvideor1.config import AlgorithmConfig
from easyvideor1.errors import UsageError


def test_every_recipe_can_be_named_and_cites_its_source():
    assert set(ALGORITHMS) >= {
        *("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo", "reinforce_plus_plus"),
        *("reinforce_plus_plus_baseline", "remax", "rloo", "gdpo", "luffy", "sft"),
    }
    for name, default in ALGORITHMS.items():
        assert named_algorithm(AlgorithmConfig(name=name)) == default
        assert default.paper
        assert {default.loss, default.offline_loss} <= set(TOKEN_LOSSES)


def test_options_override_the_recipe():
    changed = named_algorithm(
        AlgorithmConfig(name="dapo", options={"clip_high": 1, "dual_clip": 3, "kl_coef": 0.1, "kl_kind": "k2"})
    )
    assert (changed.clip_high, changed.dual_clip, changed.kl_kind, changed.average) == (1.0, 3.0, "k2", "token")
    assert changed.clip_low == ALGORITHMS["dapo"].clip_low


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("grop", {}, "'grop' is unknown; did you mean 'grpo'"),
        ("grpo", {"clip_hihg": 1.0}, r"unknown key 'algorithm\.options\.clip_hihg'; did you mean 'clip_high'"),
        ("grpo", {"kl_kind": "k4"}, r"'algorithm\.options\.kl_kind' must be one of k1, k2, k3"),
        ("grpo", {"clip_low": "small"}, r"'algorithm\.options\.clip_low' must be float"),
        ("grpo", {"name": "dapo"}, r"algorithm\.options\.name cannot be set"),
        ("grpo", {"clip_low": -0.1}, "clip_low must not be negative"),
        ("grpo", {"dual_clip": 0.5}, "dual_clip must be above 1"),
        ("grpo", {"sampler_cap": 0.5}, "sampler_cap must be at least 1"),
        ("grpo", {"kl_coef": float("nan")}, r"algorithm\.options\.kl_coef must be a finite number"),
        ("grpo", {"clip_low": 1.5}, "clip_low must be at most 1"),
        ("grpo", {"advantage": "pass_at_k", "pass_k": 0}, "pass_k must be above 0"),
        ("grpo", {"advantage": "pass_at_k", "pass_threshold": 2}, "pass_threshold must be at most 1"),
        ("gdpo", {"drop_equal_groups": True}, "with advantage 'gdpo' a group learns even where its rewards are all"),
        ("sft", {"kl_coef": 0.1, "kl_in": "reward"}, "'one' has no single reward for the KL"),
        ("sft", {"offline_weight": 0}, "nothing trains"),
        ("sft", {"policy_weight": 1}, "wrong responses as likely as right ones"),
        ("grpo", {"policy_weight": 0}, "nothing to compare offline trajectories with; use algorithm.name sft"),
        ("grpo", {"loss": "cross_entropy"}, "set offline_loss instead"),
        ("grpo", {"kl_in": "reward"}, "kl_in has no effect .*: set kl_coef above 0, or remove kl_in"),
        ("grpo", {"pass_k": 2}, "pass_k has no effect .*: set advantage to pass_at_k"),
        ("grpo", {"shaping_gamma": 0.2}, "shaping_gamma has no effect .*: set offline_loss to shaped"),
        ("grpo", {"fixed_length": 100}, "fixed_length has no effect .*: set average to fixed"),
        ("grpo", {"refill_rounds": 2}, "refill_rounds has no effect .*: set drop_equal_groups to true"),
        ("cispo", {"dual_clip": 3}, "dual_clip has no effect .*: it needs a loss of clip"),
        ("sft", {"clip_high": 0.3}, "clip_high has no effect on algorithm 'sft'"),
        ("gspo", {"average": "token"}, "ratio 'sequence' needs average 'sequence', got 'token'"),
        ("gdpo", {"kl_coef": 0.1, "kl_in": "reward"}, "'gdpo' has no single reward for the KL"),
    ],
)
def test_a_wrong_name_or_value_names_the_place_and_the_remedy(name, options, message):
    with pytest.raises(UsageError, match=message):
        named_algorithm(AlgorithmConfig(name=name, options=options))


def test_a_recipe_says_what_it_needs_of_the_run():
    assert [name for name, item in ALGORITHMS.items() if item.needs_greedy_baseline] == ["remax"]
    assert [name for name, item in ALGORITHMS.items() if not item.needs_policy_rollouts] == ["sft"]
    assert [name for name, item in ALGORITHMS.items() if item.needs_offline] == ["luffy", "sft"]
    assert not any(item.needs_reference for item in ALGORITHMS.values())
    asking = Algorithm(name="x", paper="", kl_coef=0.1)
    assert asking.needs_reference
