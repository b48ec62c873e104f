"""How long a step of a run may take, from a stated model: operations and bytes over what a device does per second.

Sampling reads every weight once per token and all keys and values of the responses under way; an update multiplies
every token with every weight, forward, and twice that backward, once per pass. Both get the share of a device's pace
below. Groups that are dropped and sampled anew are not foreseen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.model.sizes import Sizes
from easyvideor1.runs.devices import Device
from easyvideor1.runs.footprint import concurrent_responses
from easyvideor1.runs.planned_tokens import Tokens
from easyvideor1.training.balance import Costs

FLOPS_FRAC = 0.4
"""Share of a device's operations per second that updates and the reading of prompts get."""
BYTES_FRAC = 0.6
"""Share of its bytes per second that the sampling of tokens gets."""
LAYER_S = {"hf": 400e-6, "vllm": 60e-6, "vllm_server": 60e-6}
"""Time of a layer in sampling one token that no device is faster than: calls of kernels."""
READ_BYTES_PER_S = 1e9
"""At which a worker maps stored frames and cuts them into patches."""
ASSUMED = f"{FLOPS_FRAC:.0%} of the device's operations, {BYTES_FRAC:.0%} of its memory's pace, frames in the cache"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Seconds of a step."""

    load_s: float
    """To read the samples of a step: in other threads, beside sampling and update."""
    rollout_s: float
    update_s: float
    overlaps: bool
    """Servers sample while the step trains; an engine on the same GPU gains nothing by that, as both share its pace."""
    validation_s: float
    """Seconds of one validation; 0: there is none, or its files are not there."""

    @property
    def step_s(self) -> float:
        work = max(self.rollout_s, self.update_s) if self.overlaps else self.rollout_s + self.update_s
        return max(self.load_s, work)

    def as_values(self) -> Mapping[str, float]:
        return {
            "load_s": self.load_s,
            "rollout_s": self.rollout_s,
            "update_s": self.update_s,
            "step_s": self.step_s,
            "validation_s": self.validation_s,
        }


def pace(
    config: RunConfig, sizes: Sizes, costs: Costs, tokens: Tokens, *, response_tokens: int, ranks: int, device: Device
) -> Pace:
    """The pace of a run of which every rank has its share of each step.

    Args:
        response_tokens: mean length of a response.
    """
    train, made = config.train, fitting_algorithm(config)
    prompts = train.prompts_per_step / ranks
    length = round(tokens.prompt_mean)
    of_prompt = costs.prompt(num_tokens=length, num_vision=round(tokens.vision_mean))
    of_responses = config.rollout.n * costs.response(response_tokens, num_prompt=length)
    per_s = FLOPS_FRAC * device.flops / 2  # multiplications with their additions
    num_engines = ranks if config.rollout.engine != "vllm_server" else num_servers(config)

    def asked_s(num_prompts: float, *, n: int, response_tokens: int) -> float:
        """Time in which all engines answer some prompts n times."""
        prompts = num_prompts / num_engines
        num_at_once = concurrent_responses(config, tokens, num_prompts=prompts, n=n)
        # Slots are refilled as responses end, so the tokens of all of them are shared by the slots.
        num_turns = math.ceil(prompts * n / num_at_once) * response_tokens
        item = 4 if config.model.dtype == "float32" else 2
        kept = num_at_once * (length / n + response_tokens / 2) * sizes.attention_layers * 2 * sizes.key * item
        turn_s = max(
            (sizes.weights * item + kept) / (BYTES_FRAC * device.bytes_per_s),
            num_at_once * (costs.token + costs.output) / per_s,
            sizes.layers * LAYER_S[config.rollout.engine],
        )
        return prompts * of_prompt / per_s + num_turns * turn_s

    rollout_s = sum(
        asked_s(train.prompts_per_step, n=n, response_tokens=response_tokens) for n in num_responses(config, made)
    )
    limit = config.validation.max_response_tokens or config.rollout.max_response_tokens
    validation_s = asked_s(
        tokens.num_questions, n=1 + train.validation_samples, response_tokens=min(response_tokens, limit)
    )
    return Pace(
        load_s=prompts * tokens.example_bytes_mean / READ_BYTES_PER_S / config.data.workers,
        rollout_s=rollout_s,
        update_s=prompts * num_forwards(config, made) * (of_prompt + of_responses) / per_s,
        overlaps=train.overlaps and config.rollout.engine == "vllm_server",
        validation_s=validation_s,
    )


def num_servers(config: RunConfig) -> int:
    """Servers of a run with `rollout.engine: vllm_server`, which all ranks share."""
    return len(config.rollout.vllm.servers) or config.rollout.vllm.start_servers


def num_responses(config: RunConfig, algorithm: Algorithm) -> tuple[int, ...]:
    """Responses to each prompt of a step, and with a temporal bonus, to the same prompt with its frames shuffled, which
    is read anew."""
    if not algorithm.needs_policy_rollouts:
        return ()
    n = config.rollout.n
    usual = n + int(algorithm.needs_greedy_baseline)
    return (usual, max(1, n // 2)) if algorithm.temporal_bonus else (usual,)


def num_forwards(config: RunConfig, algorithm: Algorithm) -> int:
    """What an update multiplies, in forwards over the groups of its step.

    In each pass: the forward, the gradients of inputs and of weights, with activation checkpointing the forward again,
    and that of the reference. Once: the old log-probs where there are several optimizer steps, policy and reference
    where the KL is in the reward, and the policy where there is a value head.
    """
    train = config.train
    in_pass = 2 + int(config.model.lora is None) + int(config.model.gradient_checkpointing)
    in_pass += int(algorithm.needs_reference)
    once = int(train.updates_in_all > 1)
    kl_is_in_reward = algorithm.needs_reference and algorithm.kl_in == "reward"
    once += int(kl_is_in_reward) + int(kl_is_in_reward or algorithm.needs_values)
    return train.passes * in_pass + once


def num_validations(config: RunConfig, *, steps: int) -> int:
    """Validations of a run that has validation data."""
    every = config.train.validate_every
    after = set(range(every, steps + 1, every)) if every else set()
    return int(config.validation.before_training) + len(after | {steps})
