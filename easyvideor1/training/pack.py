"""Groups -> packs without padding, ready for the model.

A pack is a list of segments `[prompt | responses]`: with a shared prefix a segment is a whole group, without it is one
rollout (a group of one response); everything after packing is the same code. Everything about response tokens is flat,
[N], in one order: segments as they stand in the pack, rollouts of a segment in order, tokens in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch

from easyvideor1.training.shared_prefix import PackLayout, lay_out
from easyvideor1.types import Group, Prompt


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ResponseTokens:
    """What is known of each response token of a pack, [N] each."""

    token_ids: torch.Tensor
    """int64."""
    sampler_logprobs: torch.Tensor
    """float32; NaN where unknown (offline)."""
    advantages: torch.Tensor
    """float32; that of the rollout."""
    weights: torch.Tensor
    """float32; loss weight of the rollout."""
    sequence: torch.Tensor
    """int64; number of the rollout in the batch: group by group, counting every rollout."""
    group: torch.Tensor
    """int64; index of the group in the batch."""
    is_offline: torch.Tensor
    """bool."""

    def __len__(self) -> int:
        return len(self.token_ids)

    def to(self, device: torch.device | str) -> ResponseTokens:
        return ResponseTokens(**{item.name: getattr(self, item.name).to(device) for item in fields(self)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One `[prompt | responses]` of a pack."""

    group: int
    """Index of the group in the batch."""
    rollouts: tuple[int, ...]
    """Which rollouts of the group, in order."""
    sample_id: str
    num_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pack:
    """Segments one after another: one forward of the model."""

    input_ids: torch.Tensor
    """int64 [1, L]."""
    position_ids: torch.Tensor
    """int64 [3, 1, L]: time, height, width."""
    layout: PackLayout
    segments: tuple[Segment, ...]
    predictors: torch.Tensor
    """int64 [N]: where in the pack the token before each response token stands, whose output predicts it."""
    tokens: ResponseTokens

    @property
    def num_tokens(self) -> int:
        return self.input_ids.shape[1]

    def to(self, device: torch.device | str) -> Pack:
        return Pack(
            input_ids=self.input_ids.to(device),
            position_ids=self.position_ids.to(device),
            layout=self.layout.to(device),
            segments=self.segments,
            predictors=self.predictors.to(device),
            tokens=self.tokens.to(device),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """All packs of one update."""

    packs: tuple[Pack, ...]
    num_groups: int
    num_sequences: int
    """Rollouts, those without tokens included."""

    @property
    def num_response_tokens(self) -> int:
        return sum(len(pack.tokens) for pack in self.packs)

    @property
    def num_tokens(self) -> int:
        """Tokens the model computes."""
        return sum(pack.num_tokens for pack in self.packs)


def pack_groups(groups: Sequence[Group], *, tokens_per_pack: int, shared_prefix: bool) -> Batch:
    """Put groups into packs of at most `tokens_per_pack` tokens (a larger segment gets a pack of its own).

    First-fit decreasing; a pure function of its arguments. Rollouts without a token are counted but not packed.

    Args:
        groups: with advantages and weights, one per rollout.
        shared_prefix: one segment per group, its prompt once; False: one segment per rollout.

    Raises:
        ValueError: a group whose advantages, weights or sampler log-probs do not match its rollouts.
    """
    first_sequence = np.cumsum([0, *(len(group.rollouts) for group in groups)])
    segments = []
    for index, group in enumerate(groups):
        _check(group)
        filled = tuple(i for i, rollout in enumerate(group.rollouts) if rollout.token_ids)
        for rollouts in [filled] * bool(filled) if shared_prefix else [(i,) for i in filled]:
            num_tokens = len(group.prompt) + sum(len(group.rollouts[i].token_ids) for i in rollouts)
            sample_id = group.prompt.sample.id
            segments.append(Segment(group=index, rollouts=rollouts, sample_id=sample_id, num_tokens=num_tokens))
    bins = first_fit_decreasing([segment.num_tokens for segment in segments], capacity=tokens_per_pack)
    packs = tuple(_pack([segments[i] for i in members], groups, first_sequence) for members in bins)
    return Batch(packs=packs, num_groups=len(groups), num_sequences=int(first_sequence[-1]))


def first_fit_decreasing(sizes: Sequence[int], *, capacity: int) -> list[list[int]]:
    """Indices of the sizes, by bin; within a bin and among bins (by first member) in the given order.

    >>> first_fit_decreasing([2, 5, 3, 9, 4], capacity=7)
    [[0, 1], [2, 4], [3]]
    """
    bins: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        found = next((b for b, free in enumerate(room) if free >= sizes[index]), None)
        if found is None:
            bins.append([index])
            room.append(capacity - sizes[index])
        else:
            bins[found].append(index)
            room[found] -= sizes[index]
    return sorted(sorted(members) for members in bins)


def _check(group: Group) -> None:
    num = len(group.rollouts)
    if len(group.advantages) != num or len(group.weights) != num:
        raise ValueError(
            f"sample {group.prompt.sample.id}: {num} rollouts, but {len(group.advantages)} advantages "
            f"and {len(group.weights)} weights"
        )
    for index, rollout in enumerate(group.rollouts):
        if rollout.logprobs is not None and len(rollout.logprobs) != len(rollout.token_ids):
            raise ValueError(
                f"sample {group.prompt.sample.id}: rollout {index} has {len(rollout.token_ids)} tokens, "
                f"but {len(rollout.logprobs)} log-probs"
            )


def _pack(segments: Sequence[Segment], groups: Sequence[Group], first_sequence: np.ndarray) -> Pack:
    ids, positions, predictors, layouts = [], [], [], []
    start = 0
    for segment in segments:
        prompt = groups[segment.group].prompt
        responses = [groups[segment.group].rollouts[i].token_ids for i in segment.rollouts]
        lengths = [len(response) for response in responses]
        ids += [prompt.input_ids, *(np.asarray(response, dtype=np.int64) for response in responses)]
        positions += [prompt.position_ids, *(_response_positions(prompt, length) for length in lengths)]
        response_start = start + len(prompt)
        for length in lengths:
            # The first token of every response is predicted by the last one of the prompt.
            predictors += [[start + len(prompt) - 1], np.arange(response_start, response_start + length - 1)]
            response_start += length
        layouts.append(lay_out(len(prompt), lengths))
        start += segment.num_tokens
    return Pack(
        input_ids=torch.from_numpy(np.concatenate(ids).astype(np.int64))[None],
        position_ids=torch.from_numpy(np.concatenate(positions, axis=1).astype(np.int64))[:, None],
        layout=PackLayout(groups=tuple(layouts)),
        segments=tuple(segments),
        predictors=torch.from_numpy(np.concatenate(predictors).astype(np.int64)),
        tokens=_tokens(segments, groups, first_sequence),
    )


def _response_positions(prompt: Prompt, length: int) -> np.ndarray:
    """int64 [3, length]: text positions, the same on all axes, going on from the prompt's."""
    return np.broadcast_to(np.arange(prompt.next_position, prompt.next_position + length), (3, length))


def _tokens(segments: Sequence[Segment], groups: Sequence[Group], first_sequence: np.ndarray) -> ResponseTokens:
    places = [(segment.group, i) for segment in segments for i in segment.rollouts]
    rollouts = [groups[g].rollouts[i] for g, i in places]
    repeats = torch.tensor([len(rollout.token_ids) for rollout in rollouts])
    logprobs = [
        np.full(len(rollout.token_ids), np.nan) if rollout.logprobs is None else np.asarray(rollout.logprobs)
        for rollout in rollouts
    ]

    def spread(values: list, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).repeat_interleave(repeats)

    return ResponseTokens(
        token_ids=torch.tensor([token for rollout in rollouts for token in rollout.token_ids], dtype=torch.int64),
        sampler_logprobs=torch.from_numpy(np.concatenate(logprobs).astype(np.float32)),
        advantages=spread([groups[g].advantages[i] for g, i in places], torch.float32),
        weights=spread([groups[g].weights[i] for g, i in places], torch.float32),
        sequence=spread([int(first_sequence[g]) + i for g, i in places], torch.int64),
        group=spread([g for g, _ in places], torch.int64),
        is_offline=spread([rollout.source == "offline" for rollout in rollouts], torch.bool),
    )
