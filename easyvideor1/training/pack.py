"""Groups -> packs without padding, ready for the model.

A pack is a list of segments `[prompt | responses]`: with a shared prefix a segment is a group, or as many of its
rollouts as fit; without it is one rollout. Everything after packing is the same code. Everything about response tokens
is flat, [N], in one order: segments as they stand in the pack, rollouts of a segment in order, tokens in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
import torch

from easyvideor1.errors import UsageError
from easyvideor1.training.bins import fewest_bins, first_fit_decreasing
from easyvideor1.training.layout import GroupLayout, PackLayout
from easyvideor1.types import Group, Prompt, Rollout, Sample, StopReason

PackForm = Literal["shared", "separate", "padded"]
"""shared: each prompt once, with its responses after it; separate: a prompt and one response after another; padded:
these sequences side by side in an ordinary batch, for models in which one sequence would run on into the next."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ResponseTokens:
    """The facts about each response token of a pack, [N] each."""

    token_ids: torch.Tensor
    """int64."""
    sampler_logprobs: torch.Tensor
    """float32; NaN where unknown (offline)."""
    advantages: torch.Tensor
    """float32; that of the rollout, or with a value head each token's own."""
    returns: torch.Tensor
    """float32; target of the value of the state before the token; NaN without a value head."""
    old_values: torch.Tensor
    """float32; that value before the update; NaN without a value head."""
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
    start: int
    """Place of its first token in the flattened ids of the pack."""
    num_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pack:
    """Segments one after another, or side by side in a padded batch: one forward of the model."""

    input_ids: torch.Tensor
    """int64 [1, L], or [B, L] with a segment per sequence, padded on the right."""
    position_ids: torch.Tensor
    """int64 [3, B, L]: time, height, width."""
    layout: PackLayout | None
    """None: an ordinary causal batch."""
    segments: tuple[Segment, ...]
    predictors: torch.Tensor
    """int64 [N]: where in the flattened pack the token before each response token stands, whose output predicts it."""
    tokens: ResponseTokens

    @property
    def num_tokens(self) -> int:
        return self.input_ids.numel()

    def to(self, device: torch.device | str) -> Pack:
        return Pack(
            input_ids=self.input_ids.to(device),
            position_ids=self.position_ids.to(device),
            layout=None if self.layout is None else self.layout.to(device),
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
    """Rollouts, those that are in no pack included."""

    @property
    def num_response_tokens(self) -> int:
        return sum(len(pack.tokens) for pack in self.packs)

    @property
    def num_tokens(self) -> int:
        """Tokens the model computes."""
        return sum(pack.num_tokens for pack in self.packs)


def pack_groups(
    groups: Sequence[Group],
    *,
    tokens_per_pack: int,
    form: PackForm = "shared",
    chosen: Sequence[Sequence[int]] | None = None,
) -> Batch:
    """Put groups into packs of at most `tokens_per_pack` tokens.

    A group whose rollouts do not fit is cut into the fewest segments that do; segments are put together first-fit
    decreasing. A pure function of its arguments. Rollouts without a token are counted but not packed.

    Args:
        groups: with advantages and weights, one per rollout.
        tokens_per_pack: bound on the tokens of a forward, which its activation memory follows.
        form: see PackForm.
        chosen: indices of the rollouts to pack, per group; None: all.

    Raises:
        UsageError: a prompt with a single response is over the bound; names the sample.
        ValueError: a group whose advantages, weights or sampler log-probs do not match its rollouts.
    """
    first_sequence = np.cumsum([0, *(len(group.rollouts) for group in groups)])
    pieces: list[_Piece] = []
    bins: list[list[_Piece]] = []
    for index, group in enumerate(groups):
        _check(group)
        wanted = range(len(group.rollouts)) if chosen is None else chosen[index]
        filled = [i for i in wanted if group.rollouts[i].token_ids]
        sizes = [len(group.rollouts[i].token_ids) for i in filled]
        _check_bound(group, sizes, tokens_per_pack)
        if form == "padded":
            bins += _padded(index, filled, sizes, num_prompt=len(group.prompt), capacity=tokens_per_pack)
        elif form == "separate":
            pieces += [_Piece(index, (i,), len(group.prompt) + size) for i, size in zip(filled, sizes, strict=True)]
        else:
            for members in fewest_bins(sizes, capacity=tokens_per_pack - len(group.prompt)):
                num_tokens = len(group.prompt) + sum(sizes[place] for place in members)
                pieces.append(_Piece(index, tuple(filled[place] for place in members), num_tokens))
    for members in first_fit_decreasing([piece.num_tokens for piece in pieces], capacity=tokens_per_pack):
        bins.append([pieces[i] for i in members])
    packs = tuple(_pack(members, groups, first_sequence, is_padded=form == "padded") for members in bins)
    return Batch(packs=packs, num_groups=len(groups), num_sequences=int(first_sequence[-1]))


def blank_pack(form: PackForm, *, num_tokens: int = 2) -> Pack:
    """A pack of a prompt of text tokens and one response token without a loss weight.

    A rank that has fewer packs than others computes it instead, so that all make the same collectives.

    Args:
        num_tokens: at least 2.
    """
    num_prompt = num_tokens - 1
    prompt = Prompt(
        sample=Sample(id="blank", problem_type="", problem="", gold=""),
        text="",
        input_ids=np.zeros(num_prompt, dtype=np.int64),
        token_types=np.zeros(num_prompt, dtype=np.int64),
        position_ids=np.broadcast_to(np.arange(num_prompt), (3, num_prompt)),
        plans=(),
    )
    rollout = Rollout(token_ids=(0,), text="", logprobs=None, stop_reason=StopReason.LENGTH)
    group = Group(prompt=prompt, rollouts=(rollout,), advantages=(0.0,), weights=(0.0,))
    [pack] = pack_groups([group], tokens_per_pack=num_tokens, form=form).packs
    return pack


class _Piece(NamedTuple):
    """A segment before it has a place."""

    group: int
    rollouts: tuple[int, ...]
    num_tokens: int


def _padded(
    index: int, filled: Sequence[int], sizes: Sequence[int], *, num_prompt: int, capacity: int
) -> list[list[_Piece]]:
    """The rollouts of a group in batches whose sequences, all padded to the longest, hold at most `capacity` tokens."""
    batches: list[list[_Piece]] = []
    for size, i in sorted(zip(sizes, filled, strict=True), key=lambda pair: (-pair[0], pair[1])):
        if not batches or (len(batches[-1]) + 1) * batches[-1][0].num_tokens > capacity:
            batches.append([])
        batches[-1].append(_Piece(index, (i,), num_prompt + size))
    return [sorted(batch, key=lambda piece: piece.rollouts) for batch in batches]


def _check_bound(group: Group, sizes: Sequence[int], tokens_per_pack: int) -> None:
    longest = max(sizes, default=0)
    if sizes and len(group.prompt) + longest > tokens_per_pack:
        raise UsageError(
            f"sample {group.prompt.sample.id}: its prompt of {len(group.prompt)} tokens with a response of {longest} "
            f"is more than train.tokens_per_pack={tokens_per_pack}; set it to data.max_prompt_tokens + "
            "rollout.max_response_tokens or more (memory grows with it), or lower those"
        )


def _check(group: Group) -> None:
    num = len(group.rollouts)
    if len(group.advantages) != num or len(group.weights) != num:
        raise ValueError(
            f"sample {group.prompt.sample.id}: {num} rollouts, but {len(group.advantages)} advantages "
            f"and {len(group.weights)} weights"
        )
    if group.tokens and [len(item.values) for item in group.tokens] != [len(item.token_ids) for item in group.rollouts]:
        raise ValueError(f"sample {group.prompt.sample.id}: the credit of its tokens is not that of its rollouts")
    for index, rollout in enumerate(group.rollouts):
        if rollout.logprobs is not None and len(rollout.logprobs) != len(rollout.token_ids):
            raise ValueError(
                f"sample {group.prompt.sample.id}: rollout {index} has {len(rollout.token_ids)} tokens, "
                f"but {len(rollout.logprobs)} log-probs"
            )


def _pack(pieces: Sequence[_Piece], groups: Sequence[Group], first_sequence: np.ndarray, *, is_padded: bool) -> Pack:
    row_length = max(piece.num_tokens for piece in pieces)
    segments, ids, positions, predictors, layouts = [], [], [], [], []
    start = 0
    for piece in pieces:
        prompt = groups[piece.group].prompt
        responses = [groups[piece.group].rollouts[i].token_ids for i in piece.rollouts]
        lengths = tuple(len(response) for response in responses)
        segments.append(
            Segment(
                group=piece.group,
                rollouts=piece.rollouts,
                sample_id=prompt.sample.id,
                start=start,
                num_tokens=piece.num_tokens,
            )
        )
        ids += [prompt.input_ids, *(np.asarray(response, dtype=np.int64) for response in responses)]
        positions += [prompt.position_ids, *(_response_positions(prompt, length) for length in lengths)]
        response_start = start + len(prompt)
        for length in lengths:
            # The first token of every response is predicted by the last one of the prompt.
            predictors += [[start + len(prompt) - 1], np.arange(response_start, response_start + length - 1)]
            response_start += length
        layouts.append(GroupLayout(num_prompt=len(prompt), lengths=lengths))
        start += piece.num_tokens
        if is_padded:
            # Nothing looks at what comes after a response; its last token is no vision token.
            missing = row_length - piece.num_tokens
            ids.append(np.full(missing, responses[-1][-1], dtype=np.int64))
            positions.append(np.zeros((3, missing), dtype=np.int64))
            start += missing
    num_rows = len(pieces) if is_padded else 1
    return Pack(
        input_ids=torch.from_numpy(np.concatenate(ids).astype(np.int64)).view(num_rows, -1),
        position_ids=torch.from_numpy(np.concatenate(positions, axis=1).astype(np.int64)).view(3, num_rows, -1),
        layout=None if is_padded else PackLayout.of(layouts),
        segments=tuple(segments),
        predictors=torch.from_numpy(np.concatenate(predictors).astype(np.int64)),
        tokens=_tokens(pieces, groups, first_sequence),
    )


def _response_positions(prompt: Prompt, length: int) -> np.ndarray:
    """int64 [3, length]: text positions, the same on all axes, going on from the prompt's."""
    return np.broadcast_to(np.arange(prompt.next_position, prompt.next_position + length), (3, length))


def _tokens(pieces: Sequence[_Piece], groups: Sequence[Group], first_sequence: np.ndarray) -> ResponseTokens:
    places = [(piece.group, i) for piece in pieces for i in piece.rollouts]
    rollouts = [groups[g].rollouts[i] for g, i in places]
    repeats = torch.tensor([len(rollout.token_ids) for rollout in rollouts])
    logprobs = [
        np.full(len(rollout.token_ids), np.nan) if rollout.logprobs is None else np.asarray(rollout.logprobs)
        for rollout in rollouts
    ]

    def spread(values: list, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).repeat_interleave(repeats)

    unknown = torch.full((int(repeats.sum()),), torch.nan)
    credit = {
        "advantages": spread([groups[g].advantages[i] for g, i in places], torch.float32),
        "returns": unknown,
        "old_values": unknown,
    }
    if groups[places[0][0]].tokens:  # then those of all groups
        credits = [groups[g].tokens[i] for g, i in places]
        credit = {
            "advantages": _joined([item.advantages for item in credits]),
            "returns": _joined([item.returns for item in credits]),
            "old_values": _joined([item.values for item in credits]),
        }
    return ResponseTokens(
        token_ids=torch.tensor([token for rollout in rollouts for token in rollout.token_ids], dtype=torch.int64),
        sampler_logprobs=_joined(logprobs),
        **credit,
        weights=spread([groups[g].weights[i] for g, i in places], torch.float32),
        sequence=spread([int(first_sequence[g]) + i for g, i in places], torch.int64),
        group=spread([g for g, _ in places], torch.int64),
        is_offline=spread([rollout.source == "offline" for rollout in rollouts], torch.bool),
    )


def _joined(values: Sequence[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(values).astype(np.float32))
