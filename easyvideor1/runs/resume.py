"""Which keys may change when a run is resumed: values that decide its results may not, all others may."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.config import RunConfig
from easyvideor1.config_tree import absolute, to_tree
from easyvideor1.errors import UsageError
from easyvideor1.recipe import load_config
from easyvideor1.runs.starting_model import START, is_same_start
from easyvideor1.training.checkpoint import has_optimizer

FREE = (
    r"out",
    # Who is told.
    r"trackers|project",
    # Where things lie, and how much room and time they may take.
    r"cache\.(dir|mode|max_bytes|deadline_s)",
    r"data\.(train|validation)\[\d+\]\.media_root",
    r"data\.(workers|ahead_mb)",
    r"reward\.(workers|deadline_s|memory_mb)",
    r"reward\.judge\.(base_url|cache_dir|api_key_file|concurrency|timeout_s|retries)",
    # What is computed at once; the numbers are the same up to rounding.
    r"train\.tokens_per_pack",
    r"train\.shared_prefix",
    r"model\.gradient_checkpointing",
    r"parallel\..*",
    # When to look, to keep and to stop.
    r"train\.(validate_every|validation_samples|checkpoint_every|keep_checkpoints|save_in_background|stall_limit_s)",
    r"train\.(checkpoint_optimizer|fresh_optimizer)",
    r"train\.stop\..*",
    r"validation\..*",
)
"""Keys whose values change no result of a run."""
LENGTHS = ("train.steps", "train.epochs")
"""How long the run is; it may go on for longer than it was begun for."""


def check_same_run(config: RunConfig, *, before: Path) -> None:
    """Make sure that a configuration goes on with the run whose configuration is stored.

    Args:
        before: the config.yaml of the run.

    Raises:
        UsageError: a value differs that decides the numbers of the run; names it with both values and the remedy.
    """
    stored: RunConfig = absolute(load_config(before))
    changes = changed_values(stored, absolute(config))
    length = next((name for name in LENGTHS if name in changes), None)
    if length is not None and (config.optimizer.schedule != "constant" or config.optimizer.warmup_frac):
        old, new = changes[length]
        schedule = f"optimizer.schedule={config.optimizer.schedule}"
        if config.optimizer.schedule == "constant":
            schedule = f"optimizer.warmup_frac={config.optimizer.warmup_frac:g}"
        raise UsageError(
            f"{before.parent}: {length} was {old} and is now {new}, which moves the learning rate of every step under "
            f"{schedule}. Give {length}={old} to go on, or start a new run (another `out`) from an exported model"
        )
    forbidden = [
        name
        for name, (old, new) in changes.items()
        if name not in LENGTHS and not is_free(name) and not has_moved(name, old, new, run=before.parent)
    ]
    if forbidden:
        told = "; ".join(f"{name} was {changes[name][0]}, is now {changes[name][1]}" for name in forbidden)
        raise UsageError(
            f"{before.parent} holds a run with other values: {told}. Choose another `out`, or give the values of that "
            "run to go on with it"
        )


def has_moved(name: str, old: Any, new: Any, *, run: Path) -> bool:
    """Whether a key names what it named before, at another place: a data file of the same name, whose rows are compared
    later (`same_data`), or a model with the same weights."""
    if re.fullmatch(r"data\.(train|validation)\[\d+\]\.path", name):
        return Path(str(old)).name == Path(str(new)).name
    return name == "model.path" and is_same_start(str(new), run / START)


def check_can_go_on(config: RunConfig, checkpoint: Path, *, step: int) -> None:
    """Make sure that a run finds in a checkpoint what it needs to go on.

    Args:
        step: at which the checkpoint stands.

    Raises:
        UsageError: it has steps to make, and the checkpoint holds no optimizer.
    """
    is_whole = step == 0 or has_optimizer(checkpoint)  # before the first step there is nothing in it yet
    if is_whole or config.train.fresh_optimizer or step >= config.train.num_steps:
        return
    raise UsageError(
        f"{checkpoint}: this checkpoint holds the weights alone (train.checkpoint_optimizer=false), so the run cannot "
        "go on as if it had never stopped. Set train.fresh_optimizer=true to go on with new moments, or "
        f"begin a new run (another `out`) with model.path={checkpoint}"
    )


def changed_values(before: RunConfig, after: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Key -> (value before, value after) of everything that differs, in the order of the configuration."""
    old, new = _flat(to_tree(before)), _flat(to_tree(after))
    names = dict.fromkeys([*old, *new])
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def is_free(name: str) -> bool:
    """Whether a key may change when a run goes on.

    >>> is_free("cache.dir"), is_free("data.train[0].media_root"), is_free("rollout.n")
    (True, True, False)
    """
    return any(re.fullmatch(pattern, name) for pattern in FREE)


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(tree, Mapping):
        return {
            key: value
            for name, child in tree.items()
            for key, value in _flat(child, f"{prefix}.{name}" if prefix else str(name)).items()
        }
    if isinstance(tree, Sequence) and tree and all(isinstance(item, Mapping) for item in tree):
        return {
            key: value for index, item in enumerate(tree) for key, value in _flat(item, f"{prefix}[{index}]").items()
        }
    return {prefix: tree}
