"""What a rollout engine is: requests in, the rollouts of each request out, as they complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from easyvideor1.types import Example, Rollout

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How responses are sampled. Filters apply in the order: banned tokens, top_k, top_p."""

    n: int = 1
    """Responses per prompt, at least 1."""
    temperature: float = 1.0
    """0 is greedy: the most likely token, always."""
    top_p: float = 1.0
    top_k: int = 0
    """Only the k most likely tokens; 0: all."""
    presence_penalty: float = 0.0
    """Taken off the logits of tokens that the response has already; engines over a server and vLLM know it."""
    repetition_penalty: float = 1.0
    """Divides the positive logits, and multiplies the others, of tokens that prompt or response has; as above."""
    max_response_tokens: int

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def is_penalized(self) -> bool:
        return self.presence_penalty != 0.0 or self.repetition_penalty != 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """A prompt and the responses that are wanted for it."""

    example: Example
    sampling: Sampling
    seed: int
    """The random number of a token is a function of (seed, sample id, index of the response, position), so rollouts do
    not depend on what else is sampled, in which order, batch or process."""
    shares_beginning: bool = False
    """Whether requests beside this one ask about the same media: they come one after another, and an engine may read
    what their prompts begin with once. It changes what is computed, not what is sampled."""


class Engine(Protocol):
    """Generates responses. Vision tokens are never sampled; log-probs are those of the full distribution at the
    sampling temperature (1 for greedy responses), before banned tokens and filters are left out."""

    @property
    def banned_hits(self) -> int:
        """How often the likeliest next token was a banned one (a vision token, an id without text) since the start."""
        ...

    @property
    def needs_still_actor(self) -> bool:
        """Whether the actor's weights must not change while it generates: they are its own, or it is about to compare
        itself with them."""
        ...

    def awake(self) -> AbstractContextManager[None]:
        """Ready to generate for the time of the block; outside of it the engine leaves its memory to others."""
        ...

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        """(place of a request, its rollouts), as they complete.

        Requests are taken from the iterable when there is room for them, so it may prepare them as it goes, and only
        those under way are in memory. A None among them says that the next request is not ready: the engine goes on
        with those it has, and asks again; it is given only while rollouts are under way. A response that the engine
        gives up is a rollout with `StopReason.ABORT`.
        """
        ...

    def load_weights(self, tensors: Iterable[tuple[str, torch.Tensor]], *, version: int) -> None:
        """Take over weights; rollouts made from now on carry `version`.

        Args:
            tensors: (name in a checkpoint, full tensor), adapters merged in (`model.weights.checkpoint_tensors`). Made
                one by one as they are taken; an engine that shares the actor's weights takes none.
        """
        ...
