"""Prompt and clips -> the patches and grids that a model's vision tower takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from easyvideor1.data.patches import BUFFERS, CHANNELS, patches
from easyvideor1.errors import MismatchError
from easyvideor1.types import Clip, Prompt, VisionSpec


def media_inputs(
    prompt: Prompt, clips: Sequence[Clip], vision: VisionSpec, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """The vision inputs of a prompt, under the names that the models take.

    Args:
        clips: one per plan of the prompt, in order.

    Returns:
        pixel_values and image_grid_thw where the prompt has images, pixel_values_videos and video_grid_thw where
        it has videos: patch rows [sum of t*h*w, columns] as `patches` makes them, grids int64 [media, 3].

    Raises:
        MismatchError: a clip is not what its plan says.
    """
    if len(clips) != len(prompt.plans):
        raise MismatchError(
            f"sample {prompt.sample.id}: {len(clips)} clips for {len(prompt.plans)} media", where=prompt.sample.where
        )
    inputs: dict[str, torch.Tensor] = {}
    for kind, rows_name, grid_name in (
        ("image", "pixel_values", "image_grid_thw"),
        ("video", "pixel_values_videos", "video_grid_thw"),
    ):
        pairs = [(plan, clip) for plan, clip in zip(prompt.plans, clips, strict=True) if plan.media.kind == kind]
        if not pairs:
            continue
        grids = torch.tensor([plan.grid_thw for plan, _ in pairs])
        ends = grids.prod(dim=1).cumsum(dim=0).tolist()
        columns = CHANNELS * vision.temporal_patch * vision.patch_px**2
        rows = BUFFERS.empty((ends[-1], columns), dtype)
        for (plan, clip), start, end in zip(pairs, [0, *ends], ends, strict=False):
            planned = (len(plan.times_s), CHANNELS, plan.height, plan.width)
            if clip.frames.shape != planned:
                raise MismatchError(
                    f"sample {prompt.sample.id}: the frames of {plan.media.name} are {list(clip.frames.shape)}, "
                    f"the plan says {list(planned)}",
                    where=prompt.sample.where,
                    remedy="decode by the same plan that made the prompt",
                )
            patches(clip.frames, vision, dtype=dtype, out=rows[start:end])
        inputs |= {rows_name: rows, grid_name: grids}
    return inputs
