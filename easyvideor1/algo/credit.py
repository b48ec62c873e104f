"""Scored groups -> groups with advantages and loss weights, and the number that normalizes their loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from easyvideor1.algo import advantages
from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.carried import Carried
from easyvideor1.algo.own import own_advantages
from easyvideor1.errors import RunError
from easyvideor1.types import Group, Rollout, Score, StopReason

Gather = Callable[[list[float]], list[float]]
"""Local values -> the values of all ranks, in rank order. One process: the identity."""

NOTHING = Carried()
OVER_BATCH = ("reinforce_plus_plus", "reinforce_plus_plus_baseline", "gdpo")
"""Advantages that are standardized over the batch after the group's own step."""


def with_credit(
    groups: Sequence[Group],
    algorithm: Algorithm,
    *,
    part_weights: Mapping[str, float] | None = None,
    greedy_scores: Sequence[Score] | None = None,
    kl: Sequence[Sequence[float]] | None = None,
    carried: Carried = NOTHING,
    gather: Gather = lambda values: values,
) -> list[Group]:
    """The groups with `advantages` and `weights` filled in.

    Args:
        groups: scored groups of this rank.
        algorithm: which advantage.
        part_weights: reward part -> weight, for GDPO.
        greedy_scores: per group, the score of its greedy response, for ReMax.
        kl: per group and rollout, the KL from the reference in nats summed over the response, for `kl_in: reward`.
        carried: what the algorithm remembers of the steps before; the rewards of these groups are added here.
        gather: collects values of all ranks, for advantages that look at the whole batch.

    Raises:
        ValueError: the algorithm needs an argument that is missing, or a group is not scored.
        RunError: a score lacks a reward part that the advantage needs, or an offline trajectory its log-probabilities.
    """
    if algorithm.kl_coef and algorithm.kl_in == "reward" and kl is None:
        raise ValueError(f"algorithm '{algorithm.name}' puts the KL into the reward: pass kl")
    if algorithm.advantage == "remax" and greedy_scores is None:
        raise ValueError(f"algorithm '{algorithm.name}' compares with greedy responses: pass greedy_scores")
    if algorithm.advantage == "ema_grpo":
        carried = carried.with_rewards(groups, decay=algorithm.ema_decay)
    values = []
    for index, group in enumerate(groups):
        if len(group.scores) != len(group.rollouts):
            raise ValueError(
                f"sample '{group.prompt.sample.id}': {len(group.rollouts)} rollouts, {len(group.scores)} scores"
            )
        greedy = math.nan if greedy_scores is None else greedy_scores[index].value
        kl_G = kl[index] if kl is not None and algorithm.kl_in == "reward" else [0.0] * len(group.rollouts)
        values.append(
            _group_values(group, algorithm, part_weights=part_weights, greedy_reward=greedy, kl_G=kl_G, carried=carried)
        )
    if algorithm.advantage in OVER_BATCH:
        values = _over_batch(values, groups, algorithm, gather)
    return [
        replace(group, advantages=tuple(value), weights=rollout_weights(group, algorithm))
        for group, value in zip(groups, values, strict=True)
    ]


def rollout_weights(group: Group, algorithm: Algorithm) -> tuple[float, ...]:
    """[G] loss weight of each rollout: that of its source, or 0 where it is unscored or masked as truncated."""
    return tuple(
        _weight(rollout, score, algorithm, group.prompt.sample.id)
        for rollout, score in zip(group.rollouts, group.scores, strict=True)
    )


def normalizer(groups: Sequence[Group], algorithm: Algorithm, *, max_response_tokens: int) -> float:
    """The number that divides the loss of a whole batch; add it up over ranks before use.

    Counts what trains (weight other than 0): tokens, responses, or responses times the fixed length, by the algorithm's
    average. 0 when nothing does; then there is no update to make.
    """
    lengths = [
        len(rollout.token_ids)
        for group in groups
        for rollout, weight in zip(group.rollouts, group.weights, strict=True)
        if weight != 0
    ]
    if algorithm.average == "token":
        return float(sum(lengths))
    if algorithm.average == "sequence":
        return float(len(lengths))
    return float(len(lengths) * (algorithm.fixed_length or max_response_tokens))


def learning_rollouts(group: Group, algorithm: Algorithm) -> tuple[int, ...]:
    """Indices of the rollouts that can move the weights; the gradient of all others is exactly 0.

    Those with tokens and a loss weight, and one of: an advantage, a term that does not look at it (KL, entropy, the
    value head's), or imitation as their loss.
    """
    looks_at_all = (
        algorithm.own_loss is not None
        or algorithm.needs_values
        or algorithm.entropy_coef > 0
        or (algorithm.needs_reference and algorithm.kl_in == "loss")
    )
    return tuple(
        index
        for index, (rollout, advantage, weight) in enumerate(
            zip(group.rollouts, group.advantages, group.weights, strict=True)
        )
        if rollout.token_ids
        and weight != 0
        and (looks_at_all or advantage != 0 or algorithm.loss_of(rollout.source) == "cross_entropy")
    )


def _group_values(
    group: Group,
    algorithm: Algorithm,
    *,
    part_weights: Mapping[str, float] | None,
    greedy_reward: float,
    kl_G: Sequence[float],
    carried: Carried,
) -> list[float]:
    coef = carried.coef_of(algorithm)
    rewards_G = [score.value - coef * kl for score, kl in zip(group.scores, kl_G, strict=True)]
    if algorithm.own_advantage is not None:
        return own_advantages(algorithm, rewards_G)
    match algorithm.advantage:
        case "grpo":
            return advantages.grpo(rewards_G)
        case "ema_grpo":
            task_std = carried.std_of(group.prompt.sample)
            return advantages.ema_grpo(rewards_G, task_std=task_std, guard=algorithm.ema_guard)
        case "centered" | "reinforce_plus_plus_baseline":
            return advantages.centered(rewards_G)
        case "rloo":
            return advantages.rloo(rewards_G)
        case "reinforce_plus_plus":
            return rewards_G
        case "remax":
            return advantages.remax(rewards_G, greedy_reward=greedy_reward)
        case "gdpo":
            return _gdpo(group, algorithm, part_weights)
        case "pass_at_k":
            passed_G = [
                float(value >= algorithm.pass_threshold) if not math.isnan(value) else value
                for value in _part(group, "accuracy")
            ]
            return advantages.pass_at_k(passed_G, k=algorithm.pass_k)
        case "one":
            return [1.0] * len(rewards_G)
        case "gae":
            raise ValueError("advantage 'gae' is one of tokens: call gae.with_token_credit")


def _gdpo(group: Group, algorithm: Algorithm, part_weights: Mapping[str, float] | None) -> list[float]:
    if part_weights is None:
        raise ValueError(f"algorithm '{algorithm.name}' standardizes each reward part: pass part_weights")
    parts = {name: _part(group, name) for name in part_weights}
    return advantages.gdpo_sums(parts, weights=part_weights)


def _over_batch(
    values: Sequence[Sequence[float]], groups: Sequence[Group], algorithm: Algorithm, gather: Gather
) -> list[list[float]]:
    # An unscored response is NaN here, so that the batch's mean and deviation leave it out.
    marked = [
        [value if score.is_scored else math.nan for value, score in zip(value_G, group.scores, strict=True)]
        for value_G, group in zip(values, groups, strict=True)
    ]
    batch_B = gather([value for value_G in marked for value in value_G])
    step = (
        advantages.standardized_over_batch
        if algorithm.advantage == "reinforce_plus_plus"
        else advantages.scaled_over_batch
    )
    return [step(value_G, batch_B=batch_B) for value_G in marked]


def _part(group: Group, name: str) -> list[float]:
    """[G] values of a reward part, NaN where unscored."""
    values = []
    for score in group.scores:
        if score.is_scored and name not in score.parts:
            raise RunError(
                f"sample '{group.prompt.sample.id}': its score has no part '{name}' (it has "
                f"{', '.join(score.parts) or 'none'}); the algorithm needs every part named in reward.weights"
            )
        values.append(score.parts[name] if score.is_scored else math.nan)
    return values


def _weight(rollout: Rollout, score: Score, algorithm: Algorithm, sample_id: str) -> float:
    if not score.is_scored or (algorithm.mask_truncated and rollout.stop_reason is StopReason.LENGTH):
        return 0.0
    if rollout.source == "policy":
        return algorithm.policy_weight
    if algorithm.offline_old == "stored" and rollout.logprobs is None:
        raise RunError(
            f"sample '{sample_id}': algorithm.options.offline_old is 'stored', but its offline trajectory "
            "has no log-probabilities; use 'current' or 'one'"
        )
    return algorithm.offline_weight
