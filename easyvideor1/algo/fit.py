"""The recipe of a run, checked against the sections of its configuration that it depends on."""

from __future__ import annotations

from easyvideor1.algo.recipes import AdvantageKind, Recipe, recipe
from easyvideor1.config import RunConfig
from easyvideor1.errors import UsageError

COMPARE_IN_GROUP: tuple[AdvantageKind, ...] = (
    "grpo",
    "centered",
    "rloo",
    "reinforce_plus_plus_baseline",
    "gdpo",
    "pass_at_k",
)
"""Advantages that are 0 for a response without others beside it."""


def fitting_recipe(config: RunConfig) -> Recipe:
    """The recipe that a run is made of.

    Raises:
        UsageError: as `recipes.recipe`; or the recipe cannot work with the rest of the configuration.
    """
    made = recipe(config.algorithm)
    _check_stored(config, made)
    _check_group(config, made)
    stop = config.train.stop
    if stop.max_kl and not made.needs_reference and config.train.updates_per_step == 1:
        raise UsageError(
            "train.stop.max_kl: nothing measures a KL in this run: with one update per step it is 0 by definition; set "
            "algorithm.options.kl_coef above 0 (a reference model) or train.updates_per_step above 1, or remove it"
        )
    return made


def _check_stored(config: RunConfig, made: Recipe) -> None:
    if config.mix.enable:
        if config.mix.accuracy_threshold is not None and not made.needs_policy_rollouts:
            raise UsageError(
                f"mix.accuracy_threshold: algorithm '{made.name}' samples nothing whose accuracy could be compared "
                "with it; leave it out"
            )
        return
    if made.needs_stored:
        raise UsageError(f"algorithm '{made.name}' learns from stored trajectories: set mix.enable=true")
    for name in config.algorithm.options:
        if name.startswith("offline_"):
            raise UsageError(
                f"algorithm.options.{name} is about stored trajectories, and none are mixed in: set mix.enable=true, "
                f"or remove {name}"
            )


def _check_group(config: RunConfig, made: Recipe) -> None:
    n = config.rollout.n
    if n < 2 and made.advantage in COMPARE_IN_GROUP:
        raise UsageError(
            f"rollout.n={n}: advantage '{made.advantage}' compares the rollouts of a prompt; use 2 or more (8 is usual)"
        )
    if made.advantage == "pass_at_k" and made.pass_k >= n:
        raise UsageError(
            f"algorithm.options.pass_k={made.pass_k} must be below rollout.n={n}: otherwise every draw of k rollouts "
            "is the whole group and none stands out"
        )
