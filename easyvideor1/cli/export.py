"""`easyvideor1 export CHECKPOINT --out DIR`: a trained model as a folder of its own, tokenizer included."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import transformers

from easyvideor1.config import RunConfig, load_config
from easyvideor1.errors import UsageError
from easyvideor1.model import lora
from easyvideor1.model.load import load_model
from easyvideor1.records.folder import RunFolder
from easyvideor1.training import checkpoint

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.gguf")
"""Files of the base model that the trained one replaces."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a trained model as Transformers, vLLM and every --model option here read it: weights (LoRA adapters "
        "merged in), configuration, tokenizer, processor."
    )
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="folder of a run (its best checkpoint, or else its newest), or one of its checkpoints/ folders",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to make")


def run(args: argparse.Namespace) -> int:
    folder = find_checkpoint(Path(args.checkpoint))
    config = load_config(RunFolder(folder.parent.parent).config)
    if args.out.exists() and any(args.out.iterdir()):
        raise UsageError(f"{args.out} is not empty; name a new folder with --out")
    if not Path(config.model.path).is_dir():
        raise UsageError(
            f"{folder}: the run began with model.path = {config.model.path}, which is not a folder here; "
            "its tokenizer is needed: put it back, or start this command where the training was started"
        )
    export(folder, config, args.out)
    print(f"step {checkpoint.load_state(folder).step} of {config.out}: {args.out}")
    return 0


def find_checkpoint(path: Path) -> Path:
    """The checkpoint a path means.

    Raises:
        UsageError: there is none.
    """
    if (path / "state.json").exists():
        return path
    best = path / "checkpoints" / "best"
    found = [*checkpoint.list_checkpoints(path / "checkpoints"), *([best] if best.exists() else [])]
    if not found:
        raise UsageError(f"{path}: neither a checkpoint nor the folder of a run with one")
    return found[-1]


def export(folder: Path, config: RunConfig, out: Path) -> None:
    """Write the model of a checkpoint; a folder that is cut short does not carry the final name."""
    transformers.logging.disable_progress_bar()
    model = load_model(config.model)
    checkpoint.load_weights(folder, model=model)
    if lora.has_adapters(model):
        lora.merge_adapters(model)
    draft = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(config.model.path, draft, ignore=shutil.ignore_patterns(*WEIGHTS, ".*"))
    model.save_pretrained(draft)
    if out.exists():
        out.rmdir()
    draft.rename(out)
