"""The groups of a step with their credit, and what the policy has to be asked for it before the update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.carried import Carried
from easyvideor1.algo.credit import with_credit
from easyvideor1.algo.gae import explained_variance, with_token_credit
from easyvideor1.model.vision import Media
from easyvideor1.records.tally import Tally
from easyvideor1.training.collect import Collected
from easyvideor1.training.pack import PackForm
from easyvideor1.training.policy import Policy
from easyvideor1.training.token_facts import TokenFacts
from easyvideor1.types import Group


def credited(
    collected: Collected,
    algorithm: Algorithm,
    *,
    policy: Policy,
    media: Callable[[int], Media],
    carried: Carried,
    part_weights: Mapping[str, float],
    tokens_per_pack: int,
    form: PackForm,
    tally: Tally,
) -> list[Group]:
    """The groups with advantages and weights; the same on all ranks.

    Args:
        media: index of a group -> its media, see `Policy.token_facts`.
        carried: what the algorithm remembers of the steps before.
        tally: gets the KL in the reward, and how good the values were.
    """
    groups = collected.groups
    facts = TokenFacts(kl=None, values=None)
    if algorithm.needs_values or (algorithm.needs_reference and algorithm.kl_in == "reward"):
        facts = policy.token_facts(
            groups,
            media,
            tokens_per_pack=tokens_per_pack,
            form=form,
        )
    kl = None
    if facts.kl is not None:
        kl = [[float(kl_L.sum(dtype=np.float64)) for kl_L in of_group] for of_group in facts.kl]
        num_tokens = sum(len(rollout.token_ids) for group in groups for rollout in group.rollouts)
        tally.add("reward/kl_ref", total=sum(map(sum, kl)), count=num_tokens)
    if facts.values is not None:
        groups = with_token_credit(
            groups, algorithm, values=facts.values, kl=facts.kl, kl_coef=carried.coef_of(algorithm)
        )
        _add_values(tally, groups)
        return groups
    return with_credit(
        groups,
        algorithm,
        part_weights=part_weights,
        greedy_scores=collected.greedy_scores,
        kl=kl,
        carried=carried,
    )


def _add_values(tally: Tally, groups: list[Group]) -> None:
    """Add the means of values and returns over the tokens that train, and the explained variance."""
    for group in groups:
        for credit, weight in zip(group.tokens, group.weights, strict=True):
            if weight != 0:
                tally.add("value/mean", total=float(credit.values.sum()), count=len(credit.values))
                tally.add("value/return_mean", total=float(credit.returns.sum()), count=len(credit.returns))
    explained = explained_variance(groups)
    if not math.isnan(explained):
        tally.add("value/explained_variance", total=explained)
