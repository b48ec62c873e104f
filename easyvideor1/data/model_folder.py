"""What a model folder says of prompts: config.json, the tokenizer with its chat template, the image processor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from easyvideor1.errors import UsageError


def read_tokenizer(folder: Path, *, chat_template: Path | None = None) -> PreTrainedTokenizerFast:
    """The tokenizer of a folder with its chat template, or with that of a file.

    Raises:
        UsageError: a file is missing or cannot be read.
    """
    if not any((folder / name).exists() for name in ("tokenizer.json", "vocab.json")):
        raise UsageError(f"{folder}: no tokenizer.json")  # Transformers would make up an empty tokenizer
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # its readers raise whatever an odd file leads to
        raise UsageError(
            f"{folder}: the tokenizer cannot be read: {type(error).__name__}: {error} (is the download complete?)"
        ) from error
    if chat_template is not None:
        tokenizer.chat_template = _read_text(chat_template)
    elif not tokenizer.chat_template and (folder / "chat_template.json").exists():
        tokenizer.chat_template = read_json(folder / "chat_template.json")["chat_template"]
    return tokenizer


def stop_ids(folder: Path) -> list[int]:
    """Ids that end a response by generation_config.json; none without that file."""
    file = folder / "generation_config.json"
    found = read_json(file).get("eos_token_id") if file.exists() else None
    return [] if found is None else [found] if isinstance(found, int) else found


def preprocessor(folder: Path) -> dict[str, Any] | None:
    """The image processor's settings, from either of the files that Transformers keeps them in."""
    if (folder / "preprocessor_config.json").exists():
        return read_json(folder / "preprocessor_config.json")
    if (folder / "processor_config.json").exists():
        return read_json(folder / "processor_config.json").get("image_processor")
    return None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"model.chat_template={path}: cannot be read: {error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """One of the JSON files; UsageError where it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot read the model's configuration: {error}") from None
