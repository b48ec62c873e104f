"""Rollouts that a run keeps for people to read, with a few frames of what the model saw."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from easyvideor1.records.jsonl import StepLines
from easyvideor1.records.responses import response_fields, sample_fields
from easyvideor1.types import Clip, Group, Prompt, Sample, Score

STRIP_FRAMES = 8
STRIP_HEIGHT_PX = 112
STRIP_GAP_PX = 2
log = logging.getLogger(__name__)


class RolloutLog:
    """Readable rollouts in a folder: `rollouts.jsonl`, and `strips/` with a few frames of what the model saw."""

    def __init__(self, folder: str | Path, *, read: Callable[[Prompt], str] = lambda prompt: prompt.text) -> None:
        """
        Args:
            read: a prompt as the model reads it.
        """
        self.folder, self._read = Path(folder), read
        (self.folder / "strips").mkdir(parents=True, exist_ok=True)
        self._lines = StepLines(self.folder / "rollouts.jsonl")

    def log(self, step: int, group: Group, clips: Sequence[Clip]) -> None:
        """Append the best and the worst rollout of a scored group (one record where all are equal).

        Args:
            step: update the group is for.
            group: with scores.
            clips: frames of the sample's media, in order; images are clips of one frame.
        """
        sample = group.prompt.sample
        strips = [self._strip(step, sample, index, clip) for index, clip in enumerate(clips)]
        rewards = [score.value for score in group.scores if score.is_scored]
        responses = [
            {
                "made_by": rollout.source,
                "stop_reason": str(rollout.stop_reason),
                "response": rollout.text,
                "value": score.value if score.is_scored else None,
            }
            for rollout, score in zip(group.rollouts, group.scores, strict=True)
        ]
        for index in _best_and_worst(group.scores):
            advantage = group.advantages[index] if group.advantages else None
            self._lines.append(
                {
                    "step": step,
                    **sample_fields(sample),
                    "prompt": self._read(group.prompt),
                    "rollout": index,
                    "made_by": group.rollouts[index].source,
                    "stop_reason": str(group.rollouts[index].stop_reason),
                    **response_fields(group.rollouts[index].text, group.scores[index]),
                    "advantage": advantage,
                    "group_rewards": rewards,
                    "group": responses,
                    "strips": [strip for strip in strips if strip],
                }
            )

    def truncate_after(self, step: int) -> None:
        """Forget later rollouts: call it once when a run goes on from a checkpoint."""
        self._lines.truncate_after(step)

    def close(self) -> None:
        self._lines.close()

    def _strip(self, step: int, sample: Sample, index: int, clip: Clip) -> dict[str, Any] | None:
        # The name is a hash: an id may hold slashes, and a sample may come again at another step.
        name = f"{step:06d}-{hashlib.sha256(sample.id.encode()).hexdigest()[:12]}-{index}.jpg"
        chosen = spread(len(clip.frames), STRIP_FRAMES)
        try:
            save_strip(self.folder / "strips" / name, clip.frames[chosen])
        except (OSError, ValueError) as error:  # a picture for people must not end a run
            log.warning("no frame strip for sample %s at step %d: %s", sample.id, step, error)
            return None
        return {"file": f"strips/{name}", "times_s": [clip.times_s[i] for i in chosen], "frames": len(clip.frames)}


def spread(count: int, most: int) -> list[int]:
    """Up to `most` of the indices 0 .. count-1, evenly spread, first and last among them.

    >>> spread(3, 8), spread(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    if count <= most:
        return list(range(count))
    return [round(index * (count - 1) / (most - 1)) for index in range(most)] if most > 1 else [0][:most]


def save_strip(path: Path, frames: np.ndarray) -> None:
    """Save frames side by side as one JPEG, shrunk to at most STRIP_HEIGHT_PX.

    Args:
        path: where to.
        frames: uint8 [T, 3, H, W], T >= 1.
    """
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[1] != 3 or not len(frames):
        raise ValueError(f"a strip is made of uint8 [T, 3, H, W] frames, got {frames.dtype} {list(frames.shape)}")
    _, _, height, width = frames.shape
    shrunk = (max(1, round(width * min(1.0, STRIP_HEIGHT_PX / height))), min(height, STRIP_HEIGHT_PX))
    pitch = shrunk[0] + STRIP_GAP_PX
    strip = Image.new("RGB", (pitch * len(frames) - STRIP_GAP_PX, shrunk[1]), "grey")
    for index, frame in enumerate(frames):
        image = Image.fromarray(np.ascontiguousarray(frame.transpose(1, 2, 0)))
        strip.paste(image.resize(shrunk, Image.Resampling.LANCZOS), (index * pitch, 0))
    strip.save(path, quality=88, subsampling=0)


def _best_and_worst(scores: Sequence[Score]) -> list[int]:
    """Indices of the rollouts to show; an unscored one is always worth a look, so it counts as the worst."""
    values = [score.value if score.is_scored else -1.0 for score in scores]
    best, worst = values.index(max(values)), values.index(min(values))
    return [best] if values[best] == values[worst] else [best, worst]
