"""Prompts that a model has read, stacked by length, and the attention of responses to them.

Legend: B slots, K key-value heads, D head size, G prompts of a stack, M responses of its fullest prompt, P tokens of
its longest, R query heads per key-value head.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from easyvideor1.rollout.hf.attention import attention_with_total
from easyvideor1.rollout.hf.states import States
from easyvideor1.types import Prompt

LONGEST_OVER_SHORTEST = 1.5
"""Longest prompt of a stack over its shortest; the shorter ones are padded."""
SMALL_TOKENS = 64
"""Prompts up to this length are stacked whatever their lengths: padding costs less than another stack."""


@dataclass(kw_only=True, slots=True, eq=False)
class ReadPrompt:
    """A prompt that the model has read, or the part of it that comes after a beginning it shares with others."""

    prompt: Prompt
    hidden: torch.Tensor
    """[hidden size] after its last token: what the first token of each response is sampled from."""
    kept: dict[int, tuple[torch.Tensor, torch.Tensor]]
    """Full-attention layer -> keys and values of its own tokens, [K, tokens, D] each."""
    states: States
    """Linear-attention layer -> state after its last token."""
    beginning: ReadPrompt | None = None
    """What stands before its own tokens."""

    def __len__(self) -> int:
        """Number of its own tokens."""
        return len(self.prompt) - (0 if self.beginning is None else len(self.beginning.prompt))


@dataclass(kw_only=True, slots=True, eq=False)
class Stack:
    """Prompts of similar lengths, padded to the longest."""

    reads: list[ReadPrompt]
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    """Layer -> [G, K, P, D]."""
    values: dict[int, torch.Tensor] = field(default_factory=dict)
    mask: torch.Tensor | None = None
    """[G, P], 0 or -inf; None: all are equally long."""
    members: torch.Tensor | slice | None = None
    """int64 [G * M]: the slot of each response of each prompt; where there are fewer than M, any slot. A slice where
    they follow each other."""


class Stacks:
    """Some prompts in stacks, and which of them each slot looks at: one, or none."""

    def __init__(self, *, device: torch.device, dtype: torch.dtype) -> None:
        self.stacks: list[Stack] = []
        self._device, self._dtype = device, dtype
        self._seats = torch.zeros(0, dtype=torch.int64, device=device)
        """int64 [B]: where each slot stands among all members of all stacks; a slot that looks at none, behind them."""
        self._is_seated_in_order = False
        """Whether each slot stands where it stands in the batch, and nothing beside them."""
        self.is_looked_at = False
        """Whether any slot looks at any of them."""
        self._is_missed = False
        """Whether a slot looks at none."""

    @property
    def reads(self) -> list[ReadPrompt]:
        return [read for stack in self.stacks for read in stack.reads]

    def restack(self, reads: Iterable[ReadPrompt]) -> None:
        """Put prompts into stacks of similar lengths; all others are forgotten."""
        stacks: list[Stack] = []
        for read in sorted(dict.fromkeys(reads), key=len):
            shortest = len(stacks[-1].reads[0]) if stacks else 0
            if stacks and len(read) <= max(SMALL_TOKENS, LONGEST_OVER_SHORTEST * shortest):
                stacks[-1].reads.append(read)
            else:
                stacks.append(Stack(reads=[read]))
        before = {tuple(stack.reads): stack for stack in self.stacks}
        self.stacks = [before.get(tuple(stack.reads)) or self._filled(stack) for stack in stacks]

    def seat(self, looked_at: Sequence[ReadPrompt | None]) -> None:
        """Say which prompt each slot looks at, after slots have come or gone."""
        number = {read: place for place, read in enumerate(self.reads)}
        prompt_of_slot = np.array([-1 if read is None else number[read] for read in looked_at], np.int64)
        self.is_looked_at, self._is_missed = bool((prompt_of_slot >= 0).any()), bool((prompt_of_slot < 0).any())
        known = np.flatnonzero(prompt_of_slot >= 0)
        counts = np.bincount(prompt_of_slot[known], minlength=len(number))
        order = known[np.argsort(prompt_of_slot[known], kind="stable")]
        seat_at_prompt = np.empty(len(prompt_of_slot), np.int64)
        seat_at_prompt[order] = np.arange(len(order)) - (np.cumsum(counts) - counts)[prompt_of_slot[order]]
        seats = np.empty(len(prompt_of_slot), np.int64)
        first_prompt = first_seat = 0
        for stack in self.stacks:
            end = first_prompt + len(stack.reads)
            width = int(counts[first_prompt:end].max())
            here = (prompt_of_slot >= first_prompt) & (prompt_of_slot < end)
            local = (prompt_of_slot[here] - first_prompt) * width + seat_at_prompt[here]
            members = np.zeros(len(stack.reads) * width, np.int64)
            members[local] = np.flatnonzero(here)
            stack.members = self._places(members) if width else None
            seats[here] = first_seat + local
            first_prompt, first_seat = end, first_seat + len(members)
        seats[prompt_of_slot < 0] = first_seat
        self._seats = torch.from_numpy(seats).to(self._device)
        self._is_seated_in_order = first_seat == len(seats) and bool((seats == np.arange(first_seat)).all())

    def attend(self, layer: int, folded: torch.Tensor, scaling: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention of slots to the prompts they look at, with its total (see `attention_with_total`).

        Args:
            folded: queries [B, K, R, D].

        Returns:
            [B, K, R, D] and [B, K, R]; of a slot that looks at none, zeros and -inf.
        """
        outs, totals = [], []
        for stack in self.stacks:
            if stack.members is None:
                continue
            query = folded[stack.members].unflatten(0, (len(stack.reads), -1))  # [G, M, K, R, D]
            together = query.transpose(1, 2).flatten(2, 3)
            out, total = attention_with_total(
                together, stack.keys[layer], stack.values[layer], stack.mask, scaling=scaling
            )
            per_head = query.shape[1], query.shape[3]
            outs.append(out.unflatten(2, per_head).transpose(1, 2).flatten(0, 1))
            totals.append(total.unflatten(2, per_head).transpose(1, 2).flatten(0, 1))
        if self._is_missed:
            outs.append(torch.zeros_like(outs[0][:1]))
            totals.append(torch.full_like(totals[0][:1], -torch.inf))
        out, total = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in (outs, totals))
        return (out, total) if self._is_seated_in_order else (out[self._seats], total[self._seats])

    def _places(self, members: np.ndarray) -> torch.Tensor | slice:
        """Slots to take from the batch."""
        first, end = int(members[0]), int(members[0]) + len(members)
        if (members == np.arange(first, end)).all():
            return slice(first, end)
        return torch.from_numpy(members).to(self._device)

    def _filled(self, stack: Stack) -> Stack:
        """With the keys and values of its prompts, whose own become views of these."""
        lengths = [len(read) for read in stack.reads]
        if lengths[0] < lengths[-1]:
            is_padding = torch.arange(lengths[-1]) >= torch.tensor(lengths)[:, None]
            mask = torch.zeros(is_padding.shape).masked_fill_(is_padding, -torch.inf)
            stack.mask = mask.to(device=self._device, dtype=self._dtype)
        for layer in stack.reads[0].kept:
            keys, values = zip(*(read.kept[layer] for read in stack.reads), strict=True)
            stack.keys[layer], stack.values[layer] = _padded(keys), _padded(values)
            for read, key, value in zip(stack.reads, stack.keys[layer], stack.values[layer], strict=True):
                read.kept[layer] = key[:, : len(read)], value[:, : len(read)]
        return stack


def _padded(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Parts [K, tokens, D] -> [G, K, P, D], zeros at the end."""
    num_kv, _, size = parts[0].shape
    padded = parts[0].new_zeros(len(parts), num_kv, max(part.shape[1] for part in parts), size)
    for place, part in enumerate(parts):
        padded[place, :, : part.shape[1]] = part
    return padded
