"""What is in memory while responses are sampled: keys and values of their prompts, once each, and of their own tokens.

All responses of a batch get one token per step. What a response has by step (tokens, log-probs, random numbers, keys,
values) stands in a row of a ring whose columns are the steps, modulo their number; a response may start at any step.

Legend: B rows, K key-value heads, D head size, R query heads per key-value head.
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
class Row:
    """A response under way."""

    wanted: Wanted
    index: int
    """Among the responses of its request."""
    read: ReadPrompt
    start: int
    """Step of its first token."""

    @property
    def last(self) -> int:
        """Step of the last token it may have."""
        return self.start + self.wanted.sampling.max_response_tokens - 1


class Batch:
    """Responses under way, at most `capacity`; what belongs to them is in rows 0 .. len(batch) - 1 of every tensor."""

    def __init__(
        self, *, capacity: int, columns: int, vocab_size: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        """
        Args:
            columns: most tokens that a response may have.
        """
        self.capacity, self.columns = capacity, columns
        self.rows: list[Row] = []
        self.step = 0
        self.tokens = torch.zeros(capacity, columns, dtype=torch.int64, device=device)
        """The column of a step holds the token that was drawn in it."""
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
        """Of the rows; written to by the model."""
        self._ends = Stacks(device=device, dtype=dtype)
        """Whole prompts, and what comes after a beginning that is shared."""
        self._beginnings = Stacks(device=device, dtype=dtype)
        self._held: tuple[ReadPrompt, ...] = ()
        self._seen = slice(0, 0)
        """Columns that the tokens of this step look at."""
        self._seen_mask: torch.Tensor | None = None
        """[B, columns seen]; None: each row sees all of them."""
        self._vocab_size, self._device = vocab_size, device
        self.ways = ways([], vocab_size=vocab_size, device=device)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def reads(self) -> list[ReadPrompt]:
        """The prompts in memory."""
        return self._ends.reads

    @property
    def _stacks(self) -> list[Stack]:
        return self._ends.stacks

    @property
    def num_tokens(self) -> int:
        """Whose keys and values are needed: prompts, and for each response the most tokens it may have."""
        ends, beginnings = self._needed()
        return len(self) * self.columns + sum(map(len, ends | beginnings))

    def _needed(self) -> tuple[dict[ReadPrompt, None], dict[ReadPrompt, None]]:
        """What rows look at and what is held: prompts or their ends, and shared beginnings."""
        ends = {row.read: None for row in self.rows} | dict.fromkeys(self._held)
        return ends, {read.beginning: None for read in ends if read.beginning is not None}

    @property
    def column(self) -> int:
        return self.step % self.columns

    def newest_tokens(self) -> torch.Tensor:
        """int64 [B]."""
        return self.tokens[: len(self), self.column]

    def positions(self) -> torch.Tensor:
        """int64 [3, B, 1] of the newest tokens."""
        return (self._shift[: len(self)] + self.step).expand(3, -1)[..., None]

    def uniforms(self, rows: slice) -> torch.Tensor:
        """float64 [B] for the tokens of this step."""
        return self._uniforms[rows, self.column]

    def put(self, rows: slice, tokens: torch.Tensor, logprobs: torch.Tensor) -> None:
        """Note down what was drawn in this step."""
        self.tokens[rows, self.column] = tokens
        self.logprobs[rows, self.column] = logprobs

    def finished(self, end_ids: torch.Tensor) -> list[int]:
        """Rows whose newest token ends them."""
        is_over = torch.isin(self.newest_tokens(), end_ids) | (self._last[: len(self)] <= self.step)
        return is_over.nonzero().squeeze(-1).tolist()

    def written(self, rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        """Tokens and log-probs of some rows so far."""
        tokens, logprobs = self.tokens[rows].cpu(), self.logprobs[rows].cpu()
        found = []
        for place, index in enumerate(rows):
            columns = torch.arange(self.rows[index].start, self.step + 1) % self.columns
            found.append((tokens[place, columns].tolist(), logprobs[place, columns].tolist()))
        return found

    def add(self, rows: Sequence[Row], *, held: Sequence[ReadPrompt] = ()) -> slice:
        """Take in responses that start at this step.

        Args:
            held: prompts to keep beside those that have responses.

        Returns:
            Their rows.
        """
        places = slice(len(self), len(self) + len(rows))
        assert places.stop <= self.capacity, (places, self.capacity)
        self.rows += rows
        noise = np.zeros((len(rows), self.columns))
        for place, row in enumerate(rows):
            numbers = uniforms(
                seed=row.wanted.seed,
                sample_id=row.read.prompt.sample.id,
                index=row.index,
                count=row.wanted.sampling.max_response_tokens,
            )
            noise[place, np.arange(row.start, row.last + 1) % self.columns] = numbers
        self._uniforms[places] = torch.from_numpy(noise).to(self._device)
        self._mask[places] = -torch.inf
        self._shift[places] = torch.tensor([row.read.prompt.next_position - row.start for row in rows])
        self._last[places] = torch.tensor([row.last for row in rows])
        for layer in rows[0].read.states:
            parts = [row.read.states[layer] for row in rows]
            if layer in self.states:
                parts.insert(0, self.states[layer])
            self.states[layer] = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        self._held = tuple(held)
        self._restack()
        self._seat()
        return places

    def drop(self, finished: Sequence[int]) -> None:
        """Give up rows; the last ones move to their places."""
        num_left = len(self) - len(finished)
        gone = set(finished)
        to = [row for row in finished if row < num_left]
        move = [row for row in range(num_left, len(self)) if row not in gone]
        if move:
            window = self._window()
            target, source = (torch.tensor(rows, device=self._device) for rows in (to, move))
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
        for place, row in zip(to, move, strict=True):
            self.rows[place] = self.rows[row]
        del self.rows[num_left:]
        ends, beginnings = self._needed()
        if 2 * len(ends) <= len(self.reads) or len(beginnings) < len(self._beginnings.reads):
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
        starts = {row.start for row in self.rows}
        is_all = len(starts) == 1 and self._seen.stop - self._seen.start == self.step - min(starts) + 1
        self._seen_mask = None if is_all else self._mask[: len(self), self._seen]

    def _attend_prompts(self, layer: int, folded: torch.Tensor, scaling: float) -> tuple[torch.Tensor, torch.Tensor]:
        """[B, K, R, D] and [B, K, R]."""
        ends = self._ends.attend(layer, folded, scaling)
        if not self._beginnings.is_looked_at:
            return ends
        beginnings = self._beginnings.attend(layer, folded, scaling)
        return merged(beginnings, ends), torch.logaddexp(beginnings[1], ends[1])

    def _window(self) -> slice:
        """Columns that hold tokens of responses under way."""
        first = min(row.start for row in self.rows)
        start, end = first % self.columns, self.column + 1
        return slice(start, end) if start < end else slice(0, self.columns)

    def _restack(self) -> None:
        """Put the prompts of all rows, and those held, into stacks of similar lengths; the others are forgotten."""
        ends, beginnings = self._needed()
        self._ends.restack(ends)
        self._beginnings.restack(beginnings)

    def _seat(self) -> None:
        """Say which rows belong to which prompts, after rows have come or gone."""
        self._ends.seat([row.read for row in self.rows])
        self._beginnings.seat([row.read.beginning for row in self.rows])
        self.ways = ways([row.wanted.sampling for row in self.rows], vocab_size=self._vocab_size, device=self._device)


def _zeros(shape: tuple[int, ...], *, like: torch.Tensor) -> torch.Tensor:
    """Zeros; on a CPU the system gives the memory when it is first written to.

    What a mask hides must be numbers all the same: 0 times NaN is NaN.
    """
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    num_bytes = int(np.prod(shape)) * like.element_size()
    return torch.from_numpy(np.zeros(num_bytes, np.uint8)).view(like.dtype).view(shape)
