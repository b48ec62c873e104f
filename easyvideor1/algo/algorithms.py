"""Named algorithms: an advantage, a loss and their numbers, with the paper they come from.

Two terms cost extra work and are off in every algorithm, whatever its paper does: the KL term (a forward of the
reference model) and the entropy bonus (gradients through the whole vocabulary). Each algorithm's comment names the
paper's values; `algorithm.options` turns them on.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from easyvideor1.config import AlgorithmConfig
from easyvideor1.config_tree import build, to_tree
from easyvideor1.errors import UsageError

AdvantageKind = Literal[
    "grpo",
    "ema_grpo",
    "centered",
    "rloo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "remax",
    "gae",
    "gdpo",
    "pass_at_k",
    "one",
]
LossKind = Literal["clip", "cispo", "shaped", "cross_entropy"]
RatioKind = Literal["token", "sequence", "sequence_token", "trajectory"]
AverageKind = Literal["token", "sequence", "fixed"]
KLKind = Literal["k1", "k2", "k3", "abs", "full"]
OfflineOldKind = Literal["current", "stored", "one"]

NOT_OPTIONS = ("name", "paper", "functions")
NOT_NEGATIVE = (
    "clip_low", "clip_high", "policy_weight", "offline_weight", "kl_coef", "entropy_coef", "refill_rounds",
    "temporal_bonus", "length_bonus", "length_low", "value_warmup_steps",
)  # fmt: skip
POSITIVE = (
    "shaping_gamma", "fixed_length", "pass_k", "pass_threshold", "kl_target", "kl_horizon", "ema_guard", "value_coef",
    "value_clip", "value_learning_rate",
)  # fmt: skip
OF_VALUES = (
    "gae_gamma", "gae_lambda", "value_coef", "value_clip", "value_detached", "value_learning_rate",
    "value_warmup_steps",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """The definition of an update; every field but those of NOT_OPTIONS is an option of `algorithm.options`."""

    name: str
    paper: str
    """The paper that defines the algorithm."""
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict, compare=False)
    """Place of a function of the user's ("file.py:function") -> the function there."""
    advantage: AdvantageKind = "grpo"
    """See algo.advantages; "one" gives every response the advantage 1."""
    own_advantage: str | None = None
    """A function of yours in the place of `advantage`, "file.py:function": it takes the rewards of a group (NaN:
    unscored) and returns their advantages; the path is relative to the recipe."""
    own_loss: str | None = None
    """A function of yours in the place of `loss`, "file.py:function": it takes algo.losses.Terms and returns a loss for
    each token; the path is relative to the recipe."""
    loss: LossKind = "clip"
    """Loss of tokens that the policy sampled; see algo.losses."""
    offline_loss: LossKind = "clip"
    """Loss of the tokens of offline trajectories."""
    ratio: RatioKind = "token"
    """What current over old probability is taken of: each token, the sequence (geometric mean, GSPO), the same with
    token gradients (GSPO-token), or the whole trajectory (product)."""
    average: AverageKind = "token"
    """How the losses of tokens are averaged: over all tokens of the batch, over sequences of their token means, or over
    sequences of their sums divided by a fixed length."""
    fixed_length: int | None = None
    """Length that `average: fixed` divides by, in tokens; None: the response limit."""
    clip_low: float = 0.2
    """Ratios below 1 - clip_low are clipped."""
    clip_high: float = 0.2
    """Ratios above 1 + clip_high are clipped."""
    dual_clip: float | None = None
    """Largest ratio that a response with a negative advantage is charged for (arXiv:1912.09729), > 1."""
    shaping_gamma: float = 0.1
    """Gamma of LUFFY's shaping p / (p + gamma)."""
    offline_old: OfflineOldKind = "current"
    """Old log-probabilities of offline tokens: the current policy's, those stored with them, or 0 (probability 1)."""
    policy_weight: float = 1.0
    """Loss weight of responses that the policy sampled; 0 makes sampling them needless."""
    offline_weight: float = 1.0
    """Loss weight of offline trajectories."""
    mask_truncated: bool = False
    """Responses cut by the token limit get loss weight 0 (they still count in their group's mean)."""
    drop_equal_groups: bool = False
    """DAPO's dynamic sampling: groups whose rewards are all equal are dropped and refilled from further prompts."""
    filter_part: str | None = None
    """Part of the score, or "overall", by whose mean in a group it is kept: groups outside filter_low < mean <
    filter_high are dropped and refilled. None: no such filter."""
    filter_low: float = 0.01
    """Groups with a mean of filter_part at or below it are dropped."""
    filter_high: float = 0.99
    """Groups with a mean of filter_part at or above it are dropped."""
    refill_rounds: int = 4
    """Most rounds of further prompts for one step; after them the step goes on with fewer groups."""
    kl_coef: float = 0.0
    """Weight of the KL divergence from the reference model; 0: no reference model is needed."""
    kl_kind: KLKind = "k3"
    """Estimator of a token's KL (see algo.kl), or full: the divergence itself, over all words, for two more passes
    of the output layer. In the loss, the expected gradient of k1 is zero: use k2, k3 or full there."""
    kl_target: float | None = None
    """Adaptive KL (arXiv:1909.08593): kl_coef is where the coefficient starts, and it moves so that the KL of a token
    comes to this many nats. None: it stays."""
    kl_horizon: float = 10_000.0
    """Rollouts over which an adaptive coefficient moves by a fifth."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Add the KL to the loss of each token, or subtract a response's sum from its reward."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    sampler_cap: float | None = None
    """Truncated importance sampling: tokens are weighted by min(old / sampler probability, cap); None: off."""
    pass_k: int = 4
    """k of the pass@k advantage."""
    pass_threshold: float = 0.5
    """Accuracy from which a response counts as passed or right, for the pass@k advantage and the bonuses."""
    ema_decay: float = 0.99
    """How much of a task's moving averages stays at each step, for the ema_grpo advantage."""
    ema_guard: float | None = 5.0
    """A group of which an ema_grpo advantage would be beyond it, above or below 0, takes its own deviation instead;
    None: never."""
    temporal_bonus: float = 0.0
    """Reward of right answers in groups that are not worse than responses to the same question with its frames
    shuffled, of which half as many are sampled (see algo.bonuses); 0: nothing is shuffled."""
    length_bonus: float = 0.0
    """Reward of right answers of length_low to length_high tokens."""
    length_low: int = 320
    """Shortest response that gets the length bonus, in tokens."""
    length_high: int = 512
    """Longest response that gets the length bonus, in tokens."""
    gae_gamma: float = 1.0
    """Discount of what comes a token later, for the gae advantage."""
    gae_lambda: float = 1.0
    """How far gae looks past the next token's value: 0 not at all, 1 to the end of the response (no bias by values)."""
    value_coef: float = 0.1
    """Weight of the value head's loss beside the policy's."""
    value_clip: float | None = 0.5
    """Farthest that a value is charged for moving from where it was before the step's updates; None: no bound."""
    value_detached: bool = True
    """The value head learns from the policy's hidden states as they are; False: its loss trains the policy's layers
    too."""
    value_learning_rate: float = 0.05
    """Learning rate of the value head, on the schedule of the optimizer's."""
    value_warmup_steps: int = 0
    """Steps at the start of the run in which the value head alone learns."""

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_values()
        self._check_combinations()

    def _check_numbers(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"algorithm.options.{item.name} must be a finite number, got {value}")
        for name in NOT_NEGATIVE:
            if getattr(self, name) < 0:
                raise UsageError(f"algorithm.options.{name} must not be negative, got {getattr(self, name)}")
        for name in POSITIVE:
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise UsageError(f"algorithm.options.{name} must be above 0, got {getattr(self, name)}")
        if self.clip_low > 1:
            raise UsageError(f"algorithm.options.clip_low must be at most 1 (no lower bound), got {self.clip_low}")
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise UsageError(f"algorithm.options.dual_clip must be above 1 (3 is usual), got {self.dual_clip}")
        if self.sampler_cap is not None and self.sampler_cap < 1:
            raise UsageError(
                f"algorithm.options.sampler_cap must be at least 1 (2 is usual), got {self.sampler_cap}; below 1 it "
                "would weaken tokens on which the engine and the trainer agree"
            )
        self._check_bounds()

    def _check_bounds(self) -> None:
        for name in ("gae_gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"algorithm.options.{name} must be between 0 and 1, got {getattr(self, name)}")
        if not 0 <= self.ema_decay < 1:
            raise UsageError(f"algorithm.options.ema_decay must be at least 0 and below 1, got {self.ema_decay}")
        for low, high in (("length_low", "length_high"), ("filter_low", "filter_high")):
            if getattr(self, low) >= getattr(self, high):
                raise UsageError(
                    f"algorithm.options.{low}={getattr(self, low)} must be below {high}={getattr(self, high)}"
                )
        if self.pass_threshold > 1:
            raise UsageError(
                f"algorithm.options.pass_threshold must be at most 1, got {self.pass_threshold}: accuracy is never more"
            )

    def _check_values(self) -> None:
        if self.advantage == "gae" and self.ratio in ("sequence", "trajectory"):
            raise UsageError(
                f"algorithm.options.ratio: '{self.ratio}' weighs whole responses, and advantage 'gae' is one of "
                "tokens; use token or sequence_token"
            )

    def _check_combinations(self) -> None:
        if self.ratio in ("sequence", "trajectory") and self.average != "sequence":
            # Each token carries its sequence's whole term, so any other average would count long responses many times.
            raise UsageError(
                f"algorithm.options: ratio '{self.ratio}' needs average 'sequence', got '{self.average}'; "
                "ratio 'sequence_token' allows every average"
            )
        if self.advantage in ("gdpo", "pass_at_k", "one") and self.kl_coef and self.kl_in == "reward":
            raise UsageError(
                f"algorithm.options.kl_in: advantage '{self.advantage}' has no single reward for the KL; use loss"
            )
        if self.advantage in ("gae", "gdpo", "one") and self.drop_equal_groups:
            raise UsageError(
                f"algorithm.options.drop_equal_groups: with advantage '{self.advantage}' a group learns even where its "
                "rewards are all equal; set it to false"
            )
        if self.own_advantage is not None and self.advantage not in ("grpo", "centered"):
            raise UsageError(
                f"algorithm.options.own_advantage takes the place of a group's advantage, and '{self.advantage}' is "
                "more than that; set advantage to grpo, or use an algorithm that does"
            )
        if self.own_loss is not None and not self.policy_weight:
            raise UsageError("algorithm.options.own_loss: with policy_weight 0 no sampled token has a loss")
        if self.filter_part is not None and not self.policy_weight:
            raise UsageError("algorithm.options.filter_part: with policy_weight 0 nothing is sampled to filter by")
        if (self.temporal_bonus or self.length_bonus) and self.advantage in ("gdpo", "pass_at_k", "one", "remax"):
            raise UsageError(
                f"algorithm.options.advantage: '{self.advantage}' does not compare whole rewards of sampled responses, "
                "so temporal_bonus and length_bonus would have no effect; choose another, or set them to 0"
            )
        if not (self.policy_weight or self.offline_weight):
            raise UsageError("algorithm.options: policy_weight and offline_weight are both 0, so nothing trains")
        if self.advantage == "one" and self.policy_weight:
            raise UsageError(
                "algorithm.options.advantage: 'one' makes wrong responses as likely as right ones; it is for offline "
                "trajectories alone: set policy_weight to 0, or choose an advantage that compares"
            )
        if self.advantage != "one" and not self.policy_weight:
            raise UsageError(
                f"algorithm.options.policy_weight: at 0 nothing is sampled, so advantage '{self.advantage}' has "
                "nothing to compare offline trajectories with; use algorithm.name sft, or a weight above 0"
            )
        if self.loss == "cross_entropy" and self.policy_weight:
            raise UsageError(
                "algorithm.options.loss: 'cross_entropy' imitates sampled responses, right or wrong; it is for offline "
                "trajectories: set offline_loss instead"
            )

    @property
    def needs_greedy_baseline(self) -> bool:
        """Whether each group needs one more, greedy, response that is scored and not trained on."""
        return self.advantage == "remax"

    @property
    def drops_groups(self) -> bool:
        """Whether groups are left out and refilled for what their rewards are."""
        return self.drop_equal_groups or self.filter_part is not None

    @property
    def needs_reference(self) -> bool:
        return self.kl_coef > 0

    @property
    def needs_values(self) -> bool:
        """Whether advantages are compared with the values of a value head."""
        return self.advantage == "gae"

    @property
    def needs_offline(self) -> bool:
        """Whether the algorithm is about offline trajectories and so needs `offline.enable`."""
        return self.offline_loss != self.loss or not self.needs_policy_rollouts

    @property
    def needs_policy_rollouts(self) -> bool:
        return self.policy_weight > 0

    def loss_of(self, source: Literal["policy", "offline"]) -> LossKind:
        """The token loss of a rollout of this source."""
        return self.offline_loss if source == "offline" else self.loss

    @property
    def losses(self) -> set[str]:
        """The losses of the tokens that train."""
        return ({self.loss} if self.policy_weight else set()) | ({self.offline_loss} if self.offline_weight else set())


_ALGORITHMS = (
    # The paper adds a k3 KL of 0.04 to the loss.
    Algorithm(name="grpo", paper="arXiv:2402.03300", average="sequence"),
    # As its authors' code (OneThinker): deviation by task over time, and a group's own beyond +-5.
    Algorithm(name="ema_grpo", paper="arXiv:2512.03043", advantage="ema_grpo"),
    # T-GRPO of Video-R1; its length reward is length_bonus, 0.2 there.
    Algorithm(name="t_grpo", paper="arXiv:2503.21776", average="sequence", temporal_bonus=0.3),
    # The paper's average is over the tokens of a group; this one is over the batch, as its authors' own code does.
    # Its soft punishment of long responses is a reward part: reward.overlong_buffer_tokens.
    Algorithm(name="dapo", paper="arXiv:2503.14476", clip_high=0.28, drop_equal_groups=True),
    Algorithm(name="dr_grpo", paper="arXiv:2503.20783", advantage="centered", average="fixed"),
    Algorithm(
        name="gspo", paper="arXiv:2507.18071", ratio="sequence", average="sequence", clip_low=3e-4, clip_high=4e-4
    ),
    Algorithm(
        name="gspo_token",
        paper="arXiv:2507.18071, section 4.3",
        ratio="sequence_token",
        average="sequence",
        clip_low=3e-4,
        clip_high=4e-4,
    ),
    # No lower bound, as in the paper, which does not print its upper one; ratios up to 5 follow arXiv:2510.13786.
    Algorithm(name="cispo", paper="arXiv:2506.13585", loss="cispo", offline_loss="cispo", clip_low=1.0, clip_high=4.0),
    # The paper puts a k1 KL into the reward.
    Algorithm(name="reinforce_plus_plus", paper="arXiv:2501.03262", advantage="reinforce_plus_plus"),
    # The paper adds a k2 KL to the loss.
    Algorithm(name="reinforce_plus_plus_baseline", paper="arXiv:2501.03262", advantage="reinforce_plus_plus_baseline"),
    # Clipping and value loss of the first paper, advantages of the second. Its KL, if any, is a k1 KL in the reward.
    Algorithm(name="ppo", paper="arXiv:1707.06347, arXiv:1506.02438", advantage="gae"),
    # The paper sums over tokens; dividing by a constant keeps its direction.
    Algorithm(name="remax", paper="arXiv:2310.10505", advantage="remax", average="fixed"),
    # The paper puts a k1 KL into the reward.
    Algorithm(name="rloo", paper="arXiv:2402.14740", advantage="rloo", ratio="trajectory", average="sequence"),
    Algorithm(name="gdpo", paper="arXiv:2601.05242", advantage="gdpo", average="sequence"),
    # Advantage and average as in the paper's experiments (those of Dr. GRPO); they add an entropy bonus.
    Algorithm(
        name="luffy",
        paper="arXiv:2504.14945",
        advantage="centered",
        average="fixed",
        offline_loss="shaped",
        offline_old="one",
    ),
    Algorithm(
        name="sft",
        paper="maximum likelihood on offline trajectories",
        advantage="one",
        loss="cross_entropy",
        offline_loss="cross_entropy",
        policy_weight=0.0,
    ),
)

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType({item.name: item for item in _ALGORITHMS})


USED: Mapping[str, tuple[Callable[[Algorithm], bool], str]] = {
    **dict.fromkeys(
        ("ratio", "clip_low", "clip_high"),
        (lambda it: bool({"clip", "cispo"} & it.losses), "it needs a loss of clip or cispo"),
    ),
    "dual_clip": (lambda it: it.dual_clip is None or "clip" in it.losses, "it needs a loss of clip"),
    "shaping_gamma": (lambda it: "shaped" in it.losses, "set offline_loss to shaped"),
    "fixed_length": (lambda it: it.fixed_length is None or it.average == "fixed", "set average to fixed"),
    "refill_rounds": (lambda it: it.drops_groups, "set drop_equal_groups to true, or filter_part"),
    **dict.fromkeys(("filter_low", "filter_high"), (lambda it: it.filter_part is not None, "set filter_part")),
    **dict.fromkeys(("kl_kind", "kl_in", "kl_target"), (lambda it: it.needs_reference, "set kl_coef above 0")),
    "kl_horizon": (lambda it: it.kl_target is not None, "set kl_target"),
    **dict.fromkeys(("ema_decay", "ema_guard"), (lambda it: it.advantage == "ema_grpo", "set advantage to ema_grpo")),
    **dict.fromkeys(OF_VALUES, (lambda it: it.needs_values, "set advantage to gae")),
    **dict.fromkeys(("length_low", "length_high"), (lambda it: it.length_bonus > 0, "set length_bonus above 0")),
    "pass_k": (lambda it: it.advantage == "pass_at_k", "set advantage to pass_at_k"),
    "pass_threshold": (
        lambda it: it.advantage == "pass_at_k" or it.temporal_bonus > 0 or it.length_bonus > 0,
        "set advantage to pass_at_k, or a bonus",
    ),
}
"""Option -> whether an algorithm makes use of it, and what would make it do so."""


def named_algorithm(config: AlgorithmConfig) -> Algorithm:
    """The named algorithm with the configured options put over its defaults.

    Raises:
        UsageError: unknown algorithm or option (with the nearest name), a value that does not fit, or an option that
            would have no effect.
    """
    if config.name not in ALGORITHMS:
        near = difflib.get_close_matches(config.name, ALGORITHMS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(ALGORITHMS)}"
        raise UsageError(f"algorithm.name '{config.name}' is unknown; {hint}")
    for name in NOT_OPTIONS:
        if name in config.options:
            raise UsageError(f"algorithm.options.{name} cannot be set; remove it")
    tree = {**to_tree(ALGORITHMS[config.name]), **config.options}
    made = build(Algorithm, tree, where=f"algorithm '{config.name}'", path="algorithm.options")
    for name, (is_used, remedy) in USED.items():
        if name in config.options and not is_used(made):
            raise UsageError(
                f"algorithm.options.{name} has no effect on algorithm '{config.name}' as it is set: {remedy}, or "
                f"remove {name}"
            )
    return made
