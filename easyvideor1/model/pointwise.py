"""What a text layer does to its states beside matrix products, in few passes over memory."""

from __future__ import annotations

import torch


def norm_scale(states: torch.Tensor, epsilon: float) -> torch.Tensor:
    """What a root mean square norm multiplies states by: 1 / sqrt(mean of squares + epsilon).

    Args:
        states: float32 [.., size].

    Returns:
        [.., 1].
    """
    length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return length.square_().mul_(1 / states.shape[-1]).add_(epsilon).rsqrt_()


def rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, back: bool = False) -> torch.Tensor:
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
