"""Write reference_plans.csv: what qwen-vl-utils and Transformers make of many clips and budgets.

    pip install --no-deps qwen-vl-utils==0.0.14 requests packaging torchvision==0.28.0
    python tests/video/reference_plans.py > tests/video/reference_plans.csv     # with transformers==5.24.0

A stored table, because both need a torchvision that fits torch. Empty cells: that one raises an error.
"""

from __future__ import annotations

import csv
import itertools
import sys
from pathlib import Path

TABLE = Path(__file__).with_suffix(".csv")
CLIP_COLUMNS = ["frames", "source_fps", "height", "width"]
BUDGET_COLUMNS = ["fps", "min_frames", "max_frames", "min_pixels", "max_pixels", "total_pixels"]
QWEN_COLUMNS = ["qwen_frames", "qwen_height", "qwen_width"]
TRANSFORMERS_COLUMNS = ["qwen2_frames", "qwen3_frames", "qwen3_height", "qwen3_width", "image_height", "image_width"]

CLIPS = [
    (1, 10.0, 64, 96),
    (3, 30.0, 480, 640),
    (5, 25.0, 720, 1280),
    (30, 10.0, 64, 96),
    (75, 29.97, 1280, 720),
    (250, 25.0, 272, 640),
    (300, 30.0, 1080, 1920),
    (2400, 2.0, 240, 320),
    (5395, 29.97, 720, 1280),
    (18_000, 30.0, 2160, 3840),
    (7, 0.5, 100, 1000),
    (120, 120.0, 33, 33),
    (2, 10.0, 64, 96),
    (4, 24.0, 360, 480),
    (47, 23.976, 1080, 1920),
    (601, 60.0, 720, 1280),
    (90, 1.0, 1600, 720),
    (86_400, 24.0, 800, 1920),
]
BUDGETS = [
    # fps, min_frames, max_frames, min_pixels, max_pixels, total_pixels
    (2.0, 4, 128, 16_384, 262_144, None),
    (1.0, 4, 64, 16_384, 131_072, None),
    (4.0, 8, 256, 3_136, 100_352, None),
    (0.5, 2, 768, 50_176, 401_408, None),
    (2.0, 4, 127, 4_096, 262_144, 6_000_000),
    (2.0, 4, 32, 4_096, 401_408, 1_000_000),
    (30.0, 4, 16, 65_536, 65_536 * 2, None),
    (2.0, 6, 128, 4_096, 50_176, 3_000_000),
    (3.3, 5, 97, 12_345, 234_567, None),
    (2.0, 16, 16, 4_096, 262_144, None),
    (1.0, 4, 768, 4_096, 602_112, 38_535_168),
    (2.0, 4, 6, 200_704, 262_144, 1_400_000),
]


def by_qwen(row: dict) -> list[int | str]:
    """Frames, height and width by qwen-vl-utils."""
    from qwen_vl_utils import vision_process  # pyright: ignore[reportMissingImports]

    options = {name: row[name] for name in ("fps", "min_frames", "max_frames")}
    factor = row["patch_px"] * 2
    try:
        num_frames = vision_process.smart_nframes(options, row["frames"], row["source_fps"])
    except ValueError:
        return [""] * 3
    # fetch_video's own lines, without the file; its total_pixels counts each pair of frames once.
    total = 0.9 * 128_000 * factor**2 if row["total_pixels"] is None else row["total_pixels"] / 2
    cap = max(min(768 * factor**2, total / num_frames * 2), int(row["min_pixels"] * 1.05))
    size = vision_process.smart_resize(
        row["height"],
        row["width"],
        factor=factor,
        min_pixels=row["min_pixels"],
        max_pixels=min(row["max_pixels"], cap),
    )
    return [num_frames, *size]


def by_transformers(row: dict) -> list[int | str]:
    """Frames of two video processors, frame size of the newer one under a cap per frame, size of an image."""
    from transformers.models.qwen2_vl import image_processing_qwen2_vl as image
    from transformers.models.qwen2_vl import video_processing_qwen2_vl as qwen2
    from transformers.models.qwen3_vl import video_processing_qwen3_vl as qwen3
    from transformers.video_utils import VideoMetadata

    factor = 2 * row["patch_px"]
    answers: list[int | str] = []
    for kind in (qwen2.Qwen2VLVideoProcessor, qwen3.Qwen3VLVideoProcessor):
        processor = kind(min_frames=row["min_frames"], max_frames=row["max_frames"])
        metadata = VideoMetadata(total_num_frames=row["frames"], fps=row["source_fps"])
        try:
            answers.append(len(processor.sample_frames(metadata, fps=row["fps"])))
        except (ValueError, ZeroDivisionError, RuntimeError):
            answers.append("")
    count = answers[1] if isinstance(answers[1], int) else 0
    cap = row["max_pixels"] if row["total_pixels"] is None else min(row["max_pixels"], row["total_pixels"] // count)
    try:
        answers += qwen3.smart_resize(
            count,
            row["height"],
            row["width"],
            factor=factor,
            min_pixels=count * row["min_pixels"],
            max_pixels=count * cap,
        )
    except ValueError:
        answers += ["", ""]
    return answers + list(image.smart_resize(row["height"], row["width"], factor, row["min_pixels"], row["max_pixels"]))


def rows() -> list[dict]:
    return [
        dict(zip(CLIP_COLUMNS, clip, strict=True))
        | dict(zip(BUDGET_COLUMNS, budget, strict=True))
        | {"patch_px": patch_px}
        for clip, budget, patch_px in itertools.product(CLIPS, BUDGETS, (14, 16))
    ]


def main() -> None:
    import torch

    # Its wheels expect a CUDA build of torch; the functions used here only need these names to exist.
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    inputs = [*CLIP_COLUMNS, *BUDGET_COLUMNS, "patch_px"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(inputs + QWEN_COLUMNS + TRANSFORMERS_COLUMNS)
    for row in rows():
        given = ["" if row[name] is None else row[name] for name in inputs]
        writer.writerow(given + by_qwen(row) + by_transformers(row))


if __name__ == "__main__":
    main()
