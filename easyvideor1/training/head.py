"""Log-probabilities from the output layer: float32 whatever the model computes in, and bounded in memory.

Logits exist for some tokens at a time and are computed again in the backward; where all of them fit into the bound,
they are computed once. What is kept between forward and backward is one number per token.

Legend: N response tokens, D hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch

CHUNK_BYTES = 256 << 20
"""Most memory of one tensor of logits; two or, with gradients of entropies, three of this size exist at once."""


def logprobs_and_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    temperature: float,
    with_entropy: bool,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities of the targets, and entropies, from the output layer.

    Args:
        hidden: [N, D], float32 or half precision; the products are summed and kept in float32.
        weight: [V, D]; it may be float32 where the hidden states are in half precision.
        targets: int64 [N].
        temperature: divides the logits.
        with_entropy: compute the entropies too; gradients flow through them where the caller uses them.

    Returns:
        Log-probs [N] float32, and entropies in nats [N] float32 or None.
    """
    logprobs, entropy = _Head.apply(hidden, weight, targets, temperature, with_entropy, chunk_bytes)
    return logprobs, entropy if with_entropy else None


class _Head(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        temperature: float,
        with_entropy: bool,
        chunk_bytes: int,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        layer = OutputLayer(weight, hidden, temperature)
        num_rows = max(1, chunk_bytes // (len(weight) * torch.float32.itemsize))
        totals, logprobs, entropies = [], [], []
        kept = None
        for rows, chosen in zip(hidden.split(num_rows), targets.split(num_rows), strict=True):
            every, total = layer.logprobs(rows)
            totals.append(total)
            logprobs.append(every.gather(-1, chosen[:, None]).squeeze(-1))
            if with_entropy:
                entropies.append(-every.exp().mul_(every).sum(-1))
            if len(rows) == len(hidden):
                kept = every
            del every  # before the next ones are made
        entropy = torch.cat(entropies) if with_entropy else None
        ctx.save_for_backward(hidden, weight, targets, torch.cat(totals), entropy, kept)
        ctx.temperature, ctx.num_rows = temperature, num_rows
        ctx.set_materialize_grads(False)
        return torch.cat(logprobs), entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, targets, totals, entropy, kept = ctx.saved_tensors
        layer = OutputLayer(weight, hidden, ctx.temperature)
        grad_logprobs = torch.zeros_like(totals) if grads[0] is None else grads[0]
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight, dtype=totals.dtype) if ctx.needs_input_grad[1] else None
        for start in range(0, len(hidden), ctx.num_rows):
            rows = slice(start, start + ctx.num_rows)
            every = layer.logits(hidden[rows]).sub_(totals[rows, None]) if kept is None else kept
            # With p the softmax of the logits z, t the target and H the entropy:
            # d log p_t / d z_j = [j = t] - p_j, and d H / d z_j = -p_j (log p_j + H).
            if grads[1] is None:
                grad_logits = (every.exp_() if kept is None else every.exp()).mul_(-grad_logprobs[rows, None])
            else:
                grad_logits = (every + entropy[rows, None]).mul_(grads[1][rows, None])
                grad_logits.add_(grad_logprobs[rows, None]).neg_().mul_(every.exp())
            del every
            grad_logits.scatter_add_(1, targets[rows, None], grad_logprobs[rows, None])
            if ctx.temperature != 1.0:
                grad_logits.div_(ctx.temperature)
            layer.add_gradients(grad_logits, hidden[rows], grad_hidden[rows], grad_weight)
            del grad_logits
        return grad_hidden, None if grad_weight is None else grad_weight.to(weight.dtype), None, None, None, None


class OutputLayer:
    """Products with the output layer's weight that are summed and kept in float32."""

    def __init__(self, weight: torch.Tensor, hidden: torch.Tensor, temperature: float) -> None:
        self._temperature = temperature
        is_half = weight.dtype == hidden.dtype and weight.dtype in (torch.bfloat16, torch.float16)
        self._is_half_on_gpu = is_half and weight.device.type == "cuda"
        # Other devices have no product of halves in float32, and nothing multiplies halves with float32.
        self._weight = weight if self._is_half_on_gpu else weight.to(torch.promote_types(weight.dtype, torch.float32))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        if self._is_half_on_gpu:
            logits = torch.mm(hidden, self._weight.T, out_dtype=torch.float32)
        else:
            logits = hidden.to(self._weight.dtype) @ self._weight.T
        return logits if self._temperature == 1.0 else logits.div_(self._temperature)

    def logprobs(self, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[N, V] log-probs of every word, and [N] the log-sum-exps of the logits."""
        logits = self.logits(hidden)
        totals = logits.logsumexp(-1)
        return logits.sub_(totals[:, None]), totals

    def add_gradients(
        self,
        grad_logits: torch.Tensor,
        hidden: torch.Tensor,
        grad_hidden: torch.Tensor,
        grad_weight: torch.Tensor | None,
    ) -> None:
        """Write that of the hidden states, and add to that of the weight."""
        if self._is_half_on_gpu:
            rounded = grad_logits.to(self._weight.dtype)
            torch.mm(rounded, self._weight, out=grad_hidden)
            if grad_weight is not None:
                grad_weight.add_(torch.mm(rounded.T, hidden, out_dtype=torch.float32))
        else:
            grad_hidden.copy_(grad_logits @ self._weight)
            if grad_weight is not None:
                grad_weight.addmm_(grad_logits.T, hidden.to(grad_weight.dtype))
