"""A trained model as a folder of its own, which Transformers, vLLM and this package read: weights, configuration,
tokenizer, processor."""

from __future__ import annotations

import shutil
from pathlib import Path

import transformers
from transformers import PreTrainedModel

from easyvideor1.config import ModelConfig, load_config
from easyvideor1.errors import RunError, UsageError
from easyvideor1.model import lora
from easyvideor1.model.load import load_model
from easyvideor1.records.folder import RunFolder
from easyvideor1.training import checkpoint, manifest, shelf

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.gguf")
"""Files of the base model that the trained one replaces."""


def export(path: Path, out: Path) -> str:
    """Write the model of a run or of one of its checkpoints; a folder that is cut short does not carry the final name.

    Args:
        path: folder of a run (its best checkpoint, or else its newest), or one of its checkpoints.
        out: folder to make; LoRA adapters are merged in.

    Returns:
        Which step of which run it is, in words.

    Raises:
        RunError: the checkpoint is damaged.
        UsageError: no checkpoint there, a base model that is gone, or a target that is not empty.
    """
    folder = find_checkpoint(path)
    config = load_config(RunFolder(folder.parent.parent).config)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; name a new folder with --out")
    if not Path(config.model.path).is_dir():
        raise UsageError(
            f"{folder}: the run began with model.path = {config.model.path}, which is not a folder here; "
            "its tokenizer is needed: put it back, or start this command where the training was started"
        )
    fault = manifest.fault_of(folder)
    if fault is not None:
        raise RunError(f"{folder}: this checkpoint is damaged: {fault}; name another one of {folder.parent}")
    draft = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(config.model.path, draft, ignore=shutil.ignore_patterns(*WEIGHTS, ".*"))
    weights = checkpoint.weights_folder(folder)
    if weights is None:
        _merged(config.model, folder).save_pretrained(draft)
    else:  # they are stored as they are exported
        shutil.copytree(weights, draft, dirs_exist_ok=True)
    if out.exists():
        out.rmdir()
    draft.rename(out)
    return f"step {checkpoint.load_state(folder).step} of {config.out}"


def _merged(config: ModelConfig, folder: Path) -> PreTrainedModel:
    """The base model with the adapters of a checkpoint added into its weights."""
    transformers.logging.disable_progress_bar()
    model = load_model(config)
    lora.load_adapters(model, folder)
    lora.merge_adapters(model)
    return model


def find_checkpoint(path: Path) -> Path:
    """The checkpoint a path means.

    Raises:
        UsageError: there is none.
    """
    if (path / checkpoint.STATE).exists():
        return path
    best = path / "checkpoints" / shelf.BEST
    found = [*shelf.list_checkpoints(path / "checkpoints"), *([best] if best.exists() else [])]
    if not found:
        raise UsageError(f"{path}: neither a checkpoint nor the folder of a run with one")
    return found[-1]
