"""Log-probabilities from the output layer: float32 whatever the model computes in, and bounded in memory.

Logits exist for some tokens at a time and are computed again in the backward; where all of them fit into the bound,
they are computed once. What is kept between forward and backward is one number per token.

Legend: N response tokens, D hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch

CHUNK_BYTES = 256 << 20
"""Most memory of the logits that exist at once. A backward holds two tensors of this size."""


def logprobs_and_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    temperature: float,
    with_entropy: bool,
    chunk_bytes: int = CHUNK_BYTES,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What the output layer says of each target.

    Args:
        hidden: [N, D], float32 or half precision; the products are summed and kept in float32.
        weight: [V, D] of the same dtype.
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
        layer = _OutputLayer(weight, temperature)
        num_rows = max(1, chunk_bytes // (len(weight) * torch.float32.itemsize))
        totals, logprobs, entropies = [], [], []
        every = None
        for rows, chosen in zip(hidden.split(num_rows), targets.split(num_rows), strict=True):
            every = layer.logits(rows)
            totals.append(every.logsumexp(-1))
            every.sub_(totals[-1][:, None])
            logprobs.append(every.gather(-1, chosen[:, None]).squeeze(-1))
            if with_entropy:
                entropies.append(-every.exp().mul_(every).sum(-1))
        entropy = torch.cat(entropies) if with_entropy else None
        kept = every if len(hidden) <= num_rows else None
        ctx.save_for_backward(hidden, weight, targets, torch.cat(totals), entropy, kept)
        ctx.temperature, ctx.num_rows = temperature, num_rows
        ctx.set_materialize_grads(False)
        return torch.cat(logprobs), entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, targets, totals, entropy, kept = ctx.saved_tensors
        layer = _OutputLayer(weight, ctx.temperature)
        grad_logprobs = torch.zeros_like(totals) if grads[0] is None else grads[0]
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight, dtype=totals.dtype) if ctx.needs_input_grad[1] else None
        for start in range(0, len(hidden), ctx.num_rows):
            rows = slice(start, start + ctx.num_rows)
            every = layer.logits(hidden[rows]).sub_(totals[rows, None]) if kept is None else kept
            # With p the softmax of the logits z, t the target and H the entropy:
            # d log p_t / d z_j = [j = t] - p_j, and d H / d z_j = -p_j (log p_j + H).
            grad_logits = every.exp()
            if grads[1] is None:
                grad_logits.mul_(-grad_logprobs[rows, None])
            else:
                factors = (every + entropy[rows, None]).mul_(grads[1][rows, None]).add_(grad_logprobs[rows, None])
                grad_logits.mul_(factors.neg_())
            grad_logits.scatter_add_(1, targets[rows, None], grad_logprobs[rows, None])
            grad_logits.div_(ctx.temperature)
            rounded = grad_logits.to(weight.dtype)
            torch.mm(rounded, weight, out=grad_hidden[rows])
            if grad_weight is not None:
                layer.add_product(grad_weight, rounded.T, hidden[rows])
        return grad_hidden, None if grad_weight is None else grad_weight.to(weight.dtype), None, None, None, None


class _OutputLayer:
    """Products with the output layer's weight that are summed and kept in float32."""

    def __init__(self, weight: torch.Tensor, temperature: float) -> None:
        self._temperature = temperature
        self._is_half_on_gpu = weight.device.type == "cuda" and weight.dtype in (torch.bfloat16, torch.float16)
        # Other devices have no product of halves in float32.
        self._weight = weight if self._is_half_on_gpu else weight.to(_wide(weight))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._product(hidden, self._weight.T).div_(self._temperature)

    def add_product(self, total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
        if self._is_half_on_gpu:
            total.add_(self._product(left, right))
        else:
            total.addmm_(left.to(total.dtype), right.to(total.dtype))

    def _product(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if self._is_half_on_gpu:
            return torch.mm(left, right, out_dtype=torch.float32)
        return left.to(self._weight.dtype) @ right


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)
