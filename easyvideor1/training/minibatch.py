"""The packs of one optimizer step: groups that can change the weights, and a count of those that cannot."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.credit import learning_rollouts, normalizer
from easyvideor1.model.vision import Media
from easyvideor1.training.costs import Share
from easyvideor1.training.pack import Batch, PackForm, pack_groups
from easyvideor1.types import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class Idle:
    """Rollouts that are counted but not computed, because their loss is always 0: mostly groups of equal rewards."""

    num_groups: int = 0
    """Groups of which no rollout is computed."""
    num_sampled_tokens: int = 0
    """Tokens with a loss weight, of the policy's rollouts."""
    num_offline_tokens: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Minibatch:
    batch: Batch
    """The rollouts that can move the weights, and that this rank computes."""
    media: Mapping[int, Media]
    """Index of a group in the batch -> what the vision tower is to look at, or saw."""
    normalizer: float
    """Divides the summed loss of all packs of all ranks (see algo.credit.normalizer); idle rollouts count in it."""
    idle: Idle
    """The idle rollouts of all ranks."""


def minibatches(
    groups: Sequence[Group],
    media: Callable[[int], Media],
    algorithm: Algorithm,
    *,
    num_updates: int,
    tokens_per_pack: int,
    form: PackForm,
    max_response_tokens: int,
    share: Share | None = None,
    begin: Callable[[int], object] = lambda index: None,
) -> list[Minibatch]:
    """The groups of a step dealt evenly to its optimizer steps, in order; too few groups make fewer steps. The work of
    an optimizer step is dealt to the ranks by its cost.

    Args:
        groups: of all ranks, with advantages and weights.
        media: index of a group -> its media; asked only for groups that this rank computes.
        share: what this rank computes; None: everything.
        begin: told the index of each group whose media will be asked for, before any of them is.

    Raises:
        UsageError: a prompt with a single response is over `tokens_per_pack`.
    """
    num_updates = max(1, min(num_updates, len(groups)))
    edges = [index * len(groups) // num_updates for index in range(num_updates + 1)]
    parts = [groups[start:end] for start, end in itertools.pairwise(edges)]
    chosen = [[learning_rollouts(group, algorithm) for group in part] for part in parts]
    owns = [
        of_part if share is None else share.of(part, of_part, form=form)
        for part, of_part in zip(parts, chosen, strict=True)
    ]
    for index, of_group in enumerate(itertools.chain.from_iterable(owns)):
        if of_group:
            begin(index)
    return [
        Minibatch(
            batch=pack_groups(part, tokens_per_pack=tokens_per_pack, form=form, chosen=own),
            media={index: media(start + index) for index, of_group in enumerate(own) if of_group},
            normalizer=normalizer(part, algorithm, max_response_tokens=max_response_tokens),
            idle=_idle(part, of_part),
        )
        for start, part, of_part, own in zip(edges, parts, chosen, owns, strict=False)
    ]


def _idle(groups: Sequence[Group], chosen: Sequence[Sequence[int]]) -> Idle:
    tokens = {"policy": 0, "offline": 0}
    for group, of_group in zip(groups, chosen, strict=True):
        for index, (rollout, weight) in enumerate(zip(group.rollouts, group.weights, strict=True)):
            if weight != 0 and index not in of_group:
                tokens[rollout.source] += len(rollout.token_ids)
    return Idle(
        num_groups=sum(not of_group for of_group in chosen),
        num_sampled_tokens=tokens["policy"],
        num_offline_tokens=tokens["offline"],
    )
