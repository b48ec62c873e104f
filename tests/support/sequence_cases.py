"""Packs that several ranks compute together, for tests/training/test_sequence.py.

Everything here is called in the test's own process, which is the reference, and in several processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from easyvideor1.config import ParallelConfig
from easyvideor1.model.vision import Media
from easyvideor1.training.pack import blank_pack, pack_groups
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks, joined
from easyvideor1.types import Example
from support.rank_training import Ran, Updated, cases_of, made_policy, run, updated
from support.tiny_models import Case

MIXED = ("text", "image", "video", "both")
Names = dict[str, dict[str, Any]]
UPDATES: Names = {
    "a pack each": {"tokens_per_pack": 40},
    "all in one pack": {},
    "a prompt for each response": {"shared": False},
}
"""How four groups, one of each kind, are packed."""
MODELS: Names = {
    "qwen2_5_vl, layers computed again": {"family": "qwen2_5_vl", "recomputes": True},
    "three key heads": {"heads": (6, 3)},
}
"""What differs from the usual model."""
RUNS = ("KL in the reward", "frozen tower")
MORE_MODELS: Names = {
    "qwen2_vl": {"family": "qwen2_vl"},
    "qwen3_vl_moe": {"family": "qwen3_vl_moe"},
    "one key head": {"heads": (4, 1)},
    "whole on every rank": {"shard": "none"},
    "a ratio of sequences": {"options": {"ratio": "sequence", "average": "sequence", "entropy_coef": 0.1}},
}
MORE_RUNS = (
    "several updates and a reference",
    "adapters",
    "KL over all words",
    "values",
    "few groups, refilled",
    "sampled ahead",
)
"""Those that take longer."""


@dataclass
class Together:
    """What packs came to."""

    logprobs: dict[str, torch.Tensor] = field(default_factory=dict)
    entropies: dict[str, torch.Tensor] = field(default_factory=dict)
    updates: dict[str, Updated] = field(default_factory=dict)
    runs: dict[str, Ran] = field(default_factory=dict)


def of_two(folder: Path, ranks: Ranks | None = None) -> Together:
    """Two ranks that compute all packs together."""
    if ranks is None:
        with joined(timeout_s=120) as ranks:
            return of_two(folder, ranks)
    found = Together()
    policy = policy_of(ranks, size=2)
    cases = cases_of(policy, MIXED)
    for name, options in UPDATES.items():
        if name != "a pack each":
            found.logprobs[name], found.entropies[name] = computed(policy, cases, shared=options.get("shared", True))
        found.updates[name] = updated(policy, cases, owners=[0] * len(cases), **options)
    name = "what a frozen tower saw"
    found.logprobs[name], found.entropies[name] = of_frozen_tower(policy_of(ranks, size=2, frozen=True), cases)
    return with_models_and_runs(found, folder, ranks, models=MODELS, runs=RUNS)


def of_two_more(folder: Path, ranks: Ranks | None = None) -> Together:
    """The same, what takes longer."""
    if ranks is None:
        with joined(timeout_s=120) as ranks:
            return of_two_more(folder, ranks)
    return with_models_and_runs(Together(), folder, ranks, models=MORE_MODELS, runs=MORE_RUNS)


def with_models_and_runs(
    found: Together, folder: Path, ranks: Ranks, *, models: Names, runs: Sequence[str]
) -> Together:
    for name, options in models.items():
        policy = policy_of(ranks, size=2, **options)
        found.updates[name] = updated(policy, cases_of(policy, ["text", "both"]), owners=[0, 0])
    for number, name in enumerate(runs):
        found.runs[name] = run(name, folder / str(number), ranks, "parallel.sequence=2")
    return found


def of_four(folder: Path, ranks: Ranks | None = None) -> Together:
    """Four ranks, in pairs, and all together: more than there are key heads, or tokens in the smallest pack."""
    if ranks is None:
        with joined(timeout_s=120) as ranks:
            return of_four(folder, ranks)
    found = Together()
    policy = policy_of(ranks, size=2)
    cases = cases_of(policy, MIXED)
    for name, owners in {"in pairs": [0, 1, 1, 0], "one pair has less": [0, 0, 0, 1], "one has none": [0] * 4}.items():
        found.updates[name] = updated(policy, cases, owners=owners, tokens_per_pack=40)
    policy = policy_of(ranks, size=4)
    found.updates["all together"] = updated(policy, cases, owners=[0] * 4)
    found.logprobs["the smallest pack"] = policy._forward(blank_pack("shared", num_tokens=4), {}).logprobs.detach()
    found.runs["frozen tower"] = run("frozen tower", folder / "frozen", ranks, "parallel.sequence=2")
    return found


def policy_of(ranks: Ranks, *, size: int, **options: Any) -> Policy:
    shard = options.pop("shard", "full")
    return made_policy(ranks, parallel=ParallelConfig(sequence=size, shard=shard), **options)


def of_frozen_tower(policy: Policy, cases: Sequence[Case]) -> tuple[torch.Tensor, torch.Tensor]:
    """See `computed`; each example is looked at by itself, and images of a pack lie with either rank."""
    with policy.tower.kept():
        examples = [Example(prompt=case.group.prompt, clips=(), features=case.features) for case in cases]
        media = {index: policy.tower.media(example) for index, example in enumerate(examples)}
        return computed(policy, cases, shared=True, media=media)


def computed(
    policy: Policy, cases: Sequence[Case], *, shared: bool, media: Mapping[int, Media] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs and entropies of one pack of groups.

    Args:
        media: None: their pixels.
    """
    groups = [case.group for case in cases]
    [pack] = pack_groups(groups, tokens_per_pack=1000, form="shared" if shared else "separate").packs
    media = media or {index: case.features for index, case in enumerate(cases)}
    with torch.no_grad():
        found = policy._forward(pack, media, with_entropy=True)
    policy._forward_of.rest()
    assert found.entropy is not None
    return found.logprobs, found.entropy
