"""Memory of the responses under way: keys and values of their prompts, once each, and of their own tokens.

All responses of a batch get one token per step. What a response has by step (tokens, log-probs, random numbers, keys,
values) stands in a slot of a ring whose columns are the steps, modulo their number; a response may start at any step.

Legend: B slots, K key-value heads, D head size, R query heads per key-value head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.hf.attention import attention_with_total, merged
from easyvideor1.rollout.hf.noise import uniforms
from easyvideor1.rollout.hf.sampler import ways
from easyvideor1.rollout.hf.stacks import ReadPrompt, Stack, Stacks
from easyvideor1.rollout.hf.states import States
from easyvideor1.types import Rollout


@dataclass(kw_only=True, slots=True, eq=False)
class Wanted:
    """The responses of one request, as they come."""

    place: int
    sampling: Sampling
    seed: int
    rollouts: dict[int, Rollout] = field(default_factory=dict)
    """Index -> the response, where it is over."""


@dataclass(kw_only=True, slots=True, eq=False)
class Slot:
    """The place of a response under way in a batch."""

    wanted: Wanted
    index: int
    """Index of the response among those to its request."""
    read: ReadPrompt
    start: int
    """Step of its first token."""

    @property
    def last(self) -> int:
        """Step of the last token it may have."""
        return self.start + self.wanted.sampling.max_response_tokens - 1


class Batch:
    """Responses under way, at most `capacity`; what belongs to them is in slots 0 .. len(batch) - 1 of every tensor."""

    def __init__(
        self, *, capacity: int, columns: int, vocab_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        """
        Args:
            columns: most tokens that a response may have.
        """
        self.capacity, self.columns = capacity, columns
        self.slots: list[Slot] = []
        self.step = 0
        self.tokens = torch.zeros(capacity, columns, dtype=torch.int64, device=device)
        """The column of a step holds the token that was sampled in it."""
        self.logprobs = torch.zeros(capacity, columns, device=device)
        self._uniforms = torch.zeros(capacity, columns, dtype=torch.float64, device=device)
        self._mask = torch.zeros(capacity, columns, dtype=dtype, device=device)
        self._shift = torch.zeros(capacity, dtype=torch.int64, device=device)
        """Position of a token less its step."""
        self._last = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._kept: torch.Tensor | None = None
        """Keys and values of the full-attention layers, [layers, 2, capacity, K, columns, D]."""
        self._newest: dict[int, tuple[torch.Tensor, ...]] = {}
        """Layer -> where the keys and values of this step's tokens go, [B, K, D] each."""
        self._seen: dict[int, tuple[torch.Tensor, ...]] = {}
        """Layer -> keys and values that the tokens of this step look at, [B, K, columns seen, D] each."""
        self.states: States = {}
        """Attention states of the sequences; the model writes to them."""
        self._ends = Stacks(device=device, dtype=dtype)
        """Whole prompts, and what comes after a beginning that is shared."""
        self._beginnings = Stacks(device=device, dtype=dtype)
        self._held: tuple[ReadPrompt, ...] = ()
        self._first = 0
        """Step of the first token among all responses under way."""
        self._is_level = False
        """Whether all of them began in that step."""
        self._seen_mask: torch.Tensor | None = None
        """[B, columns seen]; None: each slot sees all of them."""
        self._vocab_size, self._device = vocab_size, device
        self.ways = ways([], vocab_size=vocab_size, device=device)

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def reads(self) -> list[ReadPrompt]:
        """The prompts in memory."""
        return self._ends.reads

    @property
    def _stacks(self) -> list[Stack]:
        return self._ends.stacks

    @property
    def num_tokens(self) -> int:
        """Tokens whose keys and values are needed: of prompts, and for each response the most it may have."""
        ends, beginnings = self._needed()
        return len(self) * self.columns + sum(map(len, ends | beginnings))

    def _needed(self) -> tuple[dict[ReadPrompt, None], dict[ReadPrompt, None]]:
        """What slots look at and what is held: prompts or their ends, and shared beginnings."""
        ends = {slot.read: None for slot in self.slots} | dict.fromkeys(self._held)
        return ends, {read.beginning: None for read in ends if read.beginning is not None}

    @property
    def column(self) -> int:
        return self.step % self.columns

    def newest_tokens(self) -> torch.Tensor:
        """int64 [B]."""
        return self.tokens[: len(self), self.column]

    def positions(self) -> torch.Tensor:
        """int64 [B] of the newest tokens, equal on all three axes."""
        return self._shift[: len(self)] + self.step

    def uniforms(self, slots: slice) -> torch.Tensor:
        """float64 [B] for the tokens of this step."""
        return self._uniforms[slots, self.column]

    def put(self, slots: slice, tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Note down what was sampled in this step."""
        self.tokens[slots, self.column] = tokens
        self.logprobs[slots, self.column] = logprobs

    def finished(self, end_ids: torch.Tensor) -> list[int]:
        """Rows whose newest token ends them."""
        is_end = (self.newest_tokens()[:, None] == end_ids).any(-1)
        is_over = is_end.logical_or_(self._last[: len(self)] <= self.step)
        return is_over.nonzero().squeeze(-1).tolist()

    def written(self, slots: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        """Tokens and log-probs of some slots so far."""
        tokens, logprobs = self.tokens[slots].cpu(), self.logprobs[slots].cpu()
        found = []
        for place, index in enumerate(slots):
            columns = torch.arange(self.slots[index].start, self.step + 1) % self.columns
            found.append((tokens[place, columns].tolist(), logprobs[place, columns].tolist()))
        return found

    def add(self, slots: Sequence[Slot], *, held: Sequence[ReadPrompt] = ()) -> slice:
        """Take in responses that start at this step.

        Args:
            held: prompts to keep beside those that have responses.

        Returns:
            Their slots.
        """
        places = slice(len(self), len(self) + len(slots))
        assert places.stop <= self.capacity, (places, self.capacity)
        self.slots += slots
        noise = np.zeros((len(slots), self.columns))
        for place, slot in enumerate(slots):
            numbers = uniforms(
                seed=slot.wanted.seed,
                sample_id=slot.read.prompt.sample.id,
                index=slot.index,
                count=slot.wanted.sampling.max_response_tokens,
            )
            noise[place, np.arange(slot.start, slot.last + 1) % self.columns] = numbers
        self._uniforms[places] = torch.from_numpy(noise).to(self._device)
        self._mask[places] = -torch.inf
        self._shift[places] = torch.tensor([slot.read.prompt.next_position - slot.start for slot in slots])
        self._last[places] = torch.tensor([slot.last for slot in slots])
        for layer in slots[0].read.states:
            parts = [slot.read.states[layer] for slot in slots]
            if layer in self.states:
                parts.insert(0, self.states[layer])
            self.states[layer] = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        if self._kept is None and (kept := slots[0].read.kept):
            key, _ = next(iter(kept.values()))
            shape = (len(kept), 2, self.capacity, len(key), self.columns, key.shape[-1])
            self._kept = _zeros(shape, like=key)
        self._held = tuple(held)
        self._restack()
        self._seat()
        return places

    def drop(self, finished: Sequence[int]) -> None:
        """Give up slots; the last ones move to their places."""
        num_left = len(self) - len(finished)
        gone = set(finished)
        to = [slot for slot in finished if slot < num_left]
        move = [slot for slot in range(num_left, len(self)) if slot not in gone]
        if move:
            window = self._window()
            target, source = (torch.tensor(slots, device=self._device) for slots in (to, move))
            for tensor in (self.tokens, self.logprobs, self._uniforms, self._mask, self._shift, self._last):
                tensor[target] = tensor[source]
            for of_layer in () if self._kept is None else self._kept.flatten(0, 1):
                used = of_layer[:, :, window]
                used[target] = used[source]
            for tensor in (state for states in self.states.values() for state in states):
                tensor[target] = tensor[source]
        self.states = {
            layer: (convolution[:num_left], recurrence[:num_left])
            for layer, (convolution, recurrence) in self.states.items()
        }
        for place, slot in zip(to, move, strict=True):
            self.slots[place] = self.slots[slot]
        del self.slots[num_left:]
        ends, beginnings = self._needed()
        if 2 * len(ends) <= len(self.reads) or len(beginnings) < len(self._beginnings.reads):
            self._restack()
        self._seat()

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Attention of the newest tokens to their prompts and to the tokens before them; see attention.Attend."""
        return self.attend_newest(layer, query[:, :, 0], key[:, :, 0], value[:, :, 0], scaling)[:, None]

    def attend_newest(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """See decoding.AttendNewest."""
        for place, newest in zip(self._newest[layer], (key, value), strict=True):
            place.copy_(newest)
        # The query heads that share a key-value head are queries to it: no key is repeated.
        folded = query.unflatten(1, (key.shape[1], -1))
        keys, values = self._seen[layer]
        own = attention_with_total(folded, keys, values, self._seen_mask, scaling=scaling)
        return merged(own, self._attend_prompts(layer, folded, scaling)).flatten(1, 2)

    def begin_step(self) -> None:
        """Before the newest tokens are read: they may be looked at from now on."""
        assert self._kept is not None, "no responses were taken in"
        self._mask[: len(self), self.column] = 0
        window = self._window()
        is_all = self._is_level and window.stop - window.start == self.step - self._first + 1
        self._seen_mask = None if is_all else self._mask[: len(self), window]
        kept = self._kept[:, :, : len(self)]
        layers = self.slots[0].read.kept
        self._newest = {n: pair.unbind(0) for n, pair in zip(layers, kept[..., self.column, :].unbind(0), strict=True)}
        self._seen = {n: pair.unbind(0) for n, pair in zip(layers, kept[..., window, :].unbind(0), strict=True)}

    def _attend_prompts(self, layer: int, folded: torch.Tensor, scaling: float) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, K, R, D] and [B, K, R]."""
        ends = self._ends.attend(layer, folded, scaling)
        if not self._beginnings.is_looked_at:
            return ends
        beginnings = self._beginnings.attend(layer, folded, scaling)
        return merged(beginnings, ends), torch.logaddexp(beginnings[1], ends[1])

    def _window(self) -> slice:
        """Columns that hold tokens of responses under way."""
        start, end = self._first % self.columns, self.column + 1
        return slice(start, end) if start < end else slice(0, self.columns)

    def _restack(self) -> None:
        """Put the prompts of all slots, and those held, into stacks of similar lengths; the others are forgotten."""
        ends, beginnings = self._needed()
        self._ends.restack(ends)
        self._beginnings.restack(beginnings)

    def _seat(self) -> None:
        """Say which slots belong to which prompts, after slots have come or gone."""
        starts = {slot.start for slot in self.slots}
        self._first, self._is_level = min(starts, default=0), len(starts) == 1
        self._ends.seat([slot.read for slot in self.slots])
        self._beginnings.seat([slot.read.beginning for slot in self.slots])
        self.ways = ways(
            [slot.wanted.sampling for slot in self.slots], vocab_size=self._vocab_size, device=self._device
        )


def _zeros(shape: tuple[int, ...], *, like: torch.Tensor) -> torch.Tensor:
    """Zeros; on a CPU the system gives the memory when it is first written to.

    What a mask hides must be numbers all the same: 0 times NaN is NaN.
    """
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    num_bytes = int(np.prod(shape)) * like.element_size()
    return torch.from_numpy(np.zeros(num_bytes, np.uint8)).view(like.dtype).view(shape)
