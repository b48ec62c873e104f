"""What a rollout engine is: requests in, the rollouts of each request out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from easyvideor1.types import Example, Rollout

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How responses are sampled."""

    n: int = 1
    """Responses per prompt."""
    temperature: float = 1.0
    """0 is greedy: the most likely token, always."""
    top_p: float = 1.0
    max_response_tokens: int

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A prompt and the responses that are wanted for it."""

    example: Example
    sampling: Sampling


class Engine(Protocol):
    """Generates responses. Vision tokens are never sampled; log-probs are those of the full distribution."""

    banned_hits: int
    """How often the most likely next token was a banned vision token, since the engine was made."""

    def generate(self, requests: Sequence[Request], *, seed: int) -> list[tuple[Rollout, ...]]:
        """The rollouts of each request, in order; the same arguments and weights give the same rollouts."""
        ...

    def load_weights(self, model: nn.Module, *, version: int) -> None:
        """Take over the actor's weights; rollouts made from now on carry `version`."""
        ...
