"""The algorithm of a run, checked against the sections of its configuration that it depends on."""

from __future__ import annotations

from dataclasses import replace

from easyvideor1.algo.algorithms import AdvantageKind, Algorithm, named_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.errors import UsageError

COMPARE_IN_GROUP: tuple[AdvantageKind, ...] = (
    "grpo",
    "ema_grpo",
    "centered",
    "rloo",
    "reinforce_plus_plus_baseline",
    "gdpo",
    "pass_at_k",
)
"""Advantages that are 0 for a response without others beside it."""
ASYNC_CAP = 2.0
"""Bound on the importance weights of rollouts that are one update old, where the recipe names none."""


def fitting_algorithm(config: RunConfig) -> Algorithm:
    """The algorithm that a run is made of.

    Raises:
        UsageError: as `named_algorithm`; or the algorithm cannot work with the rest of the configuration.
    """
    made = named_algorithm(config.algorithm)
    _check_offline(config, made)
    _check_group(config, made)
    if config.train.async_level:
        made = _corrected(config, made)
    stop = config.train.stop
    if stop.max_kl and not made.needs_reference and config.train.updates_in_all == 1:
        raise UsageError(
            "train.stop.max_kl: nothing measures a KL in this run: with one update per step it is 0 by definition; set "
            "algorithm.options.kl_coef above 0 (a reference model), or train.updates_per_step or train.passes above "
            "1, or remove it"
        )
    return made


def _corrected(config: RunConfig, made: Algorithm) -> Algorithm:
    """The algorithm with truncated importance sampling, for rollouts of older weights."""
    if not made.needs_policy_rollouts:
        raise UsageError(
            f"train.async_level={config.train.async_level}: algorithm '{made.name}' samples nothing, so nothing can be "
            "sampled ahead; leave it out"
        )
    if "sampler_cap" in config.algorithm.options and made.sampler_cap is None:
        raise UsageError(
            f"train.async_level={config.train.async_level} with algorithm.options.sampler_cap=null: rollouts of older "
            f"weights would train as if they were new; leave it out ({ASYNC_CAP:g}), or give a number"
        )
    return made if made.sampler_cap is not None else replace(made, sampler_cap=ASYNC_CAP)


def _check_offline(config: RunConfig, made: Algorithm) -> None:
    if config.offline.enable:
        if made.needs_values:
            raise UsageError(
                f"offline.enable: the values of advantage '{made.advantage}' are what the policy's own responses can "
                "expect, and offline trajectories are another's; set it to false, or choose another algorithm"
            )
        if config.offline.accuracy_threshold is not None and not made.needs_policy_rollouts:
            raise UsageError(
                f"offline.accuracy_threshold: algorithm '{made.name}' samples nothing whose accuracy could be compared "
                "with it; leave it out"
            )
        return
    if made.needs_offline:
        raise UsageError(f"algorithm '{made.name}' learns from offline trajectories: set offline.enable=true")
    for name in config.algorithm.options:
        if name.startswith("offline_"):
            raise UsageError(
                f"algorithm.options.{name} is about offline trajectories, and the run has none: set "
                f"offline.enable=true, or remove {name}"
            )


def _check_group(config: RunConfig, made: Algorithm) -> None:
    n = config.rollout.n
    if made.temporal_bonus and config.offline.enable and not made.needs_policy_rollouts:
        raise UsageError("algorithm.options.temporal_bonus: nothing is sampled in this run; set it to 0")
    if made.length_bonus and made.length_low > config.rollout.max_response_tokens:
        raise UsageError(
            f"algorithm.options.length_low={made.length_low} is above rollout.max_response_tokens="
            f"{config.rollout.max_response_tokens}, so no response could get the bonus; lower it"
        )
    if n < 2 and made.advantage in COMPARE_IN_GROUP:
        raise UsageError(
            f"rollout.n={n}: advantage '{made.advantage}' compares the rollouts of a prompt; use 2 or more (8 is usual)"
        )
    if made.advantage == "pass_at_k" and made.pass_k >= n:
        raise UsageError(
            f"algorithm.options.pass_k={made.pass_k} must be below rollout.n={n}: otherwise every choice of k rollouts "
            "is the whole group and none stands out"
        )
