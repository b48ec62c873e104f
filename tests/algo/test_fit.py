"""A algorithm that cannot work with the rest of a configuration is refused before anything is loaded."""

import pytest

from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import apply_overrides, build
from easyvideor1.errors import UsageError


def config(*overrides) -> RunConfig:
    tree = {
        "out": "run",
        "model": {"path": "model"},
        "data": {"train": [{"path": "train.jsonl"}]},
        "cache": {"dir": "cache"},
        "train": {"steps": 1},
    }
    return build(RunConfig, apply_overrides(tree, overrides), where="test")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_named_recipe_fits_a_usual_run(name):
    overrides = [] if ALGORITHMS[name].needs_values else ["offline.enable=true"]
    assert fitting_algorithm(config(f"algorithm.name={name}", *overrides)) == ALGORITHMS[name]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.name=sft"], r"learns from offline trajectories: set offline\.enable=true"),
        (["algorithm.name=sft", "offline={enable: true, accuracy_threshold: 0.5}"], "'sft' samples nothing"),
        (["algorithm.options={offline_weight: 0.5}"], r"offline_weight is about offline .*: set offline\.enable=true"),
        (["rollout.n=1"], r"rollout\.n=1: advantage 'grpo' compares the rollouts of a prompt; use 2 or more"),
        (["algorithm.options={advantage: pass_at_k, pass_k: 8}"], r"pass_k=8 must be below rollout\.n=8"),
        (["train.stop.max_kl=0.1"], "nothing measures a KL in this run"),
        (["algorithm.name=ppo", "offline.enable=true"], "offline trajectories are another's; set it to false"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(overrides, message):
    with pytest.raises(UsageError, match=message):
        fitting_algorithm(config(*overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        ["rollout.n=1", "algorithm.name=remax"],
        ["rollout.n=1", "algorithm.name=reinforce_plus_plus"],
        ["algorithm.options={advantage: pass_at_k, pass_k: 7}"],
        ["train.stop.max_kl=0.1", "algorithm.options={kl_coef: 0.01}"],
        ["train.stop.max_kl=0.1", "train.updates_per_step=2"],
    ],
)
def test_what_works_is_not_refused(overrides):
    fitting_algorithm(config(*overrides))
