"""The models of a training run: the policy, its reference and what samples, on one process or sharded over ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.config import RunConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.model import lora
from easyvideor1.model.families import vision_tower
from easyvideor1.model.load import device, load_skeleton, require_trainable
from easyvideor1.model.weights import copy_weights
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.starting_model import load_model, model_files, stored_model
from easyvideor1.training import checkpoint, sequence, shared_prefix
from easyvideor1.training.forward import PackForward
from easyvideor1.training.health import require_finite
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.reference import Reference, reference_of
from easyvideor1.training.value_head import value_head_of


@dataclass(frozen=True, kw_only=True)
class Models:
    """What is loaded for a run."""

    policy: PackForward
    reference: Reference | None
    sampler: PreTrainedModel | None
    """A whole copy of the policy to sample from, where its own weights are sharded or learn meanwhile; None: the policy
    itself, or an engine with weights of its own."""
    overlaps: bool
    """The sampler samples while the policy trains, so they must share nothing."""

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


def load_models(config: RunConfig, ranks: Ranks, *, algorithm: Algorithm, resume_from: Path | None) -> Models:
    """Load the models of a run, the policy with the weights of a checkpoint, which are read straight into it.

    With several ranks the weights are sharded in float32 (see `sharded`), and each rank reads its part of them. Where
    Transformers samples, every rank has a whole copy too, in the type that the model computes in: sampling a token
    would else gather the whole model each time. Where sampling and learning overlap, there is such a copy too.

    Args:
        resume_from: the checkpoint to go on from; None: the run begins.

    Raises:
        UsageError: a model cannot be read.
        RunError: a weight that the policy begins with is no number.
    """
    with ranks.agree("model to train"):
        require_trainable(model_files(config.model.path))
    group = sequence.join(ranks, config.parallel)
    load = partial(_sharded, group=group) if ranks.size > 1 else _whole
    stored = checkpoint.weights_folder(resume_from) if resume_from else None
    policy = load(config, ranks, weights=stored, trained_by=algorithm)
    with ranks.agree("weights to begin with"):
        if resume_from and lora.has_adapters(policy.model):
            lora.load_adapters(policy.model, resume_from)
        if resume_from and policy.value_head is not None:
            checkpoint.load_value_head(resume_from, policy.value_head)
        require_finite(policy.model, where=str(resume_from or config.model.path))
    reference = None
    if algorithm.needs_reference and config.model.lora is None:
        base = load(config, ranks)
        reference = reference_of(policy, base=lambda: base)
    elif algorithm.needs_reference:
        reference = reference_of(policy)
    return Models(policy=policy, reference=reference, sampler=_sampler(config, ranks), overlaps=config.train.overlaps)


def _sampler(config: RunConfig, ranks: Ranks) -> PreTrainedModel | None:
    if config.rollout.engine != "hf" or not (ranks.size > 1 or config.train.overlaps):
        return None
    with ranks.agree("model to sample from"):
        plain = replace(config.model, lora=None, gradient_checkpointing=False)
        return _ready(load_model(plain)).requires_grad_(False)


def _whole(
    config: RunConfig, ranks: Ranks, *, weights: Path | None = None, trained_by: Algorithm | None = None
) -> PackForward:
    """The configured model of the only process; see `_sharded`."""
    return _forward(_ready(load_model(config.model, weights=weights)), trained_by)


def _sharded(
    config: RunConfig,
    ranks: Ranks,
    *,
    group: sequence.SequenceGroup,
    weights: Path | None = None,
    trained_by: Algorithm | None = None,
) -> PackForward:
    """The configured model, of which each rank holds its part.

    Args:
        group: the ranks that compute each pack together.
        weights: folder of a model of the same shape whose weights to take; None: those of `model.path`.
        trained_by: None: no weight is.
    """
    from easyvideor1.training.sharded import read_weights, shard

    with ranks.agree("form of the model"):
        stored = stored_model(config.model, weights=weights)
        model = _ready(load_skeleton(replace(config.model, dtype="float32"), stored))
        sequence.require_divisible(model, group.size)
        forward = _forward(model, trained_by, device=device(), group=group)
    shard(forward, config.parallel, ranks=ranks, dtype=getattr(torch, config.model.dtype))
    with ranks.agree("weights of the model"):
        read_weights(forward, stored, config.parallel)
    return forward


def _forward(
    model: PreTrainedModel,
    trained_by: Algorithm | None,
    *,
    device: torch.device | None = None,
    group: sequence.SequenceGroup | None = None,
) -> PackForward:
    if trained_by is None:
        return PackForward(model.requires_grad_(False).eval(), device=device, sequence=group)
    return PackForward(model, device=device, sequence=group, value_head=value_head_of(model, trained_by))


def _ready(model: PreTrainedModel) -> PreTrainedModel:
    shared_prefix.enable(model)
    return model
