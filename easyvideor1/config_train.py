"""The sections of a recipe that say how the weights are moved: optimizer, steps of the run, when it ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from easyvideor1.config_checks import LONGEST_S, check_positive, check_range
from easyvideor1.errors import UsageError

MomentKind = Literal["float32", "bfloat16", "8bit"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW, and the learning rate over the steps of the run."""

    learning_rate: float = 1e-6
    """Learning rate at the end of the warm-up; from there on it follows the schedule."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's two moments."""
    states: MomentKind = "float32"
    """Number type of the two moments: 4, 2 or about 1 byte per moment and weight. bfloat16 is rounded at random; 8bit
    is torchao's and needs a run of one process. The weights that the optimizer works on stay in float32."""
    weight_decay: float = 0.01
    """Share of a weight that is taken away per step, times the learning rate."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient; longer gradients are scaled down to it. .inf: never."""
    warmup_steps: int = 0
    """Steps over which the rate rises evenly to its full value, the first of them not at 0."""
    warmup_frac: float = 0.0
    """Instead of warmup_steps: their share of all steps, rounded down."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the rate goes on after the warm-up; linear and cosine fall to min_learning_rate_frac at the last step."""
    min_learning_rate_frac: float = 0.0
    """Share of the learning rate that linear and cosine schedules end at."""

    def __post_init__(self) -> None:
        check_range("optimizer", self, low=0, names=("learning_rate", "weight_decay", "warmup_steps"))
        check_range("optimizer", self, low=0, high=1, names=("warmup_frac", "min_learning_rate_frac"))
        check_positive("optimizer", self, "max_grad_norm")
        if self.warmup_steps and self.warmup_frac:
            raise UsageError(
                f"optimizer.warmup_steps={self.warmup_steps} and optimizer.warmup_frac={self.warmup_frac:g} both say "
                "how long the warm-up is; keep one"
            )
        if self.min_learning_rate_frac and self.schedule == "constant":
            raise UsageError(
                f"optimizer.min_learning_rate_frac={self.min_learning_rate_frac:g} has no effect on a constant rate; "
                "set optimizer.schedule to linear or cosine, or remove it"
            )
        for name in ("learning_rate", "weight_decay"):
            if getattr(self, name) == math.inf:
                raise UsageError(f"optimizer.{name} must be finite, got inf")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"optimizer.betas must be at least 0 and below 1, got {list(self.betas)}")


@dataclass(frozen=True, kw_only=True)
class StopConfig:
    """When to end a run that does not learn any more; 0 turns a rule off."""

    zero_reward_steps: int = 30
    """Steps in a row without one right rollout."""
    dead_steps: int = 5
    """Steps in a row in which all rewards and the gradient are 0, although they were not before: an update broke the
    weights. While this lasts no checkpoint is written over the earlier ones."""
    collapse_frac: float = 0.0
    """Share of the best average reward below which the average must not fall."""
    max_kl: float = 0.0
    """Largest KL from the reference model, or from the policy before the step, in nats per token."""

    def __post_init__(self) -> None:
        check_range("train.stop", self, low=0, names=("zero_reward_steps", "dead_steps", "max_kl"))
        check_range("train.stop", self, low=0, high=1, names=("collapse_frac",))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The steps of a run."""

    steps: int | None = None
    """Steps of the whole run; each samples, scores and updates once. 0: only validate. None: see epochs."""
    epochs: float | None = None
    """Instead of steps: how often each training sample is asked; a run has epochs * samples / prompts_per_step whole
    steps."""
    prompts_per_step: int = 32
    """Groups per step."""
    passes: int = 1
    """How often a step learns from its groups (PPO's epochs over a batch); old log-probs are those before the first."""
    async_level: Literal[0, 1] = 0
    """1: the rollouts of the next step are sampled while this one trains, by weights one update older, for which
    truncated importance sampling corrects (docs/vllm.md). 0: one after the other."""
    updates_per_step: int = 1
    """Optimizer steps that the groups of a step are dealt to; with more than one, old log-probs are computed first."""
    tokens_per_pack: int = 16_384
    """Bound on the tokens of one forward and backward, which their memory follows; the longest prompt with
    rollout.max_response_tokens has to fit."""
    shared_prefix: bool = True
    """Compute the prompt of a group once; False: once per rollout (same numbers, slower)."""
    validate_every: int = 0
    """Steps between validations; 0: only before the first and after the last step."""
    validation_samples: int = 0
    """Further sampled responses per validation question, beside the greedy one."""
    checkpoint_every: int | None = None
    """Steps between checkpoints; a killed run loses the steps since the last one. None: chosen by size, so that at most
    8 GiB are written per step on average: 1 for small models and LoRA, 14 for all weights of an 8B model (112 GB).
    0: only before the first and after the last step, and where a validation is the best so far."""
    keep_checkpoints: int = 2
    """Newest checkpoints that are kept, beside the best one."""
    checkpoint_optimizer: bool = True
    """Keep the optimizer's numbers in a checkpoint, without which a run cannot go on exactly; False: the weights alone,
    about a seventh of the size in bfloat16, a third in float32. Another run can begin with either (model.path)."""
    fresh_optimizer: bool = False
    """Where a checkpoint holds no optimizer, let the run go on from it all the same, with new moments and the schedule
    where it was; False: that is an error."""
    save_in_background: bool = False
    """Copy a checkpoint to main memory, which must have room for it, and write it while the run goes on."""
    stall_limit_s: float = 3600.0
    """Time without any progress (a sample prepared, its responses done, an update, a checkpoint) after which a run is
    ended with the stacks of all its processes in stalled.txt; 0: never."""
    stop: StopConfig = field(default_factory=StopConfig)
    """When to end a run that does not learn any more."""

    def __post_init__(self) -> None:
        check_range("train", self, low=0, high=LONGEST_S, names=("stall_limit_s",))
        check_range("train", self, low=0, names=("steps", "validate_every", "validation_samples", "checkpoint_every"))
        check_range(
            "train",
            self,
            low=1,
            names=("prompts_per_step", "passes", "updates_per_step", "tokens_per_pack", "keep_checkpoints"),
        )
        check_positive("train", self, "epochs")
        if (self.steps is None) == (self.epochs is None):
            raise UsageError(
                f"train.steps={self.steps} and train.epochs={self.epochs}: give one of the two, the length of the run"
            )
        if self.updates_per_step > self.prompts_per_step:
            raise UsageError(
                f"train.updates_per_step={self.updates_per_step} is more than train.prompts_per_step="
                f"{self.prompts_per_step}: each update needs a prompt of its own"
            )

    @property
    def num_steps(self) -> int:
        """Steps of the run, which are known once its samples are (see `RunConfig.with_samples`)."""
        assert self.steps is not None, "the steps of this run follow from its samples"
        return self.steps

    @property
    def overlaps(self) -> bool:
        """Whether the rollouts of the next step are sampled while a step trains."""
        return self.async_level > 0

    @property
    def updates_in_all(self) -> int:
        """Optimizer steps of one step."""
        return self.updates_per_step * self.passes
