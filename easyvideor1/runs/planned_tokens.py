"""How many tokens and pixels the samples of a recipe have, from plans; nothing is decoded and no weight is read."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch

from easyvideor1.config import RunConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.data.prepare import Preparer, pixel_bytes
from easyvideor1.data.prompts import instruction
from easyvideor1.data.samples import ReadRow, read_all
from easyvideor1.errors import DataError
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.runs.media import media_specs
from easyvideor1.types import Clip, MediaPlan, Sample, VisionSpec
from easyvideor1.video.pool import DecodePool

PLANNED_ROWS = 400
"""Rows of a larger set that are planned, spread evenly."""
MEDIA_PER_PROCESS = 20
"""Planning so many takes as long as another process takes to start."""
BYTES_PER_TOKEN = 4
"""Bytes of text per token, where there is no tokenizer to count with."""
CHAT_TOKENS = 24
"""Tokens of the chat template around a problem, in the same case."""
STEP_TOKENS = 9
"""Around each temporal patch of a video whose times are written out, in the same case."""
TEXT_TOKENS = 200
"""Tokens of a problem, where there are no data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """A sample that can be used."""

    tokens: int
    """Tokens of its prompt."""
    vision: int
    """Vision tokens among them."""
    frame_bytes: int
    """uint8, as they lie in the cache."""
    example_bytes: int
    """Frames and patches, as they lie in main memory."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The samples of a recipe in numbers."""

    prompts: tuple[Counted, ...]
    num_rows: int
    """0: there are no data files yet."""
    num_bad: int
    """Planned rows that cannot be used."""
    num_media: int
    """Different media files and clips of all rows."""
    cache_bytes: int
    """Bytes of their frames, uncompressed."""
    basis: str
    """Where the numbers come from, in words."""
    num_questions: int = 0
    """Validation questions; 0: there are none, or their files are not there."""

    @property
    def prompt_mean(self) -> float:
        return statistics.fmean(item.tokens for item in self.prompts)

    @property
    def prompt_max(self) -> int:
        return max(item.tokens for item in self.prompts)

    @property
    def vision_mean(self) -> float:
        return statistics.fmean(item.vision for item in self.prompts)

    @property
    def vision_max(self) -> int:
        return max(item.vision for item in self.prompts)

    @property
    def example_bytes_mean(self) -> float:
        return statistics.fmean(item.example_bytes for item in self.prompts)


def planned_tokens(config: RunConfig, *, vision: VisionSpec, encoder: Encoder | None) -> Tokens:
    """The samples of a recipe's training files, or the largest that its limits allow where a file is missing.

    Args:
        encoder: counts exactly what the trainer makes; None: there is no tokenizer, and text is estimated.

    Raises:
        DataError: no row can be used.
    """
    if not all(Path(source.path).is_file() for source in config.data.train):
        return _largest(config, vision)
    rows = read_all(config.data.train)
    samples = [row.sample for row in rows if isinstance(row, ReadRow)]
    step = max(1, len(samples) // PLANNED_ROWS)
    chosen = samples[::step]
    media = {medium for sample in samples for medium in sample.media}
    processes = min(usable_cores(), 1 + len(media) // MEDIA_PER_PROCESS)
    with DecodePool(processes, config.cache.deadline_s) as pool:
        count = _exact(config, encoder, pool) if encoder else _estimate(config, vision, pool)
        with ThreadPoolExecutor(processes) as threads:
            found = list(threads.map(lambda sample: _tried(count, sample), chosen))
    good = [item for item in found if isinstance(item, Counted)]
    if not good:
        raise next(item for item in (*found, *rows) if isinstance(item, DataError))
    num_seen = len({medium for sample in chosen for medium in sample.media})
    total = sum(item.frame_bytes for item in good)
    told = (
        "counted as the trainer counts them" if encoder else "vision tokens from plans, text estimated (no tokenizer)"
    )
    return Tokens(
        prompts=tuple(good),
        num_rows=len(rows),
        num_bad=len(found) - len(good) + len(rows) - len(samples),
        num_media=len(media),
        cache_bytes=round(total / max(1, num_seen) * len(media)),
        basis=f"{len(good)} of {len(rows)} rows planned, {told}",
        num_questions=_num_questions(config),
    )


def _num_questions(config: RunConfig) -> int:
    sources = config.data.validation
    return len(read_all(sources)) if all(Path(source.path).is_file() for source in sources) else 0


def _tried(count: Callable[[Sample], Counted], sample: Sample) -> Counted | DataError:
    try:
        return count(sample)
    except DataError as error:
        return error


def _exact(config: RunConfig, encoder: Encoder, pool: DecodePool) -> Callable[[Sample], Counted]:
    data = config.data
    prepare = Preparer(
        encoder,
        _NoFrames(),
        video=data.video,
        image=data.image,
        thinking=data.thinking,
        templates=data.templates,
        max_prompt_tokens=data.max_prompt_tokens,
        dtype=getattr(torch, config.model.dtype),
        plan=pool.plan,
    )

    def count(sample: Sample) -> Counted:
        prompt = prepare.prompt(sample)
        return _counted(prompt.plans, len(prompt), encoder.vision, config)

    return count


def _estimate(config: RunConfig, vision: VisionSpec, pool: DecodePool) -> Callable[[Sample], Counted]:
    specs = media_specs(config.data)

    def count(sample: Sample) -> Counted:
        plans = [pool.plan(medium, specs[medium.kind], vision) for medium in sample.media]
        text = instruction(sample, thinking=config.data.thinking, templates=config.data.templates)
        num_text = CHAT_TOKENS + len(text.encode()) // BYTES_PER_TOKEN
        tokens = num_text + sum(plan.num_tokens + STEP_TOKENS * plan.grid_thw[0] for plan in plans)
        if tokens > config.data.max_prompt_tokens:
            raise DataError(f"a prompt of about {tokens} tokens is over data.max_prompt_tokens", where=sample.where)
        return _counted(plans, tokens, vision, config)

    return count


def _counted(plans: Sequence[MediaPlan], tokens: int, vision: VisionSpec, config: RunConfig) -> Counted:
    itemsize = getattr(torch, config.model.dtype).itemsize
    return Counted(
        tokens=tokens,
        vision=sum(plan.num_tokens for plan in plans),
        frame_bytes=sum(3 * len(plan.times_s) * plan.height * plan.width for plan in plans),
        example_bytes=sum(pixel_bytes(plan, vision, itemsize=itemsize) for plan in plans),
    )


def _largest(config: RunConfig, vision: VisionSpec) -> Tokens:
    """One prompt, with a video of the most frames and pixels that the recipe lets in."""
    spec = config.data.video
    pixels = spec.max_pixels
    if spec.total_pixels is not None:
        pixels = min(pixels, max(spec.min_pixels, spec.total_pixels // spec.max_frames))
    steps = -(-spec.max_frames // vision.temporal_patch)
    num_vision = steps * (pixels // vision.factor_px**2)
    tokens = num_vision + STEP_TOKENS * steps + CHAT_TOKENS + TEXT_TOKENS
    share = min(1.0, config.data.max_prompt_tokens / tokens)  # longer prompts are bad samples
    frames = 3 * pixels * spec.max_frames
    itemsize = getattr(torch, config.model.dtype).itemsize
    missing = next(source.path for source in config.data.train if not Path(source.path).is_file())
    found = Counted(
        tokens=round(share * tokens),
        vision=round(share * num_vision),
        frame_bytes=round(share * frames),
        example_bytes=round(share * frames * (1 + itemsize)),
    )
    return Tokens(
        prompts=(found,),
        num_rows=0,
        num_bad=0,
        num_media=0,
        cache_bytes=0,
        basis=f"{missing} is not there: every sample is taken to be a video of the most frames and pixels",
        num_questions=_num_questions(config),
    )


class _NoFrames:
    def load(self, plan: MediaPlan) -> Clip:
        raise NotImplementedError("a plan decodes nothing")
