"""Where the prompts and responses of a pack lie, and what each of them sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from easyvideor1.training.kernels import Blocks

Range = tuple[int, int]
"""Tokens from the first number up to the second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupLayout:
    """One `[prompt | r1 .. rn]`."""

    num_prompt: int
    lengths: tuple[int, ...]
    """Tokens of each response, all > 0."""

    def __post_init__(self) -> None:
        if self.num_prompt < 1 or not self.lengths or min(self.lengths) < 1:
            raise ValueError(
                f"a group needs a prompt and responses of >= 1 token, got {self.num_prompt} and {list(self.lengths)}"
            )

    @property
    def num_tokens(self) -> int:
        return self.num_prompt + sum(self.lengths)

    @property
    def sequences(self) -> tuple[int, ...]:
        """Tokens that follow each other causally: a prompt and its only response, or the prompt and each response."""
        return (self.num_tokens,) if len(self.lengths) == 1 else (self.num_prompt, *self.lengths)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PackLayout:
    """The groups of a pack, in order; passed to the model's forward as `pack_layout`."""

    groups: tuple[GroupLayout, ...]
    sequences: Blocks
    """Every sequence of the groups over itself."""
    prompts: tuple[Range, ...]
    """The prompts with several responses, and the responses to each of them."""
    responses: tuple[Range, ...]
    over_prompts: Blocks
    """The responses of each of these prompts over it."""

    @classmethod
    def of(cls, groups: Sequence[GroupLayout]) -> PackLayout:
        """
        >>> layout = PackLayout.of([GroupLayout(num_prompt=4, lengths=(3, 1)), GroupLayout(num_prompt=5, lengths=(2,))])
        >>> layout.sequences.query_lengths, layout.prompts, layout.responses
        ((4, 3, 1, 7), ((0, 4),), ((4, 8),))
        """
        starts = [0, *accumulate(group.num_tokens for group in groups)]
        shared = [(start, group) for start, group in zip(starts, groups, strict=False) if len(group.lengths) > 1]
        prompts = tuple((start, start + group.num_prompt) for start, group in shared)
        responses = tuple((start + group.num_prompt, start + group.num_tokens) for start, group in shared)
        lengths = [length for group in groups for length in group.sequences]
        return cls(
            groups=tuple(groups),
            sequences=Blocks.of(lengths, lengths),
            prompts=prompts,
            responses=responses,
            over_prompts=Blocks.of([end - start for start, end in responses], [end - start for start, end in prompts]),
        )

    @property
    def num_tokens(self) -> int:
        return sum(group.num_tokens for group in self.groups)

    def to(self, device: torch.device | str) -> PackLayout:
        return replace(self, sequences=self.sequences.to(device), over_prompts=self.over_prompts.to(device))
