"""What makes the prompts of a configured model: its tokenizer or the one that takes its place, its chat template."""

from __future__ import annotations

from easyvideor1.config import ModelConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.runs.starting_model import model_files, tokenizer_files


def encoder_of(model: ModelConfig, *, system: str | None = None) -> Encoder:
    """
    Args:
        system: message of samples without one of their own; None: that of the chat template.

    Raises:
        UsageError: a file is missing, or the tokenizer does not fit the model.
    """
    return Encoder.from_pretrained(
        model_files(model.path), system=system, tokenizer=tokenizer_files(model), chat_template=model.chat_template
    )
