"""The forward over a whole pack as a module: what FSDP2 shards has to be entered through the forward of its root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from easyvideor1.model.vision import Media
from easyvideor1.training.full_kl import Words
from easyvideor1.training.logprobs import Outputs, response_outputs, response_states
from easyvideor1.training.pack import Pack
from easyvideor1.training.sequence import SequenceGroup
from easyvideor1.training.value_head import ValueHead


class PackForward(nn.Module):
    """A model that is called with packs (see `response_outputs`), and a value head beside it."""

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
        self,
        pack: Pack,
        media: Mapping[int, Media],
        *,
        temperature: float,
        with_entropy: bool = False,
        reference: Words | None = None,
    ) -> Outputs:
        found = response_outputs(
            self.model,
            pack,
            media,
            temperature=temperature,
            with_entropy=with_entropy,
            reference=reference,
            sequence=self.sequence,
        )
        if self.value_head is None:
            return found
        own = self.value_head(found.words.hidden)
        return found._replace(values=self.sequence.everything(own, count=len(pack.tokens)))

    def states(self, pack: Pack, media: Mapping[int, Media]) -> torch.Tensor:
        """The forward up to the output layer, see `response_states`."""
        return response_states(self.model, pack, media, self.sequence)

    @contextmanager
    def words(self, pack: Pack, media: Mapping[int, Media]) -> Iterator[Words]:
        """What the log-probs of all words are made of, without gradients; the output layer of a sharded model stays
        gathered for the time of the block, so that all ranks must enter it alike."""
        with torch.no_grad():
            hidden = self.states(pack, media)
        if unshard := getattr(self, "unshard", None):
            unshard()
        yield Words(hidden, self.model.lm_head.weight.detach())
        self.rest()

    def rest(self) -> None:
        """Give up what a sharded model gathered for forwards that no backward follows."""
        if reshard := getattr(self, "reshard", None):
            reshard()
