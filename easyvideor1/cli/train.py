"""`easyvideor1 train RECIPE [a.b=c ..]`: put the parts of a run together and start or continue it."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml
from rich.console import Console
from rich.progress import track

from easyvideor1.algo.fit import fitting_recipe
from easyvideor1.algo.recipes import Recipe
from easyvideor1.config import RunConfig, SourceConfig, StopConfig, load_config
from easyvideor1.config_tree import to_tree
from easyvideor1.data.dataset import Preparer, mix_seed, usable
from easyvideor1.data.encode import Encoder
from easyvideor1.data.schema import read_samples
from easyvideor1.errors import DataError, EasyVideoError, UsageError
from easyvideor1.evals.validation import validate
from easyvideor1.report.folder import RunFolder
from easyvideor1.report.html import write_report
from easyvideor1.report.progress import open_progress
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.rollout.stored import (
    StoredRollouts,
    Trajectory,
    read_trajectories,
    sample_trajectories,
    stored_rollouts,
)
from easyvideor1.train import checkpoint
from easyvideor1.train.checkpoint import RunState
from easyvideor1.train.model import load_model
from easyvideor1.train.policy import Policy
from easyvideor1.train.reference import reference_of
from easyvideor1.train.trainer import Trainer
from easyvideor1.types import Answer, Sample
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.pool import DecodePool

log = logging.getLogger(__name__)
MAY_CHANGE_ON_RESUME = (
    "out",
    "train.steps",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    *(f"train.stop.{item.name}" for item in fields(StopConfig)),
)
"""What changes no number of a run, only where it ends and what is kept of it."""
VALIDATION_SEED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Train a model by a recipe (a YAML file; see recipes/). Any value can be overridden: "
        "easyvideor1 train recipes/demo.yaml out=runs/a optimizer.learning_rate=2e-6. "
        "Run the same command again to continue an interrupted run."
    )
    parser.add_argument("recipe", help="YAML file of the run")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="values that replace the recipe's")


def run(args: argparse.Namespace) -> int:
    config = load_config(args.recipe, args.overrides)
    train(config)
    print(f"report: {RunFolder(config.out).report}")
    return 0


def train(config: RunConfig) -> RunState:
    """Start the run of a configuration, or continue it from its newest checkpoint; writes the report at the end, also
    where an error ends the run early.

    Raises:
        UsageError: the folder holds a run of another configuration.
        DataError: a bad sample, where the recipe does not skip them.
        RunError: the run cannot go on.
    """
    transformers.logging.disable_progress_bar()
    folder = RunFolder(config.out)
    _check_same_run(folder, config)
    recipe = fitting_recipe(config)
    rewards = RewardPool.from_config(
        config.reward, thinking=config.data.thinking, max_response_tokens=config.rollout.max_response_tokens
    )
    with DecodePool(1, config.cache.deadline_s) as decoder, rewards:
        return _train(config, folder, recipe=recipe, decoder=decoder, rewards=rewards)


def _train(
    config: RunConfig, folder: RunFolder, *, recipe: Recipe, decoder: DecodePool, rewards: RewardPool
) -> RunState:
    encoder = Encoder.from_pretrained(config.model.path)
    preparer = Preparer(
        encoder,
        FrameCache.open(config.cache, decode=decoder.decode),
        video=config.data.video,
        image=config.data.image,
        thinking=config.data.thinking,
        templates=config.data.templates,
        max_prompt_tokens=config.data.max_prompt_tokens,
        dtype=getattr(torch, config.model.dtype),
        plan=decoder.plan,
    )

    def check(sample: Sample) -> None:
        rewards.check([sample])
        preparer.prompt(sample)

    samples = _load(config.data.train, config, check, folder)
    questions = _load(config.data.validation, config, check, folder) if config.data.validation else []
    folder.write_start(config)
    model = load_model(config.model)
    reference = reference_of(model) if recipe.needs_reference else None
    found = checkpoint.list_checkpoints(folder.path / "checkpoints")
    if found:
        checkpoint.load_weights(found[-1], model=model)
    policy = Policy(
        model,
        recipe=recipe,
        optimizer=config.optimizer,
        total_steps=config.train.steps,
        temperature=config.rollout.temperature,
        reference=reference,
    )
    progress = open_progress(
        title=Path(config.out).name,
        total_steps=config.train.steps,
        start_step=checkpoint.load_state(found[-1]).step if found else 0,
    )
    with _reported(folder), progress:

        def evaluate(engine: Engine) -> Sequence[Answer]:
            answers = validate(
                questions,
                prepare=preparer,
                on_bad=folder.note_bad if config.data.on_bad_sample == "skip" else None,
                engine=engine,
                score=rewards.score,
                max_response_tokens=config.rollout.max_response_tokens,
                num_samples=config.train.validation_samples,
                seed=mix_seed(config.seed, VALIDATION_SEED),
            )
            return list(answers)

        trainer = Trainer(
            config,
            samples=samples,
            prepare=preparer,
            engine=HFEngine(model, encoder, rows_per_batch=config.rollout.rows_per_batch),
            policy=policy,
            recipe=recipe,
            score=rewards.score,
            evaluate=evaluate if questions else None,
            progress=progress,
            stored=_stored(config, samples, encoder),
        )
        state = trainer.run()
    return state


@contextmanager
def _reported(folder: RunFolder) -> Iterator[None]:
    """Write the report when the run ends, with the reason if an error ends it."""
    try:
        yield
    except EasyVideoError as error:
        folder.note_stopped(str(error))
        with suppress(DataError):  # no step is finished: the error itself says all there is to say
            write_report(folder.path)
        raise
    write_report(folder.path)


def _load(
    sources: Sequence[SourceConfig], config: RunConfig, check: Callable[[Sample], None], folder: RunFolder
) -> list[Sample]:
    """The usable samples of some sources; gold answers, media headers and prompt lengths are checked, nothing is
    decoded."""
    skips = config.data.on_bad_sample == "skip"
    errors: list[DataError] = []
    samples = []
    for source in sources:
        samples += read_samples(
            source.path, media_root=source.media_root, source=source.label, on_bad=errors.append if skips else None
        )

    shown = track(samples, f"checking {len(samples)} samples", console=Console(stderr=True), transient=True)
    good = usable(shown, check, on_bad=errors.append if skips else None)
    if errors:
        for error in errors:
            folder.note_bad(error)
        log.warning("skipped %d samples; see %s", len(errors), folder.bad_samples)
    return good


def _stored(config: RunConfig, samples: Sequence[Sample], encoder: Encoder) -> StoredRollouts | None:
    """The stored trajectories that the run mixes into its groups."""
    if not config.mix.enable:
        return None
    trajectories = read_trajectories(config.mix.source) if config.mix.source else sample_trajectories(samples)
    stored = stored_rollouts(
        trajectories,
        response_ids=encoder.response_ids,
        response_text=encoder.response_text,
        max_response_tokens=config.rollout.max_response_tokens,
    )
    if stored.num_too_long:
        log.warning(
            "%d stored trajectories are longer than rollout.max_response_tokens and left out", stored.num_too_long
        )
    if not any(sample.id in stored.by_sample for sample in samples):
        raise DataError(
            _why_unusable(trajectories, stored),
            where=config.mix.source or ", ".join(source.path for source in config.data.train),
            field="offline_output",
            remedy="store responses with `easyvideor1 data filter --collect`, or set mix.enable=false",
        )
    return stored


def _why_unusable(trajectories: Mapping[str, Sequence[Trajectory]], stored: StoredRollouts) -> str:
    if not trajectories:
        return "mix.enable is set, but no stored trajectory is there"
    if not stored.by_sample:
        return f"all {stored.num_too_long} stored trajectories are longer than rollout.max_response_tokens"
    ids = ", ".join(list(stored.by_sample)[:3])
    return f"the stored trajectories belong to samples that are not in data.train ({ids}, ..)"


def _check_same_run(folder: RunFolder, config: RunConfig) -> None:
    """A folder holds one run: going on with other values would make its curves lie."""
    if not folder.config.exists() or not checkpoint.list_checkpoints(folder.path / "checkpoints"):
        return
    before = _flat(yaml.safe_load(folder.config.read_text(encoding="utf-8")))
    now = _flat(to_tree(config))
    changed = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key)]
    forbidden = sorted(set(changed) - set(MAY_CHANGE_ON_RESUME))
    if forbidden:
        raise UsageError(
            f"{folder.path} holds a run with other values of {', '.join(forbidden)}; "
            "choose another `out`, or give the values of that run to continue it"
        )


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(tree, Mapping):
        return {key: value for name, child in tree.items() for key, value in _flat(child, f"{prefix}{name}.").items()}
    return {prefix.removesuffix("."): tree}
