"""Named recipes and the options put over them."""

import pytest

from easyvideor1.algo.losses import TOKEN_LOSSES
from easyvideor1.algo.recipes import ALGORITHMS, Recipe, recipe
from easyvideor1.config import AlgorithmConfig
from easyvideor1.errors import UsageError


def test_every_recipe_can_be_named_and_cites_its_source():
    assert set(ALGORITHMS) >= {
        *("grpo", "dapo", "dr_grpo", "gspo", "gspo_token", "cispo", "reinforce_plus_plus"),
        *("reinforce_plus_plus_baseline", "remax", "rloo", "gdpo", "luffy", "sft"),
    }
    for name, default in ALGORITHMS.items():
        assert recipe(AlgorithmConfig(name=name)) == default
        assert default.paper
        assert {default.loss, default.offline_loss} <= set(TOKEN_LOSSES)


def test_options_override_the_recipe():
    changed = recipe(AlgorithmConfig(name="dapo", options={"clip_high": 1, "dual_clip": 3, "kl_kind": "k2"}))
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
        ("grpo", {"sampler_cap": 0}, "sampler_cap must be above 0"),
        ("gspo", {"average": "token"}, "ratio 'sequence' needs average 'sequence', got 'token'"),
        ("gdpo", {"kl_coef": 0.1, "kl_in": "reward"}, "'gdpo' has no single reward for the KL"),
    ],
)
def test_a_wrong_name_or_value_names_the_place_and_the_remedy(name, options, message):
    with pytest.raises(UsageError, match=message):
        recipe(AlgorithmConfig(name=name, options=options))


def test_a_recipe_says_what_it_needs_of_the_run():
    assert [name for name, item in ALGORITHMS.items() if item.needs_greedy_baseline] == ["remax"]
    assert [name for name, item in ALGORITHMS.items() if not item.needs_policy_rollouts] == ["sft"]
    assert [name for name, item in ALGORITHMS.items() if item.needs_stored] == ["luffy", "sft"]
    assert not any(item.needs_reference or item.needs_entropy for item in ALGORITHMS.values())
    asking = Recipe(name="x", paper="", kl_coef=0.1, entropy_coef=0.1)
    assert asking.needs_reference
    assert asking.needs_entropy
