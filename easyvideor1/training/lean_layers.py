"""Text layers in float32 with fewer passes over memory than Transformers' modules and their autograd make.

Norms, rotations and gates are memory-bound: on a CPU they take as long as the matrix products of a small model. Each
is one function here whose backward is written out, and keeps its input instead of what lies between. The layers' own
modules do the matrix products, so that adapters are as they are there; in half precision, and for batches that are no
packs, the modules stay what they were.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from easyvideor1.model.families import language_model, shares_prefix
from easyvideor1.training.attention import pack_attention
from easyvideor1.training.layout import PackLayout
from easyvideor1.training.sequence import SequenceGroup


def make_lean(model: Any) -> None:
    """Change the classes of the text layers' modules, in place, of a model all of whose layers have full attention;
    other models stay as they are."""
    if not shares_prefix(model):
        return
    text, is_silu = language_model(model), model.config.get_text_config().hidden_act == "silu"
    for module in text.modules():
        if hasattr(module, "variance_epsilon"):
            _mix_in(_LeanNorm, module)
    for layer in text.layers:
        _mix_in(_LeanAttention, layer.self_attn)
        if is_silu and hasattr(layer.mlp, "gate_proj"):
            _mix_in(_LeanMlp, layer.mlp)


def _mix_in(kind: type, module: Any) -> None:
    """Put a class before that of a module, once."""
    before = type(module)
    if not issubclass(before, kind):
        module.__class__ = type(before.__name__, (kind, before), {})


class _LeanNorm:
    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        if states.dtype == self.weight.dtype == torch.float32:
            return _RmsNorm.apply(states, self.weight, self.variance_epsilon)  # type: ignore[no-any-return]
        return super().forward(states)  # type: ignore[misc]


class _LeanAttention:
    q_proj: Any
    k_proj: Any
    v_proj: Any
    o_proj: Any
    q_norm: Any
    k_norm: Any
    """Some families have no norms of queries and keys."""
    head_dim: int
    scaling: float

    def forward(
        self,
        hidden_states: torch.Tensor,
        *args: Any,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        pack_layout: PackLayout | None = None,
        sequence_group: SequenceGroup | None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if pack_layout is None or hidden_states.dtype != torch.float32 or position_embeddings[0].dim() != 3:
            return super().forward(  # type: ignore[misc,no-any-return]
                hidden_states,
                *args,
                position_embeddings=position_embeddings,
                pack_layout=pack_layout,
                sequence_group=sequence_group,
                **kwargs,
            )
        of_heads = hidden_states.shape[1], -1, self.head_dim
        query, key, value = (part(hidden_states).view(of_heads) for part in (self.q_proj, self.k_proj, self.v_proj))
        if hasattr(self, "q_norm"):
            query, key = self.q_norm(query), self.k_norm(key)
        cos, sin = (of_angles[0, :, None] for of_angles in position_embeddings)
        query, key = (_Rotation.apply(heads, cos, sin) for heads in (query, key))
        out = pack_attention(query, key, value, pack_layout, scale=self.scaling, group=sequence_group)
        return self.o_proj(out.flatten(1)[None]), None


class _LeanMlp:
    gate_proj: Any
    up_proj: Any
    down_proj: Any

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.down_proj(_Gated.apply(self.gate_proj(states), self.up_proj(states)))  # type: ignore[no-any-return]


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        scale = _norm_scale(states, epsilon)
        ctx.save_for_backward(states, weight, scale)
        return (states * scale).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """With y = x s w and s = (mean(x^2) + epsilon)^-1/2: dx = s (dy w - x s^2 mean(dy w x)), dw = sum(dy x s)."""
        states, weight, scale = ctx.saved_tensors
        (grad,) = grads
        product = grad * states
        mean = (product @ weight).unsqueeze_(-1).div_(len(weight))
        # A matrix product would add up thousands of tokens one after another, and lose a digit.
        grad_weight = product.mul_(scale).flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        grad_states = (grad * weight).addcmul_(states, mean.mul_(scale).mul_(scale), value=-1).mul_(scale)
        return grad_states, grad_weight, None


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotated(heads, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _rotated(grads[0], cos, sin, back=True), None, None


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        gate, up = ctx.saved_tensors
        grad_gate = torch.ops.aten.silu_backward(grads[0] * up, gate)
        return grad_gate, F.silu(gate).mul_(grads[0])


def _norm_scale(states: torch.Tensor, epsilon: float) -> torch.Tensor:
    """What a root mean square norm multiplies states by: 1 / sqrt(mean of squares + epsilon).

    Args:
        states: float32 [.., size].

    Returns:
        [.., 1].
    """
    length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return length.square_().mul_(1 / states.shape[-1]).add_(epsilon).rsqrt_()


def _rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, back: bool = False) -> torch.Tensor:
    """Heads turned by their positions (rotary embedding, arXiv:2104.09864), the first half of each against the second.

    Args:
        heads: [.., D].
        cos, sin: of the angles, to be broadcast to it; equal in both halves.
        back: turn the other way, as the gradient of a rotation does.
    """
    half, direction = heads.shape[-1] // 2, -1 if back else 1
    turned = heads * cos
    turned[..., :half].addcmul_(heads[..., half:], sin[..., :half], value=-direction)
    turned[..., half:].addcmul_(heads[..., :half], sin[..., half:], value=direction)
    return turned
