"""What is known of each token of the rollouts before an update, for algorithms whose credit asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from easyvideor1.algo.gae import PerToken
from easyvideor1.training.pack import Pack
from easyvideor1.types import Group

OfRollouts = dict[tuple[int, int], np.ndarray]
"""(index of a group, of a rollout in it) -> float32 [L]."""


@dataclass(frozen=True, kw_only=True)
class TokenFacts:
    """What is known of the tokens of all rollouts of a step, the same on every rank."""

    kl: PerToken | None
    """KL from the reference in nats, where it is part of the reward."""
    values: PerToken | None
    """Value of the state before each token, where there is a value head."""


def by_rollout(values_N: torch.Tensor, pack: Pack, groups: Sequence[Group]) -> OfRollouts:
    """Numbers of the response tokens of a pack, cut into its rollouts."""
    places = [(segment.group, index) for segment in pack.segments for index in segment.rollouts]
    lengths = [len(groups[group].rollouts[index].token_ids) for group, index in places]
    return dict(zip(places, np.split(values_N.cpu().numpy(), np.cumsum(lengths)[:-1]), strict=True))


def per_token(parts: Sequence[OfRollouts], groups: Sequence[Group]) -> PerToken:
    """The parts of all ranks put together, in the order of the groups; a rollout without a token has no numbers."""
    of_all = {place: values for part in parts for place, values in part.items()}
    nothing = np.zeros(0, dtype=np.float32)
    return [[of_all.get((g, i), nothing) for i in range(len(group.rollouts))] for g, group in enumerate(groups)]
