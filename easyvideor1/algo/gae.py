"""Advantages of single tokens by what a value head expects: generalized advantage estimation (arXiv:1506.02438).

A response is an episode, a token a step. The state of a token is all that stands before it, its value what the rest of
the response can expect. The score comes with the last token; a KL in the reward comes with each. After the last token
nothing more can come, so its value is 0, also where the token limit ended the response: it was scored as it is, and
whoever would add what it might have been worth would reward running into the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.credit import rollout_weights
from easyvideor1.types import Group, Score, TokenCredit

WHITENING_EPSILON = 1e-8
"""Added to the variance of the advantages, as in TRL and verl."""
PerToken = Sequence[Sequence[np.ndarray]]
"""[L] numbers of the tokens of each rollout, by group and rollout."""


def gae(
    rewards_L: Sequence[float], values_L: Sequence[float], *, gamma: float, lam: float
) -> tuple[list[float], list[float]]:
    """[L] advantages of the tokens of one response, and [L] returns: what their values should have been.

    Equation 16 of the paper, with r the reward, V the value of the state before a token and V = 0 after the
    last: delta_t = r_t + gamma V_{t+1} - V_t; A_t = sum over l of (gamma lambda)^l delta_{t+l}; return_t = A_t + V_t.

    >>> gae([0.0, 1.0], [0.5, 0.25], gamma=1.0, lam=0.5)
    ([0.125, 0.75], [0.625, 1.0])
    """
    next_L = [*values_L[1:], 0.0][: len(values_L)]
    deltas_L = [
        reward + gamma * after - value for reward, value, after in zip(rewards_L, values_L, next_L, strict=True)
    ]
    backwards = accumulate(reversed(deltas_L), lambda later, delta: delta + gamma * lam * later)
    advantages_L = list(backwards)[::-1]
    return advantages_L, [advantage + value for advantage, value in zip(advantages_L, values_L, strict=True)]


def with_token_credit(
    groups: Sequence[Group], algorithm: Algorithm, *, values: PerToken, kl: PerToken | None, kl_coef: float
) -> list[Group]:
    """The groups with `tokens`, `advantages` and `weights` filled in; advantages are whitened over all tokens of scored
    rollouts.

    Args:
        groups: scored groups of the whole batch, of every rank.
        values: of the state before each token, before the update.
        kl: KL of each token from the reference in nats, which lowers its reward; None: the reward is the score alone.
        kl_coef: weight of that KL.
    """
    raw = [
        [
            _credit(score, values_L, None if kl is None else kl_coef * kl[g][i], algorithm)
            for i, (score, values_L) in enumerate(zip(group.scores, values[g], strict=True))
        ]
        for g, group in enumerate(groups)
    ]
    scored = [
        credit.advantages
        for group, of_group in zip(groups, raw, strict=True)
        for score, credit in zip(group.scores, of_group, strict=True)
        if score.is_scored
    ]
    mean, scale = _moments(scored)
    made = []
    for group, of_group in zip(groups, raw, strict=True):
        tokens = tuple(
            replace(credit, advantages=(credit.advantages - mean) * scale) if score.is_scored else credit
            for score, credit in zip(group.scores, of_group, strict=True)
        )
        means = tuple(float(credit.advantages.mean()) if len(credit.advantages) else 0.0 for credit in tokens)
        made.append(replace(group, tokens=tokens, advantages=means, weights=rollout_weights(group, algorithm)))
    return made


def explained_variance(groups: Sequence[Group]) -> float:
    """1 - variance of (return - value) over that of the returns, over the tokens that train: 1 for values that say all,
    0 for values that say as much as one number would, below 0 for worse. NaN where all returns are equal."""
    chosen = [
        credit
        for group in groups
        for credit, weight in zip(group.tokens, group.weights, strict=True)
        if weight != 0 and len(credit.values)
    ]
    if not chosen:
        return float("nan")
    returns = np.concatenate([credit.returns for credit in chosen])
    values = np.concatenate([credit.values for credit in chosen])
    if returns.min() == returns.max():
        return float("nan")
    return float(1.0 - (returns - values).var() / returns.var())


def _credit(score: Score, values_L: np.ndarray, penalty_L: np.ndarray | None, algorithm: Algorithm) -> TokenCredit:
    values_L = np.asarray(values_L, dtype=np.float64)
    if not score.is_scored:  # weight 0: nothing of it trains
        zeros = np.zeros_like(values_L)
        return TokenCredit(advantages=zeros, returns=zeros, values=values_L)
    rewards_L = np.zeros_like(values_L) if penalty_L is None else -np.asarray(penalty_L, dtype=np.float64)
    rewards_L[-1:] += score.value
    advantages_L, returns_L = gae(
        rewards_L.tolist(), values_L.tolist(), gamma=algorithm.gae_gamma, lam=algorithm.gae_lambda
    )
    return TokenCredit(advantages=np.array(advantages_L), returns=np.array(returns_L), values=values_L)


def _moments(advantages: Sequence[np.ndarray]) -> tuple[float, float]:
    """Mean, and one over the deviation, over all tokens; 0 for the latter where no token stands out."""
    every = np.concatenate(advantages) if advantages else np.zeros(0)
    if len(every) < 2 or every.min() == every.max():
        return 0.0, 0.0
    return float(every.mean()), float(1.0 / np.sqrt(every.var(ddof=1) + WHITENING_EPSILON))
