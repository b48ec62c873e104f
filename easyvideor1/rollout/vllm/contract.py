"""What a log-probability means, said to an engine that means other things by it.

A rollout's log-probs are those of the whole distribution at the sampling temperature, before banned tokens and filters
are left out: what the actor computes. vLLM knows two kinds, one per engine: *raw* ones, before everything, so before
the temperature; and *processed* ones, after everything, so after bans and filters. Raw ones are ours at temperature 1.
At another temperature processed ones are, if there is no filter and no ban; banned tokens are then sampled like others,
the response is cut before them and goes on from there: rejection, which samples exactly the distribution without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from easyvideor1.rollout.engine import Sampling

Kind = Literal["raw_logprobs", "processed_logprobs"]
"""Values of vLLM's `logprobs_mode`."""


def kind_for(temperature: float) -> Kind:
    """The kind of log-probs of an engine whose rollouts are sampled at a temperature."""
    return "raw_logprobs" if temperature == 1.0 else "processed_logprobs"


def is_filtered(sampling: Sampling) -> bool:
    return sampling.top_p < 1.0 or sampling.top_k > 0 or sampling.is_penalized


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """How one sampling is asked of an engine, and what its log-probs are then."""

    bans_by_bias: bool
    """Whether the banned tokens get a bias that makes them practically impossible; they are redrawn either way."""
    knows_logprobs: bool
    """Whether the engine's log-probs are ours; else the rollouts have none."""


def terms(sampling: Sampling, kind: Kind) -> Terms:
    """
    >>> terms(Sampling(temperature=0.7, max_response_tokens=1), "processed_logprobs")
    Terms(bans_by_bias=False, knows_logprobs=True)
    >>> terms(Sampling(temperature=0.7, top_p=0.9, max_response_tokens=1), "processed_logprobs")
    Terms(bans_by_bias=True, knows_logprobs=False)
    """
    if kind == "raw_logprobs":
        return Terms(bans_by_bias=True, knows_logprobs=sampling.temperature in (0.0, 1.0))
    is_known = not sampling.is_greedy and not is_filtered(sampling)
    return Terms(bans_by_bias=not is_known, knows_logprobs=is_known)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One response, or the rest of one, as an engine is asked for it."""

    sampling: Sampling
    terms: Terms
    written: tuple[int, ...]
    """Tokens of the response that stand already."""
    seed: int | None
    """None: the engine samples as it likes."""
    end_ids: Sequence[int]
    banned_ids: Sequence[int]

    @property
    def max_tokens(self) -> int:
        return self.sampling.max_response_tokens - len(self.written)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What an engine wrote when it was asked."""

    key: str
    token_ids: list[int]
    """Tokens, the one that stopped it included."""
    logprobs: list[float]
    """Log-probs of each token, of the engine's kind."""
    likeliest_ids: list[int]
    """The most likely token at each place, by the same distribution."""
