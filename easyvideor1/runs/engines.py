"""The rollout engine that a recipe asks for, opened and closed in one place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from easyvideor1.config import RunConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.errors import UsageError
from easyvideor1.model.weights import checkpoint_tensors
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.vllm.colocated import colocated_engine
from easyvideor1.rollout.vllm.launch import started_servers
from easyvideor1.rollout.vllm.servers import ServersEngine
from easyvideor1.runs.models import Models
from easyvideor1.runs.parts import Parts
from easyvideor1.runs.starting_model import load_model, model_files, trained_model
from easyvideor1.training.agreement import AgreeingEngine, mean_gap_limit
from easyvideor1.training.policy import Policy
from easyvideor1.training.shared_prefix import pack_form


@contextmanager
def engine_alone(config: RunConfig, parts: Parts) -> Iterator[Engine]:
    """An engine over the configured model, for runs that do not train it."""
    rollout = config.rollout
    if rollout.engine == "hf":
        yield HFEngine(load_model(config.model), parts.encoder, tokens_per_batch=rollout.tokens_per_batch)
    else:
        with _vllm_engine(config, parts) as engine:
            if trained_model(config.model.path):
                engine.load_weights(checkpoint_tensors(load_model(config.model)), version=0)
            yield engine


@contextmanager
def engine_of_policy(config: RunConfig, parts: Parts, policy: Policy, models: Models) -> Iterator[Engine]:
    """An engine that samples from a policy in training; one with weights of its own is compared with it.

    Raises:
        UsageError: vLLM is asked for in a run of several ranks.
    """
    rollout, model = config.rollout, policy.model
    if rollout.engine == "hf":
        yield models.engine(policy, parts.encoder, tokens_per_batch=rollout.tokens_per_batch)
        return
    if policy.ranks.size > 1:
        raise UsageError(
            f"rollout.engine={rollout.engine} works in a run of one process, this one has {policy.ranks.size} ranks; "
            "use rollout.engine=hf"
        )
    with _vllm_engine(config, parts) as engine:
        yield AgreeingEngine(
            engine,
            model,
            max_mean_gap=mean_gap_limit(model.dtype, rollout.vllm.max_logprob_gap),
            check_every=rollout.vllm.check_every,
            tokens_per_pack=config.train.tokens_per_pack,
            form=lambda: pack_form(model, shared=config.train.shared_prefix),
            overlaps=config.train.async_level > 0,
        )


@contextmanager
def _vllm_engine(config: RunConfig, parts: Parts) -> Iterator[Engine]:
    model = model_files(config.model.path)
    if config.rollout.engine == "vllm":
        yield colocated_engine(config, parts.encoder, folder=model)
        return
    vllm, out = config.rollout.vllm, Path(config.out)
    with ExitStack() as stack:
        addresses: Sequence[str] = vllm.servers
        if vllm.start_servers:
            recipe = out / "servers" / "recipe.yaml"
            recipe.parent.mkdir(parents=True, exist_ok=True)
            recipe.write_text(yaml.safe_dump(to_tree(config), sort_keys=False))
            addresses = stack.enter_context(
                started_servers(vllm.start_servers, recipe=recipe, model=model, logs=recipe.parent)
            )
        weights = Path(vllm.weights_dir) if vllm.weights_dir else out / "weights"
        stack.callback(shutil.rmtree, weights, ignore_errors=True)  # a copy of what the checkpoints hold
        yield ServersEngine(
            addresses,
            weights_dir=weights.resolve(),
            tokens_per_batch=config.rollout.tokens_per_batch,
            deadline_s=vllm.deadline_s,
            retries=vllm.retries,
        )
