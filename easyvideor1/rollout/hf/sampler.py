"""From logits to the next token of each response.

Legend: B responses, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from easyvideor1.errors import RunError
from easyvideor1.rollout.engine import Sampling

SMALLEST_SHARE = 1e-20
"""Of the likeliest token beside the banned ones: those of 1e-17 times that are numbers of full precision then."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ways:
    """How the responses of a batch are sampled, [B] each."""

    temperature: torch.Tensor
    """float32; 1 for greedy responses."""
    is_greedy: torch.Tensor
    """bool."""
    top_p: torch.Tensor
    """float32."""
    top_k: torch.Tensor
    """int64; the size of the vocabulary: all."""
    is_plain: bool
    """Whether no response is greedy or filtered, or has another temperature than 1."""


def ways(samplings: Sequence[Sampling], *, vocab_size: int, device: torch.device) -> Ways:
    return Ways(
        temperature=torch.tensor([1.0 if way.is_greedy else way.temperature for way in samplings], device=device),
        is_greedy=torch.tensor([way.is_greedy for way in samplings], device=device),
        top_p=torch.tensor([way.top_p for way in samplings], device=device),
        top_k=torch.tensor([way.top_k or vocab_size for way in samplings], device=device),
        is_plain=all(way.temperature == 1.0 and way.top_p == 1.0 and way.top_k == 0 for way in samplings),
    )


class Sampler:
    """Samples tokens, but never the banned ones."""

    def __init__(self, banned_ids: Sequence[int], *, device: torch.device) -> None:
        self._banned = torch.tensor(sorted(banned_ids), dtype=torch.int64, device=device)
        self.banned_hits = 0
        """How often a banned token was the most likely one."""

    def sample(self, logits: torch.Tensor, *, how: Ways, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The next token of each response and its log-probability.

        Tokens are sampled by inverting the cumulative distribution: the one in whose share the uniform number falls.

        Args:
            logits: float32 [B, V]; written to.
            uniforms: float64 [B], strictly between 0 and 1.

        Returns:
            tokens int64 [B], and log-probs float32 [B] under the whole distribution at the temperature: before banned
            tokens and filters are left out, as the actor computes them.

        Raises:
            RunError: a logit is not a finite number.
        """
        if not how.is_plain:
            logits = logits.div_(how.temperature[:, None])
        largest = logits.amax(-1, keepdim=True)
        shares = (logits - largest).exp_()
        log_total = shares.sum(-1).log_() + largest.squeeze(-1)
        if not log_total.isfinite().all():
            raise RunError("the model's logits are not finite, so no token can be sampled; its weights are broken")
        if self._banned.numel():
            shares = self._without_banned(shares, logits)
        if not how.is_plain:
            shares = _filtered(shares, how)
        cumulative = shares.cumsum(-1, dtype=torch.float64)
        tokens = torch.searchsorted(cumulative, uniforms[:, None] * cumulative[:, -1:], right=True).squeeze(-1)
        if not how.is_plain:
            likeliest = logits.index_fill(-1, self._banned, -torch.inf).argmax(-1)
            tokens = torch.where(how.is_greedy, likeliest, tokens)
        return tokens, logits.gather(-1, tokens[:, None]).squeeze(-1) - log_total

    def _without_banned(self, shares: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """[B, V] shares, 0 for banned tokens; written to."""
        largest_banned = shares.index_select(-1, self._banned).amax(-1)
        shares.index_fill_(-1, self._banned, 0.0)
        largest = shares.amax(-1)
        self.banned_hits += int((largest_banned > largest).sum())
        if float(largest.amin()) > SMALLEST_SHARE:
            return shares
        # Beside a banned token that outweighs them by far, the others cannot be told apart.
        others = logits.index_fill(-1, self._banned, -torch.inf)
        return (others - others.amax(-1, keepdim=True)).exp_()


def _filtered(shares: torch.Tensor, how: Ways) -> torch.Tensor:
    """[B, V] with 0 for tokens outside the k most likely, and of those outside the fewest that have top_p together."""
    largest_first, order = shares.sort(dim=-1, descending=True, stable=True)
    largest_first *= torch.arange(shares.shape[-1], device=shares.device) < how.top_k[:, None]
    before = largest_first.cumsum(-1) - largest_first
    largest_first *= before < how.top_p[:, None] * largest_first.sum(-1, keepdim=True)
    return torch.zeros_like(shares).scatter_(-1, order, largest_first)
