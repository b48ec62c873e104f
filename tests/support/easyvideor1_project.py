"""Made-up files in the formats of EasyVideoR1: rows, stored frames, a prompt template, a reward file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from easyvideor1.types import Clip


def write_frames(path: Path, clip: Clip, **changes: Any) -> Path:
    """The `.pt` file that its preprocessing would store of a clip: frames numbered one by one at the sampled rate."""
    count = len(clip.times_s)
    step_s = (clip.times_s[-1] - clip.times_s[0]) / (count - 1)
    held = {
        "frames": torch.from_numpy(clip.frames.copy()).float(),
        "metadata": {"fps": 1 / step_s, "frames_indices": list(range(count)), "total_num_frames": count},
        "sample_fps": 1 / step_s,
        "preprocess_version": "qwen3vl_patch16_v1",
    }
    torch.save(held | changes, path)
    return path


@dataclass
class Loud:
    """Something that a pickle would make a program run."""

    path: str

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (Path(self.path), "it was run"))
