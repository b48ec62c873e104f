"""The vision tokens of a pack that several ranks compute together: each makes a share, and gets those of its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from easyvideor1.model.families import vision_tower
from easyvideor1.model.vision import KINDS, Features, Media, Seen, VisionTokens, num_tokens, see, shares_of
from easyvideor1.training.pack import Pack
from easyvideor1.training.sequence import SequenceGroup

Dealt = Mapping[str, Mapping[int, tuple[int, ...]]]
"""Kind -> index of a group -> vision tokens that each rank makes of it, the first ones the first rank."""


def placed_tokens(
    model: Any, pack: Pack, media: Mapping[int, Media], sequence: SequenceGroup
) -> tuple[Seen, torch.Tensor]:
    """What belongs to this rank's tokens of a pack, by one call of the tower on each rank over its share.

    Vision tokens are numbered by kind, then by group, then in order; those of a group are where its segments are.

    Args:
        media: index of a group -> its media; all whole, or all shares of this rank (`Seen.dealt`).

    Returns:
        The tokens of each kind, in the pack's order; and a zero for ranks that have none, to be added to something, so
        that the backward goes through what the others wait for.
    """
    seen = {group: item for group, item in media.items() if isinstance(item, Seen)}
    if seen:
        assert len(seen) == len(media), "a tower is frozen for all groups of a pack or for none"
        dealt: Dealt = {kind: {group: _shares(item, kind) for group, item in seen.items()} for kind in KINDS}
        made = _joined(model, list(seen.values()))
    else:
        whole = {group: item for group, item in media.items() if not isinstance(item, Seen)}
        shares = shares_of(list(whole.values()), size=sequence.size)
        dealt = {kind: _counts(model, shares, list(whole), grid) for kind, (_, grid) in KINDS.items()}
        made = see(model, shares[sequence.rank])
    wanted, kinds = _wanted(model, pack, dealt, sequence)
    columns = [made.first.shape[-1], *(level.shape[-1] for level in made.levels)]
    rows = torch.cat([made.first, *made.levels], -1)
    got = sequence.fetch(rows, held=_held(dealt, sequence.size), wanted=wanted)
    first, *levels = got.split(columns, -1)
    tokens = VisionTokens(first=first, levels=tuple(levels))
    pieces = tokens.split([kinds[kind] for kind in KINDS])
    by_kind = {kind: piece for kind, piece in zip(KINDS, pieces, strict=True) if len(piece)}
    return Seen(by_kind=by_kind), tokens.zero


def _shares(seen: Seen, kind: str) -> tuple[int, ...]:
    assert seen.dealt is not None or not seen.by_kind, "what was seen as a whole is not for several ranks"
    return () if seen.dealt is None else seen.dealt.get(kind, ())


def _counts(
    model: Any, shares: Sequence[Sequence[Features]], groups: Sequence[int], grid: str
) -> dict[int, tuple[int, ...]]:
    return {
        group: tuple(num_tokens(model, of_rank[place].get(grid)) for of_rank in shares)
        for place, group in enumerate(groups)
    }


def _joined(model: Any, seen: Sequence[Seen]) -> VisionTokens:
    """This rank's shares of what a frozen tower saw, images first."""
    found = [item.by_kind[kind] for kind in KINDS for item in seen if kind in item.by_kind]
    if not found:
        config = model.config.vision_config
        num_levels = len(getattr(config, "deepstack_visual_indexes", None) or ())
        empty = next(vision_tower(model).parameters()).new_empty(0, model.config.get_text_config().hidden_size)
        return VisionTokens(first=empty, levels=(empty,) * num_levels)
    firsts, levels = [tokens.first for tokens in found], zip(*(tokens.levels for tokens in found), strict=True)
    joined = VisionTokens(first=torch.cat(firsts), levels=tuple(torch.cat(level) for level in levels))
    return joined.to(vision_tower(model).device)


def _held(dealt: Dealt, size: int) -> list[torch.Tensor]:
    """Numbers of the vision tokens that each rank makes, in the order in which it has them."""
    held: list[list[torch.Tensor]] = [[torch.empty(0, dtype=torch.int64)] for _ in range(size)]
    start = 0
    for of_kind in dealt.values():
        for counts in of_kind.values():
            for of_rank, count in zip(held, counts, strict=False):
                of_rank.append(torch.arange(start, start + count))
                start += count
    return [torch.cat(of_rank) for of_rank in held]


def _wanted(model: Any, pack: Pack, dealt: Dealt, sequence: SequenceGroup) -> tuple[list[torch.Tensor], dict[str, int]]:
    """Numbers of the vision tokens that each rank's tokens need; and how many this one's do, by kind."""
    config = model.config
    ids = pack.input_ids.flatten().cpu()
    parts = sequence.dealt(len(ids))
    wanted: list[list[torch.Tensor]] = [[] for _ in parts]
    own = {}
    start = 0
    for kind, marker in zip(KINDS, (config.image_token_id, config.video_token_id), strict=True):
        numbers = {}
        for group, counts in dealt[kind].items():
            numbers[group] = torch.arange(start, start + sum(counts))
            start += sum(counts)
        by_token = torch.cat([numbers[segment.group] for segment in pack.segments])
        places = torch.nonzero(ids == marker).squeeze(1)
        edges = torch.searchsorted(places, torch.tensor([part.stop for part in parts])).tolist()
        pieces = by_token.tensor_split(edges[:-1])
        for of_rank, piece in zip(wanted, pieces, strict=True):
            of_rank.append(piece)
        own[kind] = len(pieces[sequence.rank])
    return [torch.cat(of_rank) for of_rank in wanted], own
