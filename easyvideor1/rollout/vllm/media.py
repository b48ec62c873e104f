"""The media of an example as an engine takes them: where each stands in the prompt, its patches, its id."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import numpy as np
import torch

from easyvideor1.data.encode import seconds_per_patch
from easyvideor1.data.positions import time_interval
from easyvideor1.errors import MismatchError
from easyvideor1.model.families import POSITIONS_PER_S, VideoTime
from easyvideor1.types import Example, MediaKind, MediaPlan

PIXELS: dict[MediaKind, str] = {"image": "pixel_values", "video": "pixel_values_videos"}
GRIDS: dict[MediaKind, str] = {"image": "image_grid_thw", "video": "video_grid_thw"}
NUDGES = (0.0, 6e-8, -6e-8, 3e-7, -3e-7)
"""Relative changes of a video's seconds per patch, tried in turn: engines multiply in float64 and round down, the
models in float32, and where a product is nearly a whole number the last bit decides about a position."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Item:
    """One medium."""

    kind: MediaKind
    id: str
    """Equal for equal frames only: the engine keeps what its vision tower made of them under it."""
    start: int
    """Where in the prompt it starts: at its first vision token, or at the marker before it where a video consists of
    a grid per time."""
    is_vision: np.ndarray
    """bool [span]: which of the tokens from there to its last vision token are vision tokens."""
    tensors: dict[str, torch.Tensor]
    """Patches [patches, columns] and grid [3], under the names that the model takes; `second_per_grid_ts` where its
    positions in time follow the seconds."""


def items(
    example: Example, *, video_time: VideoTime, temporal_patch: int, positions_per_s: float = POSITIONS_PER_S
) -> list[Item]:
    """The media of a prompt, in its order.

    Args:
        video_time: of the model's family.
        positions_per_s: for families whose positions grow with the seconds of a video.

    Raises:
        MismatchError: the plans and the vision tokens of the prompt differ in number.
    """
    prompt, sample = example.prompt, example.sample
    places = np.flatnonzero(prompt.token_types)
    planned = sum(plan.num_tokens for plan in prompt.plans)
    if planned != len(places):
        raise MismatchError(
            f"sample {sample.id}: {len(places)} vision tokens in the prompt, {planned} in the plans", where=sample.where
        )
    found: list[Item] = []
    next_place, next_patch, next_grid = 0, dict.fromkeys(PIXELS, 0), dict.fromkeys(PIXELS, 0)
    for plan in prompt.plans:
        kind = plan.media.kind
        own = places[next_place : next_place + plan.num_tokens]
        next_place += plan.num_tokens
        start, end = int(own[0]), int(own[-1]) + 1
        if kind == "video" and video_time == "timestamps":
            start -= 1
        num_patches = int(np.prod(plan.grid_thw))
        patches = example.features[PIXELS[kind]][next_patch[kind] : next_patch[kind] + num_patches]
        tensors = {PIXELS[kind]: patches, GRIDS[kind]: example.features[GRIDS[kind]][next_grid[kind]]}
        next_patch[kind] += num_patches
        next_grid[kind] += 1
        if kind == "video" and video_time == "seconds":
            seconds = engine_seconds(plan, temporal_patch=temporal_patch, positions_per_s=positions_per_s)
            tensors["second_per_grid_ts"] = torch.tensor(seconds, dtype=torch.float64)
        found.append(
            Item(
                kind=kind,
                id=plan.cache_key or uuid.uuid4().hex,
                start=start,
                is_vision=prompt.token_types[start:end] != 0,
                tensors=tensors,
            )
        )
    return found


def engine_seconds(plan: MediaPlan, *, temporal_patch: int, positions_per_s: float) -> float:
    """Seconds per patch for which float64 arithmetic gives the positions that the models' float32 gives."""
    interval = time_interval(positions_per_s, seconds_per_patch(plan, temporal_patch))
    steps = np.arange(plan.grid_thw[0])
    wanted = (steps.astype(np.float32) * np.float32(interval)).astype(np.int64)
    tried = [interval / positions_per_s * (1 + nudge) for nudge in NUDGES]
    return next((item for item in tried if _fits(item * positions_per_s, steps, wanted)), tried[0])


def _fits(factor: float, steps: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(((steps * factor).astype(np.int64) == wanted).all())


def check_positions(example: Example, found: np.ndarray) -> None:
    """Compare the engine's positions of a prompt, int64 [3, L], with ours.

    Raises:
        MismatchError: they differ; names the first token where they do.
    """
    prompt, sample = example.prompt, example.sample
    if found.shape == prompt.position_ids.shape and (found == prompt.position_ids).all():
        return
    if found.shape != prompt.position_ids.shape:
        told = f"it has positions for {found.shape[-1]} tokens, the prompt has {prompt.position_ids.shape[1]}"
    else:
        place = int(np.flatnonzero((found != prompt.position_ids).any(0))[0])
        ours, theirs = prompt.position_ids[:, place].tolist(), found[:, place].tolist()
        told = f"token {place} of {found.shape[1]} stands at {theirs} there and at {ours} here (time, height, width)"
    raise MismatchError(
        f"sample {sample.id}: the engine places the prompt's tokens elsewhere: {told}",
        where=sample.where,
        remedy="this version of vLLM counts positions by another rule; see docs/vllm.md for those that were tested",
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What an engine makes of a prompt by itself, from its text and its frames."""

    input_ids: list[int]
    tensors: dict[str, torch.Tensor]
    """Patches and grids, as in `Example.features`."""


def check_reading(example: Example, reading: Reading, *, pixel_tolerance: float) -> None:
    """Compare the engine's own reading of text and frames with what it is given.

    Raises:
        MismatchError: ids, grids or patches differ; names the sample and the first difference.
    """
    told = _difference_in_ids(example.prompt.input_ids.tolist(), reading.input_ids)
    for names, tolerance in ((GRIDS, 0.0), (PIXELS, pixel_tolerance)):
        for name in names.values():
            told = told or _difference(name, example.features.get(name), reading.tensors.get(name), tolerance)
    if told is not None:
        raise MismatchError(
            f"sample {example.sample.id}: vLLM's own reading of the prompt is another one: {told}",
            where=example.sample.where,
            remedy="compare the model's processor files with what easyvideor1 explain shows for this sample",
        )


def _difference_in_ids(ours: list[int], theirs: list[int]) -> str | None:
    if ours == theirs:
        return None
    place = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        return f"{len(theirs)} tokens there, {len(ours)} here, and one is the beginning of the other"
    return (
        f"{len(theirs)} tokens there, {len(ours)} here; token {place} is {theirs[place]} there and {ours[place]} here"
    )


def _difference(name: str, ours: torch.Tensor | None, theirs: torch.Tensor | None, tolerance: float) -> str | None:
    if ours is None and theirs is None:
        return None
    if ours is None or theirs is None or ours.shape != theirs.shape:
        shapes = [None if item is None else list(item.shape) for item in (theirs, ours)]
        return f"{name} is {shapes[0]} there and {shapes[1]} here"
    gap = (ours.float() - theirs.float()).abs()
    if gap.max() <= tolerance:
        return None
    row = int(gap.flatten(1).amax(1).argmax())
    return f"{name} differs by {float(gap.max()):.3g}, most in row {row} of {len(ours)}"
