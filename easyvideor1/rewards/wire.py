"""Samples and scores as plain JSON values, for the pipe between the pool and its workers."""

from __future__ import annotations

import math
from typing import Any

from easyvideor1.types import Media, Sample, Score


def write_item(sample: Sample, text: str, *, overlong: float | None) -> dict[str, Any]:
    """A response to judge; of the media only what can be named goes along, no content."""
    return {
        "id": sample.id,
        "problem_type": sample.problem_type,
        "problem": sample.problem,
        "answer": sample.answer,
        "options": list(sample.options),
        "media": [
            {"kind": media.kind, "path": media.path, "start_s": media.start_s, "end_s": media.end_s, "fps": media.fps}
            for media in sample.media
        ],
        "source": sample.source,
        "where": sample.where,
        "extra": dict(sample.extra),
        "text": text,
        "overlong": overlong,
    }


def read_item(item: dict[str, Any]) -> tuple[Sample, str, float | None]:
    """The inverse of `write_item`."""
    media = tuple(
        Media(**{**entry, "path": tuple(entry["path"]) if isinstance(entry["path"], list) else entry["path"]})
        for entry in item["media"]
    )
    sample = Sample(
        id=item["id"],
        problem_type=item["problem_type"],
        problem=item["problem"],
        answer=item["answer"],
        options=tuple(item["options"]),
        media=media,
        source=item["source"],
        where=item["where"],
        extra=item["extra"],
    )
    return sample, item["text"], item["overlong"]


def write_score(score: Score) -> dict[str, Any]:
    """A score; NaN, which JSON lacks, travels as null."""
    return {
        "value": None if math.isnan(score.value) else score.value,
        "parts": dict(score.parts),
        "parsed": score.parsed,
        "status": score.status,
        "reason": score.reason,
    }


def read_score(entry: dict[str, Any]) -> Score:
    """The inverse of `write_score`."""
    return Score(**{**entry, "value": math.nan if entry["value"] is None else entry["value"]})
