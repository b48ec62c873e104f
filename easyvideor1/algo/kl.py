"""Estimators of the KL divergence of the policy from a reference, one value per sampled token.

Source: J. Schulman, "Approximating KL divergence" (2020); with r = reference / policy probability of the token:
k1 = -log r (unbiased, can be negative), abs = |log r|, k2 = (log r)^2 / 2 (its gradient is unbiased),
k3 = r - 1 - log r (unbiased and never negative). The divergence itself, over all words, is training.full_kl.
"""

from __future__ import annotations

import math
from typing import Literal

import torch

MAX_LOG_RATIO = 20.0
"""Where the exponentials below go on as their tangent: exp is infinite in float32 from 89 on, and 0 * inf is NaN."""


def bounded_exp(values: torch.Tensor) -> torch.Tensor:
    """exp that cannot overflow and whose gradient keeps its sign, however large the value.

    >>> bounded_exp(torch.tensor([0.0, 1000.0])).isfinite().tolist()
    [True, True]
    """
    return values.clamp(max=MAX_LOG_RATIO).exp() + _beyond(values)


def bounded_expm1(values: torch.Tensor) -> torch.Tensor:
    """`bounded_exp` less 1, exact near 0."""
    return values.clamp(max=MAX_LOG_RATIO).expm1() + _beyond(values)


def _beyond(values: torch.Tensor) -> torch.Tensor:
    return (values - MAX_LOG_RATIO).clamp(min=0.0) * math.exp(MAX_LOG_RATIO)


def token_kl(
    logprobs_N: torch.Tensor, ref_logprobs_N: torch.Tensor, *, kind: Literal["k1", "k2", "k3", "abs"]
) -> torch.Tensor:
    """[N] estimates in nats, differentiable with respect to `logprobs_N`; k3 is finite however far they are apart."""
    log_r_N = ref_logprobs_N - logprobs_N
    if kind == "k1":
        return -log_r_N
    if kind == "abs":
        return log_r_N.abs()
    if kind == "k2":
        return log_r_N.square() / 2
    return bounded_expm1(log_r_N) - log_r_N
