"""Rules that end a run which no longer learns, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from easyvideor1.config_train import StopConfig
from easyvideor1.errors import RunError
from easyvideor1.types import Group, StopReason

SHOWN_RESPONSES = 3
SHOWN_CHARS = 300
AVERAGE_OF_STEPS = 10
"""Rewards are compared as exponential averages over about this many steps: single steps are noisy."""
KL_NAMES = ("loss/kl_ref", "reward/kl_ref", "loss/kl_old")
"""Metrics in nats per token that train.stop.max_kl bounds."""


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The averages and counts that the rules need from earlier steps; part of a checkpoint."""

    zero_steps: int = 0
    """Steps in a row in which no rollout got a reward for accuracy."""
    reward_average: float = 0.0
    best_average: float = 0.0
    num_steps: int = 0
    """Steps that had rewards."""
    dead_steps: int = 0
    """Steps in a row with no reward at all and no gradient, after steps that had some."""


def watch_trend(
    trend: Trend, values: Mapping[str, float], groups: Sequence[Group], *, config: StopConfig, step: int
) -> Trend:
    """The trend after a step.

    Args:
        values: the step's metrics.
        groups: the step's scored groups, dropped ones included, for examples in the message.

    Raises:
        RunError: a rule of the configuration ends the run; says which, why and what to try.
    """
    if {"reward/mean", "reward/accuracy_frac"} <= values.keys():  # else nothing was sampled, or nothing scored
        trend = _moved(
            trend,
            reward=values["reward/mean"],
            accuracy=values["reward/accuracy_frac"],
            is_idle=values.get("update/idle_groups_frac") == 1.0 or values.get("update/grad_norm") == 0.0,
        )
    if config.dead_steps and trend.dead_steps >= config.dead_steps:
        last = step - trend.dead_steps - 1
        raise RunError(
            f"step {step}: for {trend.dead_steps} steps all rewards and the gradient have been 0, and they were not "
            f"before: the update of step {last + 1} broke the weights (train.stop.dead_steps). Those of step {last} or "
            "before still worked: `easyvideor1 export RUN --step` gives them as model.path of a new run with a lower "
            f"optimizer.learning_rate.\n{_examples(groups)}"
        )
    if config.zero_reward_steps and trend.zero_steps >= config.zero_reward_steps:
        raise RunError(
            f"step {step}: no rollout was right in {trend.zero_steps} steps, so there is nothing to learn from "
            f"(train.stop.zero_reward_steps). {_hint(groups)}\n{_examples(groups)}"
        )
    is_settled = trend.num_steps > AVERAGE_OF_STEPS
    if config.collapse_frac and is_settled and trend.reward_average < config.collapse_frac * trend.best_average:
        raise RunError(
            f"step {step}: the reward fell to {trend.reward_average:.3f}, below {config.collapse_frac:g} of its best "
            f"average {trend.best_average:.3f} (train.stop.collapse_frac). Start a new run with a lower "
            "optimizer.learning_rate or a KL term (algorithm.options.kl_coef); `easyvideor1 export` gives it the best "
            "model of this one as model.path"
        )
    for name in KL_NAMES:
        if config.max_kl and values.get(name, 0.0) > config.max_kl:
            raise RunError(
                f"step {step}: {name} is {values[name]:.3g}, above train.stop.max_kl={config.max_kl:g}. Start a new "
                "run with a lower optimizer.learning_rate or a higher algorithm.options.kl_coef"
            )
    return trend


def _moved(trend: Trend, *, reward: float, accuracy: float, is_idle: bool) -> Trend:
    weight = 1.0 / min(trend.num_steps + 1, AVERAGE_OF_STEPS)
    is_dead = reward == 0.0 and is_idle and trend.best_average > 0.0
    average = trend.reward_average + weight * (reward - trend.reward_average)
    return Trend(
        zero_steps=trend.zero_steps + 1 if accuracy == 0.0 else 0,
        reward_average=average,
        best_average=max(trend.best_average, average),
        num_steps=trend.num_steps + 1,
        dead_steps=trend.dead_steps + 1 if is_dead else 0,
    )


def _hint(groups: Sequence[Group]) -> str:
    """Why all rewards may be zero, from what the responses look like."""
    rollouts = [
        (rollout, score) for group in groups for rollout, score in zip(group.rollouts, group.scores, strict=True)
    ]
    cut = sum(rollout.stop_reason is StopReason.LENGTH for rollout, _ in rollouts) / max(1, len(rollouts))
    unread = sum(score.parsed is None for _, score in rollouts) / max(1, len(rollouts))
    if cut > 0.5:
        return f"{cut:.0%} of the responses were cut by the limit: raise rollout.max_response_tokens."
    if unread > 0.5:
        return (
            f"In {unread:.0%} of the responses no answer could be read: the model does not know the asked form. "
            "Start from a model that does, or put offline trajectories into the groups (offline.enable=true)."
        )
    return (
        "The answers are readable but wrong: check the gold answers with `easyvideor1 reward test`, or filter the "
        "data for questions that the model sometimes answers (`easyvideor1 data filter`)."
    )


def _examples(groups: Sequence[Group]) -> str:
    shown = [(group.prompt.sample, group.rollouts[0].text) for group in groups[:SHOWN_RESPONSES] if group.rollouts]
    return "\n".join(f"  {sample.id}: wanted {sample.gold!r}, got {text[:SHOWN_CHARS]!r}" for sample, text in shown)
