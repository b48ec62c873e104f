"""Frames that another project decoded, in our cache: they stand in for a video that is gone.

For each medium whose frames were taken over, CACHE/taken_over holds the plans of it: under which settings, which times
and sizes, and the key of the entry. A video that is there is always planned from its file; what is kept here is asked
only where that file is missing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.clip_file import replaced_file

FOLDER = "taken_over"
NOTE = "the video is gone; its frames were taken over from another project"
NUMBERS = ("height", "width", "source_fps", "duration_s", "cache_key", "content")


@dataclass(frozen=True)
class TakenOver:
    """The notes about frames that were taken over, in a folder; safe to use from many processes."""

    dir: Path

    def plan(self, media: Media, spec: FrameSpec, vision: VisionSpec) -> MediaPlan | None:
        """The plan of a medium whose file is missing; None where nothing is known of it.

        Raises:
            MediaError: its frames were taken over for other settings.
        """
        notes = self._read(media)
        settings = _settings(spec, vision)
        note = next((note for note in notes if note["settings"] == settings), None)
        if note is not None:
            return _planned(media, note, spec, vision)
        if not notes:
            return None
        made = notes[-1]["settings"]
        other = ", ".join(f"{name} {made[name]} instead of {settings[name]}" for name in settings
                          if made.get(name) != settings[name])  # fmt: skip
        raise MediaError(
            f"the file is missing, and its stored frames were taken over for other settings ({other})",
            where=media.name,
            remedy="use those settings, or bring the file back",
        )

    def note(self, plan: MediaPlan, vision: VisionSpec) -> None:
        """Keep a plan whose frames are in the cache."""
        path = self._path(plan.media)
        settings = _settings(plan.spec, vision)
        values = {name: getattr(plan, name) for name in NUMBERS}
        note = {"settings": settings, "times_s": plan.times_s, "source_size": plan.source_size, **values}
        notes = [other for other in self._read(plan.media) if other["settings"] != settings]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as file:
            file.write(json.dumps([*notes, note]).encode())

    def _path(self, media: Media) -> Path:
        path = media.path if isinstance(media.path, str) else "\0".join(media.path)
        text = f"{os.path.abspath(path)}\0{media.start_s}\0{media.end_s}\0{media.fps}"
        digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
        return self.dir / digest[:2] / f"{digest}.json"

    def _read(self, media: Media) -> list[dict[str, Any]]:
        try:
            notes = json.loads(self._path(media).read_bytes())
        except (OSError, ValueError):
            return []
        keys = {"settings", "times_s", "source_size", *NUMBERS}
        return [note for note in notes if isinstance(note, dict) and note.keys() >= keys]


def grid_of(num_frames: int, size: tuple[int, int], vision: VisionSpec) -> tuple[int, int, int]:
    """Patches in time, height and width of frames."""
    return (math.ceil(num_frames / vision.temporal_patch), size[0] // vision.patch_px, size[1] // vision.patch_px)


def _settings(spec: FrameSpec, vision: VisionSpec) -> dict[str, Any]:
    return {**asdict(spec), "factor_px": vision.factor_px, "temporal_patch": vision.temporal_patch}


def _planned(media: Media, note: dict[str, Any], spec: FrameSpec, vision: VisionSpec) -> MediaPlan:
    grid = grid_of(len(note["times_s"]), (note["height"], note["width"]), vision)
    width, height = note["source_size"]
    return MediaPlan(
        media=media,
        times_s=tuple(note["times_s"]),
        grid_thw=grid,
        num_tokens=math.prod(grid) // vision.merge**2,
        spec=spec,
        frame_numbers=tuple(range(len(note["times_s"]))),
        source_size=(width, height),
        warnings=(NOTE,),
        **{name: note[name] for name in NUMBERS},
    )
