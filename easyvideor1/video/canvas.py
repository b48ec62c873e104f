"""The wanted frames of a plan, filled in any order by whatever decodes them."""

from __future__ import annotations

import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.types import Clip, MediaPlan

TIME_TOLERANCE_S = 1e-3
"""A decoded frame this close to a planned time is the planned one."""
LEAST_USABLE_FRAC = 0.5
"""A file with a smaller share of the wanted frames than this is an error instead of a warning."""


class Canvas:
    """The wanted frames, filled in any order."""

    def __init__(self, plan: MediaPlan) -> None:
        self.plan = plan
        self.slots = {number: slot for slot, number in enumerate(plan.frame_numbers)}
        self.frames = np.empty((len(plan.frame_numbers), 3, plan.height, plan.width), np.uint8)
        self.is_filled = np.zeros(len(plan.frame_numbers), bool)
        self.warnings: list[str] = []

    @property
    def missing(self) -> list[int]:
        """Numbers of the frames that have not come yet, rising."""
        return [number for number, slot in self.slots.items() if not self.is_filled[slot]]

    @property
    def is_too_empty(self) -> bool:
        return self.is_filled.sum() < max(1, len(self.is_filled) * LEAST_USABLE_FRAC)

    def put(self, number: int, pixels: np.ndarray, *, width: int | None = None) -> None:
        """Resize uint8 [H, W, 3], or [H, line bytes] with its width in pixels, into the slot of a frame."""
        from easyvideor1.video.resize import resize  # compiled; processes that only plan need not import numba

        slot = self.slots[number]
        rows = pixels.reshape(len(pixels), -1)
        resize(rows, width=pixels.shape[1] if width is None else width, out=self.frames[slot])
        self.is_filled[slot] = True

    def clip(self) -> Clip:
        """The finished clip; frames that never came are copies of their nearest neighbour."""
        filled = np.flatnonzero(self.is_filled)
        total = len(self.is_filled)
        if self.is_too_empty:
            raise MediaError(
                f"damaged: only {len(filled)} of {total} wanted frames can be decoded", where=self.plan.media.name
            )
        for slot in np.flatnonzero(~self.is_filled):
            self.frames[slot] = self.frames[filled[np.abs(filled - slot).argmin()]]
        if len(filled) < total:
            self.warnings.append(f"{total - len(filled)} of {total} frames cannot be decoded; the nearest stands in")
        if not self.frames.any():
            self.warnings.append("every pixel of every frame is black")
        return Clip(
            frames=self.frames,
            times_s=self.plan.times_s,
            source_fps=self.plan.source_fps,
            duration_s=self.plan.duration_s,
            backend=self.plan.spec.backend,
            warnings=self.plan.warnings + tuple(self.warnings),
        )
