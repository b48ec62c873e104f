"""How long a step of a run may take, from a stated model: operations and bytes over what a device does per second.

Sampling reads every weight once per token and all keys and values of the responses under way; an update multiplies
every token with every weight, forward, and twice that backward. Both get the share of a device's pace below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from easyvideor1.algo.algorithms import named_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.model.sizes import Sizes
from easyvideor1.runs.devices import Device
from easyvideor1.runs.footprint import concurrent_responses
from easyvideor1.runs.planned_tokens import Tokens
from easyvideor1.training.balance import Costs

FLOPS_FRAC = 0.4
"""Of a device's operations per second, in updates and in reading prompts."""
BYTES_FRAC = 0.6
"""Of its bytes per second, in sampling tokens."""
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
    """See train.async_level."""

    @property
    def step_s(self) -> float:
        work = max(self.rollout_s, self.update_s) if self.overlaps else self.rollout_s + self.update_s
        return max(self.load_s, work)

    def as_values(self) -> Mapping[str, float]:
        return {"load_s": self.load_s, "rollout_s": self.rollout_s, "update_s": self.update_s, "step_s": self.step_s}


def pace(
    config: RunConfig, sizes: Sizes, costs: Costs, tokens: Tokens, *, response_tokens: int, ranks: int, device: Device
) -> Pace:
    """The pace of a run of which every rank has its share of each step.

    Args:
        response_tokens: mean length of a response.
    """
    n, train, rollout = config.rollout.n, config.train, config.rollout
    prompts = train.prompts_per_step / ranks
    length = round(tokens.prompt_mean)
    item = 4 if config.model.dtype == "float32" else 2
    of_prompt = costs.prompt(num_tokens=length, num_vision=round(tokens.vision_mean))
    of_responses = n * costs.response(response_tokens, num_prompt=length)
    # Forward, gradients of inputs, gradients of weights; with activation checkpointing the forward once more.
    passes = 2 + int(config.model.lora is None) + int(config.model.gradient_checkpointing)
    passes += int(train.updates_per_step > 1) + int(bool(config.algorithm.options.get("kl_coef")))
    passes += int(named_algorithm(config.algorithm).needs_values)
    per_s = FLOPS_FRAC * device.flops / 2  # multiplications with their additions
    num_at_once = concurrent_responses(config, tokens, sizes, ranks=ranks)
    # Slots are refilled as responses end, so the tokens of all of them are shared by the slots.
    num_turns = math.ceil(prompts * n / num_at_once) * response_tokens
    kept = num_at_once * (length / n + response_tokens / 2) * sizes.attention_layers * 2 * sizes.key * item
    turn_s = max(
        (sizes.weights * item + kept) / (BYTES_FRAC * device.bytes_per_s),
        num_at_once * (costs.token + costs.output) / per_s,
        sizes.layers * LAYER_S[rollout.engine],
    )
    return Pace(
        load_s=prompts * tokens.example_bytes_mean / READ_BYTES_PER_S / config.data.workers,
        rollout_s=prompts * of_prompt / per_s + num_turns * turn_s,
        update_s=prompts * passes * (of_prompt + of_responses) / per_s,
        overlaps=train.async_level > 0,
    )
