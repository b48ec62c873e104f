"""The rollout engine that a recipe asks for, opened and closed in one place."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import torch

from easyvideor1.config import RunConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.config_yaml import dump_yaml
from easyvideor1.errors import UsageError
from easyvideor1.model.weights import checkpoint_tensors
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.vllm.arguments import Among
from easyvideor1.rollout.vllm.colocated import colocated_engine
from easyvideor1.rollout.vllm.launch import started_servers
from easyvideor1.rollout.vllm.servers import ServersEngine
from easyvideor1.runs.models import Models
from easyvideor1.runs.parts import Parts
from easyvideor1.runs.starting_model import load_model, model_files, trained_model
from easyvideor1.training.agreement import AgreeingEngine, mean_gap_limit
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.shared_prefix import pack_form


@contextmanager
def engine_alone(config: RunConfig, parts: Parts) -> Iterator[Engine]:
    """An engine over the configured model, for runs that do not train it."""
    rollout = config.rollout
    if rollout.engine == "hf":
        yield HFEngine(load_model(config.model), parts.encoder, tokens_per_batch=rollout.tokens_per_batch)
    else:
        with _vllm_engine(config, parts, Ranks()) as engine:
            if trained_model(config.model.path):
                engine.load_weights(checkpoint_tensors(load_model(config.model)), version=0)
            yield engine


@contextmanager
def engine_of_policy(config: RunConfig, parts: Parts, policy: Policy, models: Models) -> Iterator[Engine]:
    """An engine that samples from a policy in training; one with weights of its own is compared with it.

    Of several ranks each has one: over a copy of the model or by vLLM, in its own process; or over the servers of the
    run, which all ranks ask.

    Raises:
        UsageError: vLLM is missing or refuses the recipe; or servers are to be started where not all ranks reach them.
        RunError: no server is there, or one does not start.
    """
    rollout, overlaps = config.rollout, config.train.overlaps
    if rollout.engine == "hf":
        yield models.engine(policy, parts.encoder, tokens_per_batch=rollout.tokens_per_batch)
        return
    # Sampling beside an update runs in a thread of its own, so its gathers need a group of their own.
    ranks = policy.ranks.twin() if overlaps else policy.ranks
    with _vllm_engine(config, parts, ranks) as engine:
        yield AgreeingEngine(
            engine,
            models.policy,
            ranks=ranks,
            max_mean_gap=mean_gap_limit(getattr(torch, config.model.dtype), rollout.vllm.max_logprob_gap),
            check_every=rollout.vllm.check_every,
            tokens_per_pack=config.train.tokens_per_pack,
            form=lambda: pack_form(policy.model, shared=config.train.shared_prefix),
            overlaps=overlaps,
        )


@contextmanager
def _vllm_engine(config: RunConfig, parts: Parts, ranks: Ranks) -> Iterator[Engine]:
    model = model_files(config.model.path)
    if config.rollout.engine == "vllm":
        among = Among(rank=ranks.rank, timeout_s=config.parallel.timeout_s) if ranks.size > 1 else None
        with ranks.agree("engines"):  # vLLM gathers there too, within the same time
            engine = colocated_engine(config, parts.encoder, folder=model, among_ranks=among)
        yield engine
        return
    vllm = config.rollout.vllm
    weights = Path(vllm.weights_dir) if vllm.weights_dir else Path(config.out) / "weights"
    with ExitStack() as stack:
        with ranks.agree("servers"):
            addresses: Sequence[str] = ()
            if ranks.is_first:
                stack.callback(shutil.rmtree, weights, ignore_errors=True)  # a copy of what the checkpoints hold
                addresses = vllm.servers or stack.enter_context(_started(config, model, ranks))
        addresses, run = ranks.gather((addresses, uuid.uuid4().hex), of="servers")[0]
        with ranks.agree("health of the servers"):
            engine = ServersEngine(
                addresses,
                weights_dir=weights.resolve(),
                tokens_per_batch=config.rollout.tokens_per_batch,
                deadline_s=vllm.deadline_s,
                retries=vllm.retries,
                dtype=getattr(torch, config.model.dtype),
                rank=ranks.rank,
                num_ranks=ranks.size,
                run=run,
            )
        yield engine


def _started(config: RunConfig, model: Path, ranks: Ranks) -> AbstractContextManager[Sequence[str]]:
    """Servers on this machine for all ranks, which must be on it too."""
    if int(os.environ.get("LOCAL_WORLD_SIZE", ranks.size)) < ranks.size:
        raise UsageError(
            f"rollout.vllm.start_servers={config.rollout.vllm.start_servers} starts servers for the ranks of one "
            "machine, and this run has several; start the servers by themselves (docs/vllm.md) and name them in "
            "rollout.vllm.servers"
        )
    recipe = Path(config.out) / "servers" / "recipe.yaml"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    recipe.write_text(dump_yaml(to_tree(config)))
    return started_servers(config.rollout.vllm.start_servers, recipe=recipe, model=model, logs=recipe.parent)
