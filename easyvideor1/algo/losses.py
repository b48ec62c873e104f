"""Policy losses on packed tokens, as sums, so that any split of a batch into micro-batches gives the same gradient.

Shapes: N response tokens of all sequences of a micro-batch laid end to end (no padding), S sequences.
The one normalizer of the whole batch (see algo.credit.normalizer) divides every micro-batch's sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import torch

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.kl import bounded_exp, token_kl
from easyvideor1.algo.own import own_loss


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokens:
    """The response tokens of one micro-batch; every tensor is [N], in the same order.

    Half precision is computed with in float32: it cannot count the tokens of a long response.
    """

    logprobs: torch.Tensor
    """Log-probabilities under the current policy; gradients flow through them."""
    advantages: torch.Tensor
    weights: torch.Tensor
    """Loss weights; a token of weight 0 takes no part, whatever its other values are."""
    sequence: torch.Tensor
    """int64 in 0..num_sequences-1: the response each token belongs to. A response is never split."""
    num_sequences: int
    is_offline: torch.Tensor
    """bool: token of an offline trajectory."""
    old_logprobs: torch.Tensor | None = None
    """Log-probabilities before the first update on the batch; None: the only update, so the current ones."""
    ref_logprobs: torch.Tensor | None = None
    sampler_logprobs: torch.Tensor | None = None
    """Log-probabilities under the rollout engine; NaN where unknown."""
    full_kl: torch.Tensor | None = None
    """Divergence from the reference over all words in nats, for kl_kind full; gradients flow through it."""
    entropy: torch.Tensor | None = None
    """Entropy of the current policy at each token in nats; with an entropy bonus, gradients flow through it."""
    values: torch.Tensor | None = None
    """The value head's value of the state before each token; gradients flow through it."""
    returns: torch.Tensor | None = None
    """The returns that the values are to predict."""
    old_values: torch.Tensor | None = None
    """The values before the first update on the batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """A metric as a sum with its count: parts of a batch are added, the mean is taken once."""

    total: torch.Tensor
    count: torch.Tensor

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.total + other.total, self.count + other.count)

    def mean(self) -> float:
        """NaN where nothing was counted."""
        count = float(self.count)
        return float(self.total) / count if count else math.nan


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Loss:
    value: torch.Tensor
    """Scalar share of this micro-batch in the batch's loss; call `backward()` on it."""
    metrics: Mapping[str, Sum]
    """Detached; averages over the tokens that train, `loss/ratio` and `loss/kl_old` over the sampled ones of them."""


def policy_loss(tokens: Tokens, algorithm: Algorithm, *, normalizer: float) -> Loss:
    """The loss of a micro-batch under an algorithm.

    Args:
        tokens: the micro-batch.
        algorithm: which formulas, and their numbers.
        normalizer: divisor of the whole batch, the same for each of its micro-batches.

    Raises:
        ValueError: the normalizer is not positive, or the algorithm needs a tensor that is missing.
    """
    if not normalizer > 0:
        raise ValueError(f"the normalizer of a batch must be positive, got {normalizer}; no token of it trains")
    tokens = _in_full_precision(tokens)
    trains_N = tokens.weights != 0
    old_N = _old_logprobs(tokens, algorithm)
    log_ratio_N = _masked(tokens.logprobs - old_N, trains_N)
    terms = Terms(
        logprobs=_masked(tokens.logprobs, trains_N),
        advantages=_masked(tokens.advantages, trains_N),
        log_ratio=log_ratio_N,
        level_log_ratio=_level(log_ratio_N, trains_N=trains_N, tokens=tokens, algorithm=algorithm),
        algorithm=algorithm,
    )
    online, offline = (TOKEN_LOSSES[kind](terms) for kind in (algorithm.loss, algorithm.offline_loss))
    if algorithm.own_loss is not None:
        value_N = own_loss(algorithm, terms)
        online = _TokenLoss(value=value_N, is_clipped=torch.zeros_like(value_N, dtype=torch.bool))
    policy_N = torch.where(tokens.is_offline, offline.value, online.value)
    is_clipped_N = torch.where(tokens.is_offline, offline.is_clipped, online.is_clipped)
    metrics = {
        "loss/ratio": terms.ratio,
        "loss/ratio_clipped_frac": is_clipped_N.to(policy_N.dtype),
        "loss/kl_old": terms.kl_old,
    }
    if algorithm.sampler_cap is not None:
        sampler_N = _present(tokens.sampler_logprobs, "sampler_logprobs", "sampler_cap")
        # The engine did not sample offline tokens; their log-probabilities are another policy's.
        sampler_N = sampler_N.masked_fill(tokens.is_offline, math.nan)
        weight_N = sampler_weight(old_N, sampler_N, cap=algorithm.sampler_cap)
        policy_N = policy_N * _masked(weight_N, trains_N)
        metrics["loss/sampler_weight"] = weight_N
        metrics["loss/sampler_capped_frac"] = (old_N - sampler_N > math.log(algorithm.sampler_cap)).to(weight_N.dtype)
    metrics["loss/policy"] = policy_N
    loss_N = policy_N
    if algorithm.kl_coef and algorithm.kl_in == "loss":
        if algorithm.kl_kind == "full":
            metrics["loss/kl_ref"] = _masked(_present(tokens.full_kl, "full_kl", "kl_kind"), trains_N)
        else:
            ref_N = _masked(_present(tokens.ref_logprobs, "ref_logprobs", "kl_coef"), trains_N)
            metrics["loss/kl_ref"] = token_kl(terms.logprobs, ref_N, kind=algorithm.kl_kind)
        loss_N = loss_N + algorithm.kl_coef * metrics["loss/kl_ref"]
    if tokens.entropy is not None:
        metrics["loss/entropy"] = _masked(tokens.entropy, trains_N)
    if algorithm.entropy_coef:
        entropy_N = _present(tokens.entropy, "entropy", "entropy_coef")
        if tokens.logprobs.requires_grad and not entropy_N.requires_grad:
            raise ValueError("the algorithm has an entropy bonus, but no gradient flows through Tokens.entropy")
        loss_N = loss_N - algorithm.entropy_coef * _masked(entropy_N, trains_N)
    if algorithm.needs_values:
        values_N, returns_N, old_values_N = (
            _masked(_present(getattr(tokens, name), name, "advantage"), trains_N)
            for name in ("values", "returns", "old_values")
        )
        metrics["loss/value"], is_far_N = value_loss(values_N, returns_N, old_values_N, clip=algorithm.value_clip)
        metrics["loss/value_clipped_frac"] = is_far_N.to(values_N.dtype)
        loss_N = loss_N + algorithm.value_coef * metrics["loss/value"]

    scale_N = tokens.weights
    if algorithm.average == "sequence":
        scale_N = scale_N / _sequence_sum(trains_N.to(scale_N.dtype), tokens)[tokens.sequence].clamp(min=1)
    return Loss(value=(scale_N * loss_N).sum() / normalizer, metrics=_sums(metrics, trains_N, tokens))


def idle_sums(*, num_sampled: int, num_offline: int, is_only_update: bool) -> dict[str, tuple[float, float]]:
    """(sum, count) by metric: what tokens that cannot move the weights add to those of `policy_loss`.

    Their loss is 0, so they need not be computed to be counted. Entropies, and ratios after an earlier update of the
    same batch, are known of computed tokens only; their averages are over those.

    Args:
        num_sampled, num_offline: such tokens with a loss weight, of the policy's and of offline rollouts.
        is_only_update: no other update comes before this one, so that the ratio is 1.
    """
    num = num_sampled + num_offline
    sums: dict[str, tuple[float, float]] = {
        "loss/policy": (0.0, num),
        "loss/policy_online": (0.0, num_sampled),
        "loss/policy_offline": (0.0, num_offline),
        "loss/offline_token_frac": (num_offline, num),
        "loss/ratio_clipped_frac": (0.0, num),
    }
    if is_only_update:
        sums |= {"loss/ratio": (num_sampled, num_sampled), "loss/kl_old": (0.0, num_sampled)}
    return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """The quantities that token losses are computed from, all [N] and 0 where a token does not train."""

    logprobs: torch.Tensor
    advantages: torch.Tensor
    log_ratio: torch.Tensor
    """Log of current over old probability of each token."""
    level_log_ratio: torch.Tensor
    """log(new / old) at the level of the algorithm (token, sequence, ...)."""
    algorithm: Algorithm

    @property
    def ratio(self) -> torch.Tensor:
        return bounded_exp(self.level_log_ratio)

    @property
    def kl_old(self) -> torch.Tensor:
        """k3 estimate of the divergence from the old policy."""
        log_ratio_N = self.log_ratio.detach()
        return token_kl(log_ratio_N, torch.zeros_like(log_ratio_N), kind="k3")


@dataclass(frozen=True, kw_only=True, eq=False)
class _TokenLoss:
    """The values of a loss formula for each token, [N] each."""

    value: torch.Tensor
    is_clipped: torch.Tensor
    """bool: a bound on the ratio is at work here."""


def clip_loss(terms: Terms) -> _TokenLoss:
    """PPO's clipped objective (arXiv:1707.06347) with separate bounds (arXiv:2503.14476) and dual clip."""
    ratio_N, advantages_N, algorithm = terms.ratio, terms.advantages, terms.algorithm
    low, high = 1 - algorithm.clip_low, 1 + algorithm.clip_high
    loss_N = -torch.minimum(ratio_N * advantages_N, ratio_N.clamp(low, high) * advantages_N)
    is_bad_N = advantages_N < 0
    is_clipped_N = ((ratio_N > high) & (advantages_N > 0)) | ((ratio_N < low) & is_bad_N)
    if algorithm.dual_clip is not None:
        # Only negative advantages: there the minimum above grows without bound as the ratio grows.
        loss_N = torch.where(is_bad_N, torch.minimum(loss_N, -algorithm.dual_clip * advantages_N), loss_N)
        is_clipped_N |= (ratio_N > algorithm.dual_clip) & is_bad_N
    return _TokenLoss(value=loss_N, is_clipped=is_clipped_N)


def cispo_loss(terms: Terms) -> _TokenLoss:
    """REINFORCE weighted by the clipped ratio (arXiv:2506.13585): a clipped token keeps its gradient."""
    ratio_N = terms.ratio.detach()
    weight_N = ratio_N.clamp(1 - terms.algorithm.clip_low, 1 + terms.algorithm.clip_high)
    return _TokenLoss(value=-weight_N * terms.advantages * terms.logprobs, is_clipped=weight_N != ratio_N)


def shaped_loss(terms: Terms) -> _TokenLoss:
    """LUFFY's policy shaping of offline tokens (arXiv:2504.14945): ratio / (ratio + gamma), not clipped."""
    # As a sigmoid of the log ratio, which cannot overflow.
    shaped_N = torch.sigmoid(terms.log_ratio - math.log(terms.algorithm.shaping_gamma))
    return _TokenLoss(value=-shaped_N * terms.advantages, is_clipped=torch.zeros_like(shaped_N, dtype=torch.bool))


def cross_entropy_loss(terms: Terms) -> _TokenLoss:
    """Imitation: the negative log-probability, whatever the advantage."""
    return _TokenLoss(value=-terms.logprobs, is_clipped=torch.zeros_like(terms.logprobs, dtype=torch.bool))


TOKEN_LOSSES: Mapping[str, Callable[[Terms], _TokenLoss]] = {
    "clip": clip_loss,
    "cispo": cispo_loss,
    "shaped": shaped_loss,
    "cross_entropy": cross_entropy_loss,
}


def value_loss(
    values_N: torch.Tensor, returns_N: torch.Tensor, old_values_N: torch.Tensor, *, clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """[N] half the squared distance of values from returns, and [N] bool: where the bound below is at work.

    PPO's clipped form, as OpenAI's baselines, TRL and verl have it: the larger one of that and the same of the value
    moved back to within `clip` of the old one. So a value that went farther than that towards its return pulls no more,
    and one that went away from it still does.
    """
    error_N = (values_N - returns_N).square()
    if clip is None:
        return error_N / 2, torch.zeros_like(error_N, dtype=torch.bool)
    near_N = torch.clamp(values_N, old_values_N - clip, old_values_N + clip)
    near_error_N = (near_N - returns_N).square()
    return torch.maximum(error_N, near_error_N) / 2, near_error_N > error_N


def sampler_weight(old_logprobs_N: torch.Tensor, sampler_logprobs_N: torch.Tensor, *, cap: float) -> torch.Tensor:
    """[N] min(old / sampler probability, cap): corrects for an engine whose numbers differ from the trainer's.

    Tokens of unknown (NaN) sampler probability get 1. Source: F. Yao et al., "Your efficient RL framework secretly
    brings you off-policy RL training" (2025).
    """
    log_weight_N = (old_logprobs_N - sampler_logprobs_N).detach().nan_to_num(nan=0.0)
    return log_weight_N.clamp(max=math.log(cap)).exp()


def _old_logprobs(tokens: Tokens, algorithm: Algorithm) -> torch.Tensor:
    """[N] old log-probabilities; offline tokens get those that the algorithm names."""
    current_N = tokens.logprobs.detach()
    old_N = current_N if tokens.old_logprobs is None else tokens.old_logprobs
    if algorithm.offline_old == "current":
        return old_N
    if algorithm.offline_old == "one":
        return torch.where(tokens.is_offline, torch.zeros_like(old_N), old_N)
    stored_N = _present(tokens.sampler_logprobs, "sampler_logprobs", "offline_old")
    return torch.where(tokens.is_offline, stored_N, old_N)


def _level(log_ratio_N: torch.Tensor, *, trains_N: torch.Tensor, tokens: Tokens, algorithm: Algorithm) -> torch.Tensor:
    """[N] log ratio at the algorithm's level, the value of a sequence repeated over its tokens."""
    if algorithm.ratio == "token":
        level_N = log_ratio_N
    elif algorithm.ratio == "trajectory":
        level_N = _sequence_sum(log_ratio_N, tokens)[tokens.sequence]
    else:
        counts_S = _sequence_sum(trains_N.to(log_ratio_N.dtype), tokens).clamp(min=1)
        level_N = (_sequence_sum(log_ratio_N, tokens) / counts_S)[tokens.sequence]
        if algorithm.ratio == "sequence_token":
            # Value of the sequence's ratio, gradient of the token's own probability (GSPO-token).
            level_N = level_N.detach() + log_ratio_N - log_ratio_N.detach()
    return level_N


def _in_full_precision(tokens: Tokens) -> Tokens:
    half = {
        item.name: value.float()
        for item in fields(tokens)
        if isinstance(value := getattr(tokens, item.name), torch.Tensor)
        and value.dtype in (torch.bfloat16, torch.float16)
    }
    return replace(tokens, **half) if half else tokens


def _sequence_sum(values_N: torch.Tensor, tokens: Tokens) -> torch.Tensor:
    return values_N.new_zeros(tokens.num_sequences).index_add(0, tokens.sequence, values_N)


def _masked(values_N: torch.Tensor, trains_N: torch.Tensor) -> torch.Tensor:
    # Chosen, not multiplied: 0 * NaN would spoil the sum.
    return torch.where(trains_N, values_N, torch.zeros_like(values_N))


def _present(values_N: torch.Tensor | None, name: str, option: str) -> torch.Tensor:
    if values_N is None:
        raise ValueError(f"the algorithm's option {option} needs Tokens.{name}, which is None")
    return values_N


def _sums(values: Mapping[str, torch.Tensor], trains_N: torch.Tensor, tokens: Tokens) -> dict[str, Sum]:
    """Metrics over all training tokens, and the policy term apart for offline and sampled ones."""
    online_N, offline_N = trains_N & ~tokens.is_offline, trains_N & tokens.is_offline
    values = {
        **values,
        "loss/policy_online": values["loss/policy"],
        "loss/policy_offline": values["loss/policy"],
        "loss/offline_token_frac": offline_N.to(trains_N.dtype),
    }
    counted = dict.fromkeys(values, trains_N) | {"loss/policy_offline": offline_N}
    # Of an offline token they would tell how likely it is, not how far the policy went from where it was.
    counted |= dict.fromkeys(("loss/ratio", "loss/kl_old", "loss/policy_online"), online_N)
    return {
        name: Sum(_masked(value_N.detach(), counted[name]).sum(), counted[name].sum())
        for name, value_N in values.items()
    }
