"""One question to a model about a video or an image: what `easyvideor1 ask` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import transformers

from easyvideor1.config import ModelConfig, Settings
from easyvideor1.config_data import CacheConfig
from easyvideor1.data.vision_inputs import media_inputs
from easyvideor1.errors import UsageError
from easyvideor1.records.drafts import cannot_write
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.encoders import encoder_of
from easyvideor1.runs.explaining import Look, seen_media
from easyvideor1.runs.media import media_specs
from easyvideor1.runs.starting_model import load_model
from easyvideor1.types import Example, Media, MediaKind, Sample, StopReason
from easyvideor1.video.contact_sheet import contact_sheet

if TYPE_CHECKING:
    from easyvideor1.types import Clip

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}
"""Endings of files that are taken as images where nobody says what they are; animations too may be called .webp."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What a model says, and what it saw."""

    text: str
    clip: Clip
    num_prompt_tokens: int
    is_cut: bool
    """The response ran into rollout.max_response_tokens."""


def ask(file: str, question: str, settings: Settings, *, out: Path | None = None) -> Answer:
    """The greedy answer of a model to a question about one video or image.

    The question is what the user says, word for word; no instruction is added.

    Args:
        settings: with a model.
        out: PNG file for the frames with their times.

    Raises:
        UsageError: no model, or `out` cannot be written.
        DataError: the file cannot be read.
    """
    assert settings.model is not None
    config: ModelConfig = settings.model
    transformers.logging.disable_progress_bar()
    encoder = encoder_of(config)
    kind: MediaKind = "image" if Path(file).suffix.lower() in IMAGES else "video"
    sample = Sample(id=file, problem_type="open-ended", problem=question, gold="", media=(Media(kind=kind, path=file),))
    cache = settings.cache or CacheConfig(dir=".", mode="realtime_only")
    look = Look(specs=media_specs(settings.data), vision=encoder.vision, cache=cache)
    ((plan, clip),) = seen_media(sample, look, deadline_s=cache.deadline_s)
    if out is not None:
        _write_frames(out, clip)
    prompt = encoder.encode(sample, [plan], f"<{kind}>{question}")
    features = media_inputs(prompt, (clip,), encoder.vision, dtype=getattr(torch, config.dtype))
    engine = HFEngine(load_model(config), encoder, tokens_per_batch=settings.rollout.tokens_per_batch)
    wanted = Request(
        example=Example(prompt=prompt, clips=(clip,), features=features),
        sampling=Sampling(temperature=0.0, max_response_tokens=settings.rollout.max_response_tokens),
        seed=settings.seed,
    )
    with engine.awake():
        ((_, (rollout,)),) = engine.generate([wanted])
    return Answer(
        text=rollout.text,
        clip=clip,
        num_prompt_tokens=len(prompt),
        is_cut=rollout.stop_reason is StopReason.LENGTH,
    )


def _write_frames(out: Path, clip: Clip) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        contact_sheet(clip).save(out, format="PNG")
    except OSError as error:
        raise UsageError(cannot_write(f"--frames {out}", error)) from None
