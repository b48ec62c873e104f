"""A trained model as a folder of its own, which Transformers, vLLM and this package read: weights, configuration,
tokenizer, processor."""

from __future__ import annotations

import shutil
from pathlib import Path

import transformers
from safetensors import SafetensorError

from easyvideor1.errors import RunError, UsageError
from easyvideor1.model import lora
from easyvideor1.records.choice import Choice, choose
from easyvideor1.records.drafts import drafted
from easyvideor1.runs.starting_model import began_with, load_model, model_files, require_whole, tokenizer_files
from easyvideor1.training import checkpoint

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.gguf")
"""Files of the base model that the trained one replaces."""
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
    "special_tokens_map.json", "chat_template.jinja", "chat_template.json",
)  # fmt: skip
"""Files of a tokenizer with its chat template."""


def export(path: Path, out: Path, *, step: str = "") -> Choice:
    """Write the model of a run or of one of its checkpoints; a folder that is cut short does not carry the final name.

    Args:
        path: folder of a run, or one of its checkpoints.
        out: folder to make; LoRA adapters are merged in.
        step: "best", "last" or a number; "": the best, or the last where nothing was validated.

    Returns:
        Which step it is, and why.

    Raises:
        RunError: the checkpoint is damaged, or was removed meanwhile.
        UsageError: no checkpoint there, a base model that is gone, or a target that is not empty or cannot be written.
    """
    choice = choose(path, step)
    config = began_with(choice)
    base = model_files(config.path)
    require_whole(choice.checkpoint)
    weights = checkpoint.weights_folder(choice.checkpoint)
    with drafted(out) as draft:
        shutil.copytree(base, draft, ignore=shutil.ignore_patterns(*WEIGHTS, ".*"), dirs_exist_ok=True)
        if tokenizer := tokenizer_files(config):
            for file in TOKENIZER:
                (draft / file).unlink(missing_ok=True)
                if (tokenizer / file).is_file():
                    shutil.copyfile(tokenizer / file, draft / file)
        if config.chat_template is not None:
            (draft / "chat_template.json").unlink(missing_ok=True)
            shutil.copyfile(config.chat_template, draft / "chat_template.jinja")
        if weights is not None:  # they are stored as they are exported
            try:
                for path in weights.iterdir():
                    shutil.copyfile(path, draft / path.name)
            except FileNotFoundError:
                raise RunError(
                    f"{choice.checkpoint}: this checkpoint was removed while it was copied: a run goes on there and "
                    "keeps train.keep_checkpoints of them; export again"
                ) from None
            return choice
        transformers.logging.disable_progress_bar()
        model = load_model(config)
        lora.load_adapters(model, choice.checkpoint)
        lora.merge_adapters(model)
        try:
            model.save_pretrained(draft)
        except SafetensorError as error:
            raise UsageError(f"--out {out}: cannot be written: {error}; make room there, or choose another") from None
    return choice
