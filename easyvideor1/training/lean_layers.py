"""Layers with fewer passes over memory than Transformers' modules and their autograd make: of the text in float32, and
the first of the vision tower.

Norms and rotations are memory-bound: on a CPU they take as long as the matrix products of a small model. Each is one
function here whose backward is written out, and keeps its input instead of what lies between. The layers' own modules
do the matrix products, so that adapters are as they are there; in half precision, and for batches that are no packs,
the modules stay what they were.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from easyvideor1.model.families import language_model, shares_prefix, vision_tower
from easyvideor1.model.pointwise import norm_scale, rotated
from easyvideor1.training.attention import pack_attention
from easyvideor1.training.layout import PackLayout
from easyvideor1.training.sequence import SequenceGroup


def make_lean(model: Any) -> None:
    """Change the classes of a model's modules; text layers stay as they are where some have linear attention."""
    patches = vision_tower(model).patch_embed
    if type(patches.proj) is nn.Conv3d:
        _mix_in(_LeanPatches, patches)
    if not shares_prefix(model):
        return
    text = language_model(model)
    for module in text.modules():
        if hasattr(module, "variance_epsilon"):
            _mix_in(_LeanNorm, module)
    for layer in text.layers:
        _mix_in(_LeanAttention, layer.self_attn)


def _mix_in(kind: type, module: Any) -> None:
    """Put a class before that of a module, once."""
    before = type(module)
    if not issubclass(before, kind):
        module.__class__ = type(before.__name__, (kind, before), {})


class _LeanPatches:
    """Patches do not overlap: their convolution is a matrix product, which is several times faster."""

    proj: nn.Conv3d

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        weight = self.proj.weight.flatten(1)
        return F.linear(patches.to(weight.dtype).view(-1, weight.shape[1]), weight, self.proj.bias)


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


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        scale = norm_scale(states, epsilon)
        ctx.save_for_backward(states, weight, scale)
        return (states * scale).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """With y = x s w and s = (mean(x^2) + epsilon)^-1/2: dx = s (dy w - x s^2 mean(dy w x)), dw = sum(dy x s)."""
        states, weight, scale = ctx.saved_tensors
        (grad,) = grads
        product = grad * states
        mean = (product @ weight).unsqueeze_(-1).div_(len(weight))
        grad_weight = product.reshape(-1, len(weight)).T @ scale.reshape(-1) if ctx.needs_input_grad[1] else None
        grad_states = (grad * weight).addcmul_(states, mean.mul_(scale).mul_(scale), value=-1).mul_(scale)
        return grad_states, grad_weight, None


class _Rotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return rotated(heads, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return rotated(grads[0], cos, sin, back=True), None, None
