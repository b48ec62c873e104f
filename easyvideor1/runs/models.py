"""The models of a training run: the policy, its reference and what samples, on one process or sharded over ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import PreTrainedModel

from easyvideor1.config import RunConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.model import lora
from easyvideor1.model.families import vision_tower
from easyvideor1.model.weights import copy_weights
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.starting_model import load_model
from easyvideor1.training import checkpoint, shared_prefix
from easyvideor1.training.forward import PackForward
from easyvideor1.training.health import require_finite
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.reference import Reference, reference_of


@dataclass(frozen=True, kw_only=True)
class Models:
    """What is loaded for a run."""

    policy: PackForward
    reference: Reference | None
    sampler: PreTrainedModel | None
    """A whole copy of the policy to sample from, where its own weights are sharded or learn meanwhile; None: the policy
    itself."""
    overlaps: bool
    """The sampler samples while the policy learns, so they must share nothing."""

    def engine(self, policy: Policy, encoder: Encoder, *, tokens_per_batch: int) -> HFEngine:
        """An engine that samples with the weights of the policy."""
        if self.sampler is None:
            return HFEngine(policy.model, encoder, tokens_per_batch=tokens_per_batch, tower=policy.tower)
        sampler = self.sampler
        shares_tower = policy.tower.is_frozen and not self.overlaps
        if shares_tower:  # it is whole on every rank, and looks once for both
            sampler.model.visual = vision_tower(policy.model)
        return HFEngine(
            sampler,
            encoder,
            tokens_per_batch=tokens_per_batch,
            tower=policy.tower if shares_tower else None,
            take_over=lambda: copy_weights(policy.model, sampler),
        )


def load_models(config: RunConfig, ranks: Ranks, *, needs_reference: bool, resume_from: Path | None) -> Models:
    """Load the models of a run, the policy with the weights of a checkpoint, which are read straight into it.

    With several ranks the weights are sharded in float32 (see `sharded`), and every rank has a whole copy to sample
    from, in the type that the model computes in: sampling a token would else gather the whole model each time. Where
    sampling and learning overlap, there is such a copy too.

    Args:
        resume_from: the checkpoint to go on from; None: the run begins.

    Raises:
        RunError: a weight that the policy begins with is no number.
    """
    is_sharded = ranks.size > 1
    settings = replace(config.model, dtype="float32") if is_sharded else config.model
    weights = checkpoint.weights_folder(resume_from) if resume_from else None
    policy = PackForward(_ready(load_model(settings, weights=weights)))
    if resume_from and lora.has_adapters(policy.model):
        lora.load_adapters(policy.model, resume_from)
    require_finite(policy.model, where=str(resume_from or config.model.path))
    reference = None
    if needs_reference and config.model.lora is None:
        base = PackForward(_ready(load_model(settings)).requires_grad_(False).eval())
        reference = reference_of(policy, base=lambda: base)
        if is_sharded:
            _shard(base, config, ranks)
    elif needs_reference:
        reference = reference_of(policy)
    overlaps = config.train.async_level > 0
    needs_sampler = config.rollout.engine == "hf" and (is_sharded or overlaps)
    if is_sharded:
        _shard(policy, config, ranks)
    if not needs_sampler:
        return Models(policy=policy, reference=reference, sampler=None, overlaps=overlaps)
    plain = replace(config.model, lora=None, gradient_checkpointing=False)
    sampler = _ready(load_model(plain)).requires_grad_(False)
    return Models(policy=policy, reference=reference, sampler=sampler, overlaps=overlaps)


def _ready(model: PreTrainedModel) -> PreTrainedModel:
    shared_prefix.enable(model)
    return model


def _shard(forward: PackForward, config: RunConfig, ranks: Ranks) -> None:
    from easyvideor1.training.sharded import shard

    shard(forward, config.parallel, ranks=ranks, dtype=getattr(torch, config.model.dtype))
