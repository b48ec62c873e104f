"""Memory of the responses under way: keys and values of their prompts, once each, and of their own tokens.

All responses of a batch get one token per step. What a response has by step (tokens, log-probs, random numbers, keys,
values) stands in a slot of a ring whose columns are the steps, modulo their number; a response may start at any step.

Legend: B slots, K key-value heads, D head size, G prompts of a stack, M responses of its fullest prompt, P tokens of
its longest, R query heads per key-value head.
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
from easyvideor1.rollout.hf.states import States
from easyvideor1.types import Prompt, Rollout

LONGEST_OVER_SHORTEST = 1.5
"""Longest prompt of a stack over its shortest; the shorter ones are padded."""
SMALL_TOKENS = 64
"""Prompts up to this length are stacked whatever their lengths: padding costs less than another stack."""


@dataclass(kw_only=True, slots=True, eq=False)
class ReadPrompt:
    """A prompt that the model has read."""

    prompt: Prompt
    hidden: torch.Tensor
    """[hidden size] after its last token: from it the first token of each response is sampled."""
    kept: dict[int, tuple[torch.Tensor, torch.Tensor]]
    """Full-attention layer -> keys and values, [K, tokens, D] each."""
    states: States
    """Linear-attention layer -> state after its last token."""

    def __len__(self) -> int:
        return len(self.prompt)


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


@dataclass(kw_only=True, slots=True, eq=False)
class Stack:
    """Prompts of similar lengths, padded to the longest."""

    reads: list[ReadPrompt]
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    """Layer -> [G, K, P, D]."""
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    mask: torch.Tensor | None = None
    """[G, P], 0 or -inf; None: all are equally long."""
    members: torch.Tensor | None = None
    """int64 [G, M]: the slot of each response of each prompt; where there are fewer than M, any slot."""


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
        self._keys: dict[int, torch.Tensor] = {}
        """Full-attention layer -> [capacity, K, columns, D]."""
        self._values: dict[int, torch.Tensor] = {}
        self.states: States = {}
        """Attention states of the sequences; the model writes to them."""
        self._stacks: list[Stack] = []
        self._held: tuple[ReadPrompt, ...] = ()
        self._seats = torch.zeros(0, dtype=torch.int64, device=device)
        """int64 [B]: where each slot stands among all members of all stacks."""
        self._seen = slice(0, 0)
        """Columns that the tokens of this step look at."""
        self._seen_mask: torch.Tensor | None = None
        """[B, columns seen]; None: each slot sees all of them."""
        self._vocab_size, self._device = vocab_size, device
        self.ways = ways([], vocab_size=vocab_size, device=device)

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def reads(self) -> list[ReadPrompt]:
        """The prompts in memory."""
        return [read for stack in self._stacks for read in stack.reads]

    @property
    def num_tokens(self) -> int:
        """Tokens whose keys and values are needed: of prompts, and for each response the most it may have."""
        needed = {slot.read: None for slot in self.slots} | dict.fromkeys(self._held)
        return len(self) * self.columns + sum(map(len, needed))

    @property
    def column(self) -> int:
        return self.step % self.columns

    def newest_tokens(self) -> torch.Tensor:
        """int64 [B]."""
        return self.tokens[: len(self), self.column]

    def positions(self) -> torch.Tensor:
        """int64 [3, B, 1] of the newest tokens."""
        return (self._shift[: len(self)] + self.step).expand(3, -1)[..., None]

    def uniforms(self, slots: slice) -> torch.Tensor:
        """float64 [B] for the tokens of this step."""
        return self._uniforms[slots, self.column]

    def put(self, slots: slice, tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Write down what was sampled in this step."""
        self.tokens[slots, self.column] = tokens
        self.logprobs[slots, self.column] = logprobs

    def finished(self, end_ids: torch.Tensor) -> list[int]:
        """Rows whose newest token ends them."""
        is_over = torch.isin(self.newest_tokens(), end_ids) | (self._last[: len(self)] <= self.step)
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
            for tensor in (*self._keys.values(), *self._values.values()):
                used = tensor[:, :, window]
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
        if 2 * len({slot.read for slot in self.slots} | set(self._held)) <= len(self.reads):
            self._restack()
        self._seat()

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
    ) -> torch.Tensor:
        """Attention of the newest tokens to their prompts and to the tokens before them; see attention.Attend."""
        num_rows, num_heads, _, size = query.shape
        num_kv = key.shape[1]
        if layer not in self._keys:
            shape = (self.capacity, num_kv, self.columns, size)
            self._keys[layer], self._values[layer] = _zeros(shape, like=key), _zeros(shape, like=key)
        keys, values = self._keys[layer][:num_rows], self._values[layer][:num_rows]
        keys[:, :, self.column], values[:, :, self.column] = key[:, :, 0], value[:, :, 0]
        # The query heads that share a key-value head are queries to it: no key is repeated.
        folded = query.reshape(num_rows, num_kv, num_heads // num_kv, size)
        own = attention_with_total(
            folded, keys[:, :, self._seen], values[:, :, self._seen], self._seen_mask, scaling=scaling
        )
        return merged(own, self._attend_prompts(layer, folded, scaling)).reshape(num_rows, 1, num_heads, size)

    def begin_step(self) -> None:
        """Before the newest tokens are read: they may be looked at from now on."""
        self._mask[: len(self), self.column] = 0
        self._seen = self._window()
        starts = {slot.start for slot in self.slots}
        is_all = len(starts) == 1 and self._seen.stop - self._seen.start == self.step - min(starts) + 1
        self._seen_mask = None if is_all else self._mask[: len(self), self._seen]

    def _attend_prompts(self, layer: int, folded: torch.Tensor, scaling: float) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, K, R, D] and [B, K, R]."""
        outs, totals = [], []
        for stack in self._stacks:
            if stack.members is None:
                continue
            query = folded[stack.members]  # [G, M, K, R, D]
            together = query.transpose(1, 2).flatten(2, 3)
            out, total = attention_with_total(
                together, stack.keys[layer], stack.values[layer], stack.mask, scaling=scaling
            )
            per_head = query.shape[1], query.shape[3]
            outs.append(out.unflatten(2, per_head).transpose(1, 2).flatten(0, 1))
            totals.append(total.unflatten(2, per_head).transpose(1, 2).flatten(0, 1))
        out, total = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in (outs, totals))
        return out[self._seats], total[self._seats]

    def _window(self) -> slice:
        """Columns that hold tokens of responses under way."""
        first = min(slot.start for slot in self.slots)
        start, end = first % self.columns, self.column + 1
        return slice(start, end) if start < end else slice(0, self.columns)

    def _restack(self) -> None:
        """Put the prompts of all slots, and those held, into stacks of similar lengths; the others are forgotten."""
        reads = sorted({slot.read: None for slot in self.slots} | dict.fromkeys(self._held), key=len)
        stacks: list[Stack] = []
        for read in reads:
            shortest = len(stacks[-1].reads[0]) if stacks else 0
            if stacks and len(read) <= max(SMALL_TOKENS, LONGEST_OVER_SHORTEST * shortest):
                stacks[-1].reads.append(read)
            else:
                stacks.append(Stack(reads=[read]))
        before = {tuple(stack.reads): stack for stack in self._stacks}
        self._stacks = [before.get(tuple(stack.reads)) or self._filled(stack) for stack in stacks]

    def _filled(self, stack: Stack) -> Stack:
        """With the keys and values of its prompts, whose own become views of these."""
        lengths = [len(read) for read in stack.reads]
        if lengths[0] < lengths[-1]:
            is_padding = torch.arange(lengths[-1]) >= torch.tensor(lengths)[:, None]
            stack.mask = torch.zeros(is_padding.shape).masked_fill_(is_padding, -torch.inf).to(self._mask)
        for layer in stack.reads[0].kept:
            keys, values = zip(*(read.kept[layer] for read in stack.reads), strict=True)
            stack.keys[layer], stack.values[layer] = _padded(keys), _padded(values)
            for read, key, value in zip(stack.reads, stack.keys[layer], stack.values[layer], strict=True):
                read.kept[layer] = key[:, : len(read)], value[:, : len(read)]
        return stack

    def _seat(self) -> None:
        """Say which slots belong to which prompts, after slots have come or gone."""
        number = {read: place for place, read in enumerate(self.reads)}
        prompt_of_slot = np.array([number[slot.read] for slot in self.slots], np.int64)
        counts = np.bincount(prompt_of_slot, minlength=len(number))
        order = np.argsort(prompt_of_slot, kind="stable")
        seat_at_prompt = np.empty(len(order), np.int64)
        seat_at_prompt[order] = np.arange(len(order)) - (np.cumsum(counts) - counts)[prompt_of_slot[order]]
        seats = np.empty(len(order), np.int64)
        first_prompt = first_seat = 0
        for stack in self._stacks:
            end = first_prompt + len(stack.reads)
            width = int(counts[first_prompt:end].max())
            here = (prompt_of_slot >= first_prompt) & (prompt_of_slot < end)
            local = (prompt_of_slot[here] - first_prompt) * width + seat_at_prompt[here]
            members = np.zeros(len(stack.reads) * width, np.int64)
            members[local] = np.flatnonzero(here)
            stack.members = torch.from_numpy(members.reshape(-1, width)).to(self._device) if width else None
            seats[here] = first_seat + local
            first_prompt, first_seat = end, first_seat + len(members)
        self._seats = torch.from_numpy(seats).to(self._device)
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


def _padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Parts [K, tokens, D] -> [G, K, P, D], zeros at the end."""
    num_kv, _, size = parts[0].shape
    padded = parts[0].new_zeros(len(parts), num_kv, max(part.shape[1] for part in parts), size)
    for place, part in enumerate(parts):
        padded[place, :, : part.shape[1]] = part
    return padded
