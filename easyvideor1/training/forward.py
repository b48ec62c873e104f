"""The forward over a whole pack as a module: what FSDP2 shards has to be entered through the forward of its root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from easyvideor1.model.vision import Media
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import Pack
from easyvideor1.training.sequence import SequenceGroup


class PackForward(nn.Module):
    """A model that is called with packs (see `response_logprobs`)."""

    def __init__(
        self, model: Any, *, device: torch.device | None = None, sequence: SequenceGroup | None = None
    ) -> None:
        """
        Args:
            device: where it computes; None: where the model's weights lie.
            sequence: the ranks that compute each pack together; None: each computes its own.
        """
        super().__init__()
        self.model = model
        self.device: torch.device = device or model.device
        """Where it computes; offloaded weights lie elsewhere."""
        self.sequence = sequence or SequenceGroup()

    def forward(
        self, pack: Pack, media: Mapping[int, Media], *, temperature: float, with_entropy: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        return response_logprobs(
            self.model, pack, media, temperature=temperature, with_entropy=with_entropy, sequence=self.sequence
        )

    def rest(self) -> None:
        """Give up what a sharded model gathered for forwards that no backward follows."""
        if reshard := getattr(self, "reshard", None):
            reshard()
