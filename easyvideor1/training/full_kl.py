"""The exact KL divergence of the policy from a reference over the whole vocabulary, token by token.

KL = sum over the words v of p_v (log p_v - log q_v), with p of the policy and q of the reference; its gradient with
respect to the policy's logits is p_v (log p_v - log q_v - KL). As with the log-probs of single words (`head`), the
logits of some tokens exist at a time and are computed again in the backward.

Legend: N response tokens, D hidden size, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from easyvideor1.training.head import CHUNK_BYTES, OutputLayer


@dataclass(frozen=True, eq=False)
class Words:
    """What a model's log-probs of every word are made of."""

    hidden: torch.Tensor
    """[N, D] states that the output layer reads."""
    weight: torch.Tensor
    """[V, D] the output layer's."""


def full_kl(policy: Words, reference: Words, *, temperature: float, chunk_bytes: int = CHUNK_BYTES) -> torch.Tensor:
    """[N] float32 divergences in nats, with gradients for the policy's states and weight; 0 up to the rounding of a sum
    over the vocabulary where both are the same.

    Args:
        temperature: divides the logits of both.
        chunk_bytes: bound on one tensor of logits; three exist at once.
    """
    return _FullKl.apply(policy.hidden, policy.weight, reference.hidden, reference.weight, temperature, chunk_bytes)


class _FullKl(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        ref_hidden: torch.Tensor,
        ref_weight: torch.Tensor,
        temperature: float,
        chunk_bytes: int,
    ) -> torch.Tensor:
        ctx.save_for_backward(hidden, weight, ref_hidden, ref_weight)
        ctx.temperature = temperature
        ctx.num_rows = max(1, chunk_bytes // (len(weight) * torch.float32.itemsize))
        pair = _Pair(Words(hidden, weight), Words(ref_hidden, ref_weight), temperature)
        parts = []
        for start in range(0, max(1, len(hidden)), ctx.num_rows):
            probabilities, gaps = pair.compared(slice(start, start + ctx.num_rows))
            parts.append(probabilities.mul_(gaps).sum(-1))
            del probabilities, gaps  # before the next ones are made
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, ref_hidden, ref_weight = ctx.saved_tensors
        pair = _Pair(Words(hidden, weight), Words(ref_hidden, ref_weight), ctx.temperature)
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight, dtype=grads[0].dtype) if ctx.needs_input_grad[1] else None
        for start in range(0, max(1, len(hidden)), ctx.num_rows):
            rows = slice(start, start + ctx.num_rows)
            probabilities, gaps = pair.compared(rows)
            means = torch.linalg.vecdot(probabilities, gaps)
            grad_logits = gaps.sub_(means[:, None]).mul_(probabilities).mul_(grads[0][rows, None] / ctx.temperature)
            del probabilities
            pair.layer.add_gradients(grad_logits, hidden[rows], grad_hidden[rows], grad_weight)
            del grad_logits, gaps
        return grad_hidden, None if grad_weight is None else grad_weight.to(weight.dtype), None, None, None, None


class _Pair:
    """A policy and its reference, in float32."""

    def __init__(self, policy: Words, reference: Words, temperature: float) -> None:
        self._policy, self._reference = policy, reference
        self.layer = OutputLayer(policy.weight, policy.hidden, temperature)
        self._ref_layer = OutputLayer(reference.weight, reference.hidden, temperature)

    def compared(self, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Of some tokens: [rows, V] the policy's probabilities, and its log-probs less those of the reference."""
        logprobs, _ = self.layer.logprobs(self._policy.hidden[rows])
        ref_logprobs, _ = self._ref_layer.logprobs(self._reference.hidden[rows])
        gaps = ref_logprobs.neg_().add_(logprobs)
        return logprobs.exp_(), gaps
