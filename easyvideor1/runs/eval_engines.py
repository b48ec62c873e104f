"""Engines that answer benchmarks, by name, opened and closed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from easyvideor1.config import ModelConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.errors import UsageError
from easyvideor1.evals.protocol import Protocol
from easyvideor1.rollout.engine import Engine, Sampling

ENGINES = ("hf", "vllm", "openai")
CHUNK_TOKENS = 8192
"""Tokens of prompts that vLLM reads in one step: a long one is cut, so that responses under way go on beside it."""
PIECES, PIECE_BYTES = 64, 1 << 14
"""Pieces of a file of weights that tell it from others of its size, and their length."""
GIVEN_UP_S = 3600.0
"""After which a response of vLLM is given up."""


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """Which engine answers, and how much it may do at once."""

    name: str = "hf"
    model: ModelConfig
    processor: str | None = None
    """Folder of config.json and tokenizer where the model's own is not here."""
    tokens_per_batch: int = 65_536
    """Tokens whose keys and values are in memory at once; of vLLM, those it is asked for at once."""
    vllm_args: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of vLLM's EngineArgs."""
    url: str | None = None
    """Address of the server, for the engine openai."""
    slots: int = 8
    """Requests under way at once, for the engine openai."""

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UsageError(f"--engine {self.name}: known are {', '.join(ENGINES)}")
        if (self.name == "openai") != (self.url is not None):
            raise UsageError("--engine openai needs the --url of a server, and no other engine has one")
        if self.vllm_args and self.name != "vllm":
            raise UsageError("--vllm-args are for --engine vllm")

    @property
    def folder(self) -> str:
        """Where config.json and tokenizer lie; errors as of `starting_model.model_files`."""
        from easyvideor1.runs.starting_model import model_files

        return self.processor or str(model_files(self.model.path))

    @property
    def tokenizer(self) -> Path | None:
        """Folder of the tokenizer of a run that took one instead of its model's own."""
        from easyvideor1.runs.starting_model import tokenizer_files

        return None if self.processor else tokenizer_files(self.model)

    def check(self, protocol: Protocol) -> None:
        """Raises UsageError for a protocol that this engine cannot follow."""
        decoding = protocol.decoding
        if self.name != "hf" and protocol.subtitles == "interleaved":
            raise UsageError("subtitles between the frames of a video: only the engine hf reads such prompts")
        if self.name == "hf" and (decoding.presence_penalty or decoding.repetition_penalty != 1.0):
            raise UsageError(
                "the engine hf knows no presence or repetition penalty; set them to 0 and 1 in the protocol, or take "
                "another --engine"
            )


def weights_of(path: str) -> list[list[Any]]:
    """Name, size in bytes and digest of each weight file of a model, a run or a checkpoint; none of a served model.

    The digest is of pieces all over the file, which no training step leaves as they are.
    """
    if not Path(path).is_dir():
        return []
    from easyvideor1.runs.starting_model import trained_model

    trained = trained_model(path)
    folder = Path(path) if trained is None else trained.checkpoint
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("model/*.safetensors"))
    return [[file.name, file.stat().st_size, _digest(file)] for file in files]


def _digest(path: Path) -> str:
    """Digest of evenly spaced pieces of a file, its beginning and end among them."""
    digest, size = hashlib.sha256(), path.stat().st_size
    with path.open("rb") as file:
        for number in range(PIECES):
            file.seek(max(0, size - PIECE_BYTES) * number // (PIECES - 1))
            digest.update(file.read(PIECE_BYTES))
    return digest.hexdigest()[:16]


def engine_opener(
    choice: EngineChoice, encoder: Encoder, samplings: Sequence[Sampling], *, longest_tokens: int, seed: int
) -> Callable[[], AbstractContextManager[Engine]]:
    """Opens the chosen engine; again after it died. A model in this process is loaded once: vLLM cannot be made anew in
    a process where it died, so it goes on without the requests that it had, and if it cannot, the run stops.

    Args:
        samplings: all that will be asked for.
        longest_tokens: bound of a prompt with its response.
    """
    loaded: list[Any] = []

    @contextmanager
    def hf() -> Iterator[Engine]:
        from easyvideor1.rollout.hf import HFEngine
        from easyvideor1.runs.starting_model import load_model

        if not loaded:
            loaded.append(load_model(choice.model))
        yield HFEngine(loaded[0], encoder, tokens_per_batch=choice.tokens_per_batch)

    @contextmanager
    def vllm() -> Iterator[Engine]:
        if not loaded:
            loaded.append(_vllm_engine(choice, encoder, samplings, longest_tokens=longest_tokens, seed=seed))
        yield loaded[0]

    @contextmanager
    def openai() -> Iterator[Engine]:
        from easyvideor1.rollout.served import ServedEngine

        assert choice.url is not None
        yield ServedEngine(choice.url, choice.model.path, slots=choice.slots)

    return {"hf": hf, "vllm": vllm, "openai": openai}[choice.name]


def _vllm_engine(
    choice: EngineChoice, encoder: Encoder, samplings: Sequence[Sampling], *, longest_tokens: int, seed: int
) -> Engine:
    """vLLM in this process. Prompts about one video share their beginning in its cache of prefixes, and what the vision
    tower makes of the video, which is known by the key of the frame cache."""
    import torch

    from easyvideor1.model.weights import checkpoint_tensors
    from easyvideor1.rollout.vllm.colocated import VLLMEngine
    from easyvideor1.rollout.vllm.core import VLLMCore
    from easyvideor1.rollout.vllm.pump import Pump
    from easyvideor1.runs.starting_model import load_model, model_files, trained_model

    is_greedy = all(sampling.is_greedy for sampling in samplings)
    chunks = {"enable_chunked_prefill": True, "max_num_batched_tokens": CHUNK_TOKENS}
    core = VLLMCore(
        model_files(choice.model.path),
        encoder,
        kind="raw_logprobs",
        dtype=choice.model.dtype,
        max_model_tokens=longest_tokens,
        seed=seed,
        sleeps=False,
        # On a CPU vLLM takes seeds only for prompts that are read in one piece.
        engine_args=(chunks if is_greedy or torch.cuda.is_available() else {}) | dict(choice.vllm_args),
    )
    pump = Pump(
        core,
        kind="raw_logprobs",
        end_ids=encoder.end_ids,
        banned_ids=encoder.banned_ids,
        text_of=encoder.response_text,
        seeded=not is_greedy,
        deadline_s=GIVEN_UP_S,
    )
    engine = VLLMEngine(core, pump, tokens_per_batch=choice.tokens_per_batch)
    if trained_model(choice.model.path):
        engine.load_weights(checkpoint_tensors(load_model(choice.model)), version=0)
    return engine
