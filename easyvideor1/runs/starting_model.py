"""The model that `model.path` names: a folder in Transformers' layout, a run of this package, or one of its
checkpoints."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from easyvideor1.config import ModelConfig
from easyvideor1.errors import RunError, UsageError
from easyvideor1.recipe import load_config
from easyvideor1.records.choice import Choice, choose
from easyvideor1.records.folder import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from easyvideor1.model.skeleton import StoredModel

START = "start.json"
"""In the folder of a run: the model that it began with."""
WHOLE_BYTES = 64 << 20
"""Largest file of weights of which all bytes are compared."""
BLOCK_BYTES, NUM_BLOCKS = 4096, 64
"""Size and number of the blocks of a larger file that are compared."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def model_files(path: str) -> Path:
    """The folder of a model's configuration, tokenizer and processor; of a run, those of the model it began with.

    Raises:
        UsageError: there is no model.
    """
    if trained := trained_model(path):
        return model_files(began_with(trained).path)
    folder = Path(path)
    if (folder / "config.json").is_file():
        return folder
    if folder.is_dir():
        raise UsageError(
            f"model.path={path}: no model: the folder has no config.json; give a folder in Transformers' format, a "
            "run, or one of its checkpoints"
        )
    if folder.exists():
        raise UsageError(f"model.path={path} is a file; give the folder of a model")
    if HUB_ID.fullmatch(path):
        name = path.rpartition("/")[2]
        raise UsageError(
            f"model.path={path}: no such folder here, and nothing is downloaded in a run. To get a model of that name: "
            f"`hf download {path} --local-dir {name}`, then model.path={name}"
        )
    raise UsageError(f"model.path={path}: no such folder; give a folder in Transformers' format, or a run")


def tokenizer_files(model: ModelConfig) -> Path | None:
    """The folder of a tokenizer that takes the place of the model's own: the configured one, or that of the run whose
    model it is; None: there is none."""
    if model.tokenizer is not None:
        return Path(model.tokenizer)
    trained = trained_model(model.path)
    return None if trained is None else tokenizer_files(began_with(trained))


def trained_model(path: str) -> Choice | None:
    """The checkpoint that a path means; None where it is no run and no checkpoint."""
    folder = Path(path)
    if (folder / "state.json").is_file() or RunFolder(folder).is_run():
        return choose(folder)
    return None


def load_model(config: ModelConfig, *, weights: Path | None = None) -> PreTrainedModel:
    """The configured model, with its adapters, frozen parts and activation checkpointing; the weights of a run are
    those of the checkpoint that stands for it, adapters merged in.

    Args:
        weights: folder of a model of the same shape whose weights to take; None: those of `config.path`.

    Raises:
        UsageError: there is no model, or its weights cannot be read.
        RunError: the checkpoint is damaged.
    """
    from easyvideor1.model import load, lora  # import torch, which those who only look at files do not need
    from easyvideor1.training import checkpoint

    if weights is not None:
        return load.load_model(config, weights=weights)
    model_files(config.path)
    trained = trained_model(config.path)
    if trained is None:
        return load.load_model(config)
    require_whole(trained.checkpoint)
    before = began_with(trained)
    if weights := checkpoint.weights_folder(trained.checkpoint):
        return load.load_model(config, weights=weights)
    model = load_model(replace(before, dtype=config.dtype, freeze_vision_tower=False, gradient_checkpointing=False))
    lora.load_adapters(model, trained.checkpoint)
    lora.merge_adapters(model)
    return load.prepared(model.requires_grad_(True), config)


def stored_model(config: ModelConfig, *, weights: Path | None = None) -> StoredModel:
    """Where the weights that `load_model` reads lie, for those who read a part of them only.

    Raises:
        UsageError: there is no model.
        RunError: the checkpoint is damaged.
    """
    from easyvideor1.model import lora
    from easyvideor1.model.skeleton import StoredAdapters, StoredModel
    from easyvideor1.training import checkpoint

    if weights is not None:
        return StoredModel(folder=weights)
    model_files(config.path)
    trained = trained_model(config.path)
    if trained is None:
        return StoredModel(folder=Path(config.path))
    require_whole(trained.checkpoint)
    if weights := checkpoint.weights_folder(trained.checkpoint):
        return StoredModel(folder=weights)
    before = began_with(trained)
    assert before.lora is not None, "a checkpoint without weights is one of adapters"
    below = stored_model(before)
    own = StoredAdapters(path=trained.checkpoint / lora.ADAPTERS, scale=before.lora.alpha / before.lora.rank)
    return replace(below, adapters=(*below.adapters, own))


def require_whole(checkpoint: Path) -> None:
    """Raise RunError for a checkpoint that is not as it was written."""
    from easyvideor1.training import manifest

    fault = manifest.fault_of(checkpoint)
    if fault is not None:
        raise RunError(f"{checkpoint}: this checkpoint is damaged: {fault}; name another one of {checkpoint.parent}")


def check_same_start(path: str, note: Path) -> None:
    """Make sure that a run that goes on stands on the model it began with: adapters, and a reference, mean nothing
    beside other weights.

    Args:
        note: file that says which one it was; written at the first start.

    Raises:
        UsageError: other weights lie there, or another checkpoint stands for that run by now.
    """
    now = _start_of(path)
    if not note.exists():
        note.write_text(json.dumps(now) + "\n", encoding="utf-8")
        return
    before = json.loads(note.read_text(encoding="utf-8"))
    if before == now:
        return
    if "weights" in before or "weights" in now:
        raise UsageError(
            f"model.path={path}: its weights are not those that this run began with; put those back to go on, or begin "
            "a new run (another `out`)"
        )
    raise UsageError(
        f"model.path={path}: this run began with step {before['step']} ({before['checkpoint']}), and by now step "
        f"{now['step']} stands for it; begin a new run (another `out`) from a model that `easyvideor1 export` wrote"
    )


def is_same_start(path: str, note: Path) -> bool:
    """Whether a path holds the model that a run began with, as far as its note tells."""
    try:
        return json.loads(note.read_text(encoding="utf-8")) == _start_of(path)
    except (OSError, ValueError, UsageError):
        return False


def _start_of(path: str) -> dict[str, object]:
    """What tells one model to begin with from another: the checkpoint of a run, or digests of its weights."""
    trained = trained_model(path)
    if trained is not None:
        return {"checkpoint": str(trained.checkpoint.resolve()), "step": trained.step}
    files = sorted(file for file in model_files(path).iterdir() if file.suffix in (".safetensors", ".bin"))
    return {"weights": {file.name: _digest(file) for file in files}}


def _digest(file: Path) -> str:
    """Digest of all bytes of a small file, or of the size and some blocks of a large one: a start takes seconds."""
    num_bytes = file.stat().st_size
    digest = xxhash.xxh3_64(str(num_bytes).encode())
    with file.open("rb") as opened:
        if num_bytes <= WHOLE_BYTES:
            digest.update(opened.read())
            return digest.hexdigest()
        for block in range(NUM_BLOCKS):
            opened.seek((num_bytes - BLOCK_BYTES) * block // (NUM_BLOCKS - 1))
            digest.update(opened.read(BLOCK_BYTES))
    return digest.hexdigest()


def began_with(trained: Choice) -> ModelConfig:
    """The model that the run of a checkpoint began with.

    Raises:
        UsageError: the run around the checkpoint is gone.
    """
    config = RunFolder(trained.checkpoint.parent.parent).config
    if not config.is_file():
        raise UsageError(
            f"{trained.checkpoint}: {config} is missing; a checkpoint is read within the folder of its run"
        )
    return load_config(config).model
