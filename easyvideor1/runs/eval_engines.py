"""Engines that answer benchmarks, by name, opened and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from easyvideor1.config import ModelConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.errors import UsageError
from easyvideor1.evals.protocol import Decoding
from easyvideor1.rollout.engine import Engine

ENGINES = ("hf", "openai")


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """Which engine answers, and how much it may do at once."""

    name: str = "hf"
    model: ModelConfig
    processor: str | None = None
    """Folder of config.json and tokenizer where the model's own is not here."""
    tokens_per_batch: int = 65_536
    """Of the engine hf: tokens whose keys and values are in memory at once."""
    url: str | None = None
    """Of the engine openai: address of the server."""
    slots: int = 8
    """Of the engine openai: requests under way at once."""

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UsageError(f"--engine {self.name}: known are {', '.join(ENGINES)}")
        if (self.name == "openai") != (self.url is not None):
            raise UsageError("--engine openai needs the --url of a server, and no other engine has one")

    @property
    def folder(self) -> str:
        """Where config.json and tokenizer lie; errors as of `starting_model.model_files`."""
        from easyvideor1.runs.starting_model import model_files

        return self.processor or str(model_files(self.model.path))

    def check(self, decoding: Decoding) -> None:
        """Raises UsageError for decoding that this engine cannot do."""
        if self.name == "hf" and (decoding.presence_penalty or decoding.repetition_penalty != 1.0):
            raise UsageError(
                "the engine hf knows no presence or repetition penalty; set them to 0 and 1 in the protocol, or take "
                "another --engine"
            )


def engine_opener(choice: EngineChoice, encoder: Encoder) -> Callable[[], AbstractContextManager[Engine]]:
    """Opens the chosen engine; again after it died. A model in this process is loaded once."""
    loaded: list[Any] = []

    @contextmanager
    def hf() -> Iterator[Engine]:
        from easyvideor1.rollout.hf import HFEngine
        from easyvideor1.runs.starting_model import load_model

        if not loaded:
            loaded.append(load_model(choice.model))
        yield HFEngine(loaded[0], encoder, tokens_per_batch=choice.tokens_per_batch)

    @contextmanager
    def openai() -> Iterator[Engine]:
        from easyvideor1.rollout.served import ServedEngine

        assert choice.url is not None
        yield ServedEngine(choice.url, choice.model.path, slots=choice.slots)

    return {"hf": hf, "openai": openai}[choice.name]
