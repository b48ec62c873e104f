"""The value head of PPO: what a response can still expect before each of its tokens, from the policy's own layers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from easyvideor1.algo.algorithms import Algorithm


class ValueHead(nn.Module):
    """A linear function of the direction of the last hidden states, in float32; it begins as 0.

    The direction is divided by the square root of the width, so that one learning rate suits all models: a step of
    AdamW moves a value by about the rate, and by at most twice that.
    """

    def __init__(self, num_hidden: int, *, is_detached: bool, device: torch.device | None = None) -> None:
        """
        Args:
            is_detached: no gradient goes on into the layers below.
        """
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_hidden, dtype=torch.float32, device=device))
        self.bias = nn.Parameter(torch.zeros(1, dtype=torch.float32, device=device))
        self._is_detached = is_detached

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[N, D] hidden states of any float type -> [N] float32 values."""
        if self._is_detached:
            hidden = hidden.detach()
        directions = functional.normalize(hidden.float(), dim=-1) / math.sqrt(len(self.weight))
        return directions @ self.weight + self.bias

    @torch.no_grad()
    def begin(self) -> None:
        """Make it 0, sharded or not."""
        for weight in self.parameters():
            weight.zero_()


def value_head_of(model: Any, algorithm: Algorithm) -> ValueHead | None:
    """A fresh value head for a model, where its weights lie; None where the algorithm needs none."""
    if not algorithm.needs_values:
        return None
    num_hidden = model.config.get_text_config().hidden_size
    return ValueHead(num_hidden, is_detached=algorithm.value_detached, device=model.device)
