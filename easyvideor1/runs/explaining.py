"""`easyvideor1 explain`: one sample as the model sees it, written to a folder."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.config import Settings
from easyvideor1.config_data import CacheConfig, SourceConfig
from easyvideor1.data.prompts import instruction
from easyvideor1.data.samples import read_sources
from easyvideor1.errors import DataError, UsageError
from easyvideor1.extras import need
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.runs.media import media_specs, model_vision
from easyvideor1.types import Clip, FrameSpec, Media, MediaKind, MediaPlan, Sample, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.contact_sheet import contact_sheet
from easyvideor1.video.sampling import plan_media


@dataclass(frozen=True, kw_only=True)
class Look:
    """Plan and decode one medium; picklable, for a worker process."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    cache: CacheConfig

    def __call__(self, media: Media) -> tuple[MediaPlan, Clip]:
        plan = plan_media(media, self.specs[media.kind], self.vision)
        return plan, FrameCache.open(self.cache).load(plan)


def explain(sample: Sample, settings: Settings, out: Path) -> dict[str, Any]:
    """Write explain.json, prompt.txt and a picture per medium into a folder; returns what is in explain.json.

    Raises:
        DataError: a medium cannot be read.
        UsageError: the folder cannot be written.
    """
    cache = settings.cache or CacheConfig(dir=str(out), mode="realtime_only")
    look = Look(specs=media_specs(settings.data), vision=model_vision(settings.model), cache=cache)
    seen = seen_media(sample, look, deadline_s=cache.deadline_s)
    found = _prompt(sample, [plan for plan, _ in seen], settings)
    found["media"] = [
        _describe(plan, clip) | {"sheet": f"media-{number}.png"} for number, (plan, clip) in enumerate(seen)
    ]
    try:
        _write(found, [clip for _, clip in seen], out)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
    return found


def find_sample(sources: Sequence[SourceConfig], sample_id: str) -> Sample:
    """The sample with an id, from some data files.

    Raises:
        UsageError: there is none; with the nearest ids.
    """
    bad: list[DataError] = []
    samples = {item.sample.id: item.sample for item in read_sources(sources, on_bad=bad.append)}
    if sample_id not in samples:
        near = difflib.get_close_matches(sample_id, samples, n=3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        unread = f"; {len(bad)} rows cannot be read, the first: {bad[0]}" if bad else ""
        raise UsageError(f"no sample has the id '{sample_id}' among {len(samples)}{hint}{unread}")
    return samples[sample_id]


def seen_media(sample: Sample, look: Look, *, deadline_s: float) -> list[tuple[MediaPlan, Clip]]:
    """The media of a sample, looked at in a process that may hang or die.

    Raises:
        DataError: a medium cannot be read, or takes too long.
    """
    seen = []
    with Pool(look, workers=1, deadline_s=deadline_s) as pool:
        for media in sample.media:
            try:
                seen.append(pool.call(media))
            except DataError as error:
                raise naming(error, media.name) from None
    return seen


def _prompt(sample: Sample, plans: list[MediaPlan], settings: Settings) -> dict[str, Any]:
    data = settings.data
    found: dict[str, Any] = {
        "id": sample.id,
        "where": sample.where,
        "problem_type": sample.problem_type,
        "gold": sample.gold,
        "text": instruction(sample, thinking=data.thinking, templates=data.templates),
        "prompt": None,
        "num_tokens": None,
        "num_vision_tokens": sum(plan.num_tokens for plan in plans),
        "input_ids": None,
    }
    if settings.model is not None:
        need("torch", "transformers", for_what="showing the prompt of a model")
        from easyvideor1.runs.encoders import encoder_of  # imports the tokenizer's library

        encoder = encoder_of(settings.model, system=data.system)
        prompt = encoder.encode(sample, plans, found["text"])
        found |= {"prompt": prompt.text, "num_tokens": len(prompt), "input_ids": prompt.input_ids.tolist()}
    return found


def _describe(plan: MediaPlan, clip: Clip) -> dict[str, Any]:
    return {
        "name": plan.media.name,
        "kind": plan.media.kind,
        "times_s": list(plan.times_s),
        "width": plan.width,
        "height": plan.height,
        "grid_thw": list(plan.grid_thw),
        "num_tokens": plan.num_tokens,
        "source_fps": plan.source_fps,
        "duration_s": plan.duration_s,
        "cache_key": plan.cache_key,
        "backend": clip.backend,
        "warnings": list(clip.warnings),
    }


def _write(found: dict[str, Any], clips: list[Clip], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "prompt.txt").write_text(found["prompt"] or found["text"], encoding="utf-8")
    for description, clip in zip(found["media"], clips, strict=True):
        contact_sheet(clip).save(out / description["sheet"])
    (out / "explain.json").write_text(json.dumps(found, indent=1) + "\n")
