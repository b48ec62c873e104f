"""Gold answers that lie outside what is seen, and offline trajectories that teach the wrong thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from easyvideor1.data.check import CheckedData, CheckedFile
from easyvideor1.data.doubts import Doubt
from easyvideor1.data.media_check import MediumFacts, Seen
from easyvideor1.data.samples import read_row
from easyvideor1.errors import DataError
from easyvideor1.rewards import router
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.registry import REGISTRY
from easyvideor1.types import Sample

GROUNDED = ("temporal grounding", "spatial grounding", "tracking", "spatial-temporal grounding", "segmentation")
TOLERANCE_S = 1.0
"""People round the end of a video up."""
NORMED_SIDE = 1000.0
"""Boxes may count in pixels of the file, or in thousandths of its sides."""
LOW_SCORE = 0.5
BATCH = 256


def doubtful_golds(data: CheckedData) -> Iterator[Doubt]:
    """Rows whose gold span or box lies outside the one medium they have."""
    for number, place in data.places():
        file = data.files[number]
        media = file.columns.media.get(place, ())
        if file.columns.problem_types[place] not in GROUNDED or len(media) != 1:
            continue
        seen = data.seen[media[0]]
        text = _outside(_sample(file, place), seen.facts) if isinstance(seen, Seen) else ""
        if text:
            yield Doubt(about="gold", file=file, place=place, text=text)


def doubtful_trajectories(data: CheckedData, rewards: RewardPool) -> Iterator[Doubt]:
    """Rows with an offline trajectory that is cut or scores low."""
    rows = [
        (file, place)
        for number, place in data.places()
        if (file := data.files[number]).columns.trajectories.get(place, 0) > 0
    ]
    for start in range(0, len(rows), BATCH):
        items = [(file, place, _sample(file, place)) for file, place in rows[start : start + BATCH]]
        stored = [(file, place, sample, text) for file, place, sample in items for text in sample.trajectories]
        scores = rewards.score([(sample, text, 0) for _, _, sample, text in stored])
        for (file, place, _, text), score in zip(stored, scores, strict=True):
            accuracy = score.parts.get("accuracy", score.value)
            if "</answer>" not in text:
                why = "ends without </answer>: cut, or in another form (give the whole response, or leave it out)"
            elif score.is_scored and accuracy < LOW_SCORE:
                why = f"is wrong: its accuracy is {accuracy:.2g} (correct it or the gold answer, or leave it out)"
            else:
                continue
            yield Doubt(about="trajectory", file=file, place=place, text=f"field 'offline_output': {why}")


def _sample(file: CheckedFile, place: int) -> Sample:
    row = file.rows.row(place)
    if isinstance(row, DataError):
        raise row
    return read_row(row, file.source)


def _outside(sample: Sample, facts: MediumFacts) -> str:
    """Why a gold answer cannot be seen in a medium; "" where it can."""
    if REGISTRY.reward_of(sample.problem_type) is not None:
        return ""
    times, boxes = _extent(sample.problem_type, router.task_of(sample).read_gold(sample))
    is_video = facts.duration_s > 0
    if is_video and times and max(times) > facts.duration_s + TOLERANCE_S:
        return (
            f"field 'answer': names second {max(times):g}, but what is seen lasts {facts.duration_s:.1f} s "
            "(count from the start of the clip)"
        )
    width, height = max(facts.width, NORMED_SIDE), max(facts.height, NORMED_SIDE)
    for box in boxes:
        if min(box) < 0 or max(box[0], box[2]) > width or max(box[1], box[3]) > height:
            return (
                f"field 'answer': the box {list(box)} lies outside the picture of {facts.width}x{facts.height} pixels "
                "(give pixels of the file, or thousandths of its sides)"
            )
    return ""


def _extent(problem_type: str, gold: Any) -> tuple[Sequence[float], Sequence[Sequence[float]]]:
    """(seconds, boxes) that a gold answer names."""
    if problem_type == "temporal grounding":
        return gold, ()
    if problem_type == "spatial grounding":
        return (), (gold,)
    if problem_type == "tracking":
        return (), tuple(gold.values())
    if problem_type == "spatial-temporal grounding":
        return gold.span, tuple(gold.boxes.values())
    return (() if gold.time_s is None else (gold.time_s,)), (gold.box,)
