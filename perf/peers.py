"""How other frameworks bring a video to the model, rebuilt from what they publish: qwen-vl-utils decodes, frames are
float32 in a pickled file, and each stage runs Transformers' whole video processor on them.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import torch

from easyvideor1.types import FrameSpec

if torch.version.cuda is None:
    # The wheels of torchvision expect a CUDA build of torch; its transforms only need these two names to exist.
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@cache
def reader() -> str:
    """qwen-vl-utils' first choice where it loads (it needs FFmpeg's libraries), else its second; same frames."""
    try:
        import torchcodec.decoders  # noqa: F401  # pyright: ignore[reportMissingImports]
    except (ImportError, RuntimeError):
        return "decord"
    return "torchcodec"


def decoded(path: str, spec: FrameSpec) -> tuple[torch.Tensor, dict[str, Any]]:
    """Frames as qwen-vl-utils gives them, float32 [T, 3, H, W], and its metadata."""
    os.environ["FORCE_QWENVL_VIDEO_READER"] = reader()
    from qwen_vl_utils import fetch_video  # pyright: ignore[reportMissingImports]

    ask = {
        "video": path,
        "fps": spec.fps,
        "min_frames": spec.min_frames,
        "max_frames": spec.max_frames,
        "min_pixels": spec.min_pixels,
        "max_pixels": spec.max_pixels,
        "total_pixels": spec.max_pixels * spec.max_frames,
    }
    (frames, metadata), _ = fetch_video(
        ask, image_patch_size=16, return_video_sample_fps=True, return_video_metadata=True
    )
    return frames, metadata


def save(frames: torch.Tensor, metadata: dict[str, Any], path: Path) -> None:
    """Their cache file."""
    torch.save({"frames": frames, "metadata": metadata}, path)


def load(path: Path) -> tuple[torch.Tensor, dict[str, Any]]:
    stored = torch.load(path, weights_only=False)
    return stored["frames"], stored["metadata"]


def processed(frames: torch.Tensor, metadata: dict[str, Any]) -> torch.Tensor:
    """Patch rows, float32, as each stage makes them anew."""
    options = {"do_resize": False, "do_sample_frames": False, "return_tensors": "pt"}
    return processor()(videos=[frames], video_metadata=[metadata], **options)["pixel_values_videos"]


@cache
def processor() -> Any:
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

    return Qwen3VLVideoProcessor(cap_pixels_per_frame=True)
