"""Questions about one video made ready for an engine: frames from the cache, prompts, pixels that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from easyvideor1.data.encode import Encoder
from easyvideor1.data.tags import escaped
from easyvideor1.data.vision_inputs import media_inputs
from easyvideor1.errors import DataError
from easyvideor1.evals.asking import LoadedGroup
from easyvideor1.evals.preflight import Looks
from easyvideor1.evals.protocol import prompt_text
from easyvideor1.evals.schedule import Group, Task
from easyvideor1.evals.subtitles import behind_frames, listed_in, read_subtitles
from easyvideor1.jobs.ahead import Budget
from easyvideor1.types import Example, FrameSpec, Media, MediaPlan, Sample
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.pool import DecodePool
from easyvideor1.video.stored import Stored

CHAT_TOKENS = 128
"""Most that a chat template has around a question."""
TIME_TOKENS = 16
"""Most that stand around the vision tokens of a frame: its time and two markers."""


def load_group(
    group: Group,
    *,
    stores: DecodePool,
    cache: FrameCache,
    encoder: Encoder,
    dtype: torch.dtype,
    budget: Budget,
    roots: Mapping[str, Path],
) -> LoadedGroup:
    """The questions of a group with their pixels, which they share.

    Raises:
        DataError: a medium cannot be read.
    """
    found = [_stored(medium, group.spec, stores, encoder) for medium in group.media]
    plans = [item.plan for item in found]
    num_bytes = sum(3 * len(plan.times_s) * plan.height * plan.width * dtype.itemsize for plan in plans)
    budget.take(num_bytes)
    try:
        clips = tuple(cache.load(plan) for plan in plans)
        questions: list[tuple[Task, Example | DataError]] = []
        features: dict[str, torch.Tensor] | None = None
        for task in group.tasks:
            task, said = with_subtitles(task, plans, roots[task.benchmark])
            try:
                prompt = encoder.encode(
                    sample := sample_of(task),
                    plans,
                    sample.problem,
                    system=sample.system,
                    prefix=task.prompt.prefix,
                    behind_frames=said,
                )
                if features is None:
                    features = media_inputs(prompt, clips, encoder.vision, dtype)
            except DataError as error:
                questions.append((task, error))
            else:
                questions.append((task, Example(prompt=prompt, clips=clips, features=features)))
    except BaseException:  # whatever ends the load, its bytes are free again
        budget.give_back(num_bytes)
        raise
    return LoadedGroup(
        group=group,
        questions=tuple(questions),
        frames=frames_record(plans),
        num_decoded=sum(item.is_decoded for item in found),
        give_back=partial(budget.give_back, num_bytes),
    )


def _stored(medium: Media, spec: FrameSpec, stores: DecodePool, encoder: Encoder) -> Stored:
    found: Any = stores.plan(medium, spec, encoder.vision)
    assert isinstance(found, Stored), found
    return found


def sample_of(task: Task) -> Sample:
    """The sample whose problem is the prompt, byte for byte."""
    tags = "".join(f"<{medium.kind}>" for medium in task.item.sample.media)
    return replace(
        task.item.sample,
        problem=tags + escaped(task.prompt.text),
        system=task.prompt.system or None,
        extra={**task.item.sample.extra, "prefix": task.prompt.prefix},
    )


def with_subtitles(task: Task, plans: Sequence[MediaPlan], root: Path) -> tuple[Task, list[str]]:
    """The task with the subtitles of the frames that are seen, and what stands behind each frame; where its protocol
    shows subtitles and it has any."""
    path = subtitle_file(task, root)
    if path is None or not path.exists():
        return task, []
    plan, fields = plans[0], task.item.fields
    lines = read_subtitles(path, duration_s=plan.duration_s, starts_at_s=fields.get("subtitles_start_s", 0.0))
    if task.protocol.subtitles == "listed":
        text = listed_in(path, lines, plan.times_s)
        return replace(task, prompt=prompt_text(task.item, task.protocol, subtitles=text)), []
    said = behind_frames(path, lines, plan.times_s, video_end_s=plan.duration_s)
    return replace(task, prompt=prompt_text(task.item, task.protocol, are_interleaved=True)), said


def subtitle_file(task: Task, root: Path) -> Path | None:
    """Where the subtitles of a task should lie; None where its protocol shows none, or its video has none."""
    return root / task.item.subtitles if task.protocol.subtitles != "none" and task.item.subtitles else None


def longest_tokens(tasks: Sequence[Task], looks: Looks, roots: Mapping[str, Path]) -> int:
    """Upper bound of the tokens of a prompt with its response, over all tasks whose media could be looked at."""
    return max((_most_tokens(task, looks, roots[task.benchmark]) for task in tasks), default=CHAT_TOKENS)


def _most_tokens(task: Task, looks: Looks, root: Path) -> int:
    prompt = task.prompt
    found = CHAT_TOKENS + task.protocol.decoding.max_response_tokens
    # No token is shorter than a byte.
    found += len("".join((prompt.system, prompt.text, prompt.prefix)).encode())
    if (path := subtitle_file(task, root)) is not None and path.exists():
        found += path.stat().st_size
    for medium in task.item.sample.media:
        fact = looks.facts.get((medium, task.protocol.video))
        found += 0 if fact is None else fact.num_tokens + TIME_TOKENS * fact.num_frames
    return found


def frames_record(plans: Sequence[MediaPlan]) -> dict[str, Any]:
    """What is seen of the media of a group."""
    return {
        "key": "+".join(plan.cache_key for plan in plans),
        "media": [
            {
                "file": plan.media.name,
                "start_s": plan.media.start_s,
                "end_s": plan.media.end_s,
                "times_s": [round(time_s, 3) for time_s in plan.times_s],
                "size_px": [plan.width, plan.height],
                "tokens": plan.num_tokens,
                "source_fps": plan.source_fps,
                "duration_s": plan.duration_s,
                "warnings": list(plan.warnings),
            }
            for plan in plans
        ],
    }
