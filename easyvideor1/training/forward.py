"""The forward over a whole pack as a module: what FSDP2 shards has to be entered through the forward of its root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from easyvideor1.model.vision import Media
from easyvideor1.training.logprobs import logprobs_of, response_hidden
from easyvideor1.training.pack import Pack
from easyvideor1.training.sequence import SequenceGroup
from easyvideor1.training.value_head import ValueHead


class Outputs(NamedTuple):
    """What a forward says of the response tokens of a pack, [N] each; FSDP2 looks into tuples, not into dataclasses."""

    logprobs: torch.Tensor
    entropy: torch.Tensor | None
    values: torch.Tensor | None
    """Of the state before each token; None without a value head."""


class PackForward(nn.Module):
    """A model that is called with packs (see `response_logprobs`), and what is trained beside it."""

    def __init__(
        self,
        model: Any,
        *,
        device: torch.device | None = None,
        sequence: SequenceGroup | None = None,
        value_head: ValueHead | None = None,
    ) -> None:
        """
        Args:
            device: where it computes; None: where the model's weights lie.
            sequence: the ranks that compute each pack together; None: each computes its own.
            value_head: for algorithms that need values.
        """
        super().__init__()
        self.model = model
        self.value_head = value_head
        self.device: torch.device = device or model.device
        """Where it computes; offloaded weights lie elsewhere."""
        self.sequence = sequence or SequenceGroup()

    def forward(
        self, pack: Pack, media: Mapping[int, Media], *, temperature: float, with_entropy: bool = False
    ) -> Outputs:
        hidden = response_hidden(self.model, pack, media, self.sequence)
        logprobs, entropy = logprobs_of(
            self.model, pack, hidden, temperature=temperature, with_entropy=with_entropy, sequence=self.sequence
        )
        values = None
        if self.value_head is not None:
            values = self.sequence.everything(self.value_head(hidden), count=len(pack.tokens))
        return Outputs(logprobs, entropy, values)

    def rest(self) -> None:
        """Give up what a sharded model gathered for forwards that no backward follows."""
        if reshard := getattr(self, "reshard", None):
            reshard()
