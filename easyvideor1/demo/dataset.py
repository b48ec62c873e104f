"""The demo's data set as files: mp4 clips, PNG images, train.jsonl and validation.jsonl in EasyVideoR1's row schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from easyvideor1.demo.clips import write_clip, write_image
from easyvideor1.demo.questions import Exam, Question, image_exam, text_exam, video_exam

SIDES_PX = (64, 96)


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitSize:
    videos: int
    images: int
    texts: int


SPLITS = {
    "train": SplitSize(videos=170, images=40, texts=16),
    "validation": SplitSize(videos=70, images=20, texts=8),
}


def build_dataset(out: Path, seed: int) -> None:
    """Write the two data files and their media under `out`; the same seed gives the same files.

    Every clip and image belongs to one split only. An existing data set is overwritten file by file.
    """
    (out / "videos").mkdir(parents=True, exist_ok=True)
    (out / "images").mkdir(parents=True, exist_ok=True)
    for split, size in SPLITS.items():
        rng = Random(f"{seed}-{split}")  # text seeds are hashed the same way on every machine
        exams = [video_exam(rng) for _ in range(size.videos)]
        exams += [image_exam(rng) for _ in range(size.images)]
        exams += [text_exam(rng) for _ in range(size.texts)]
        rows = []
        for number, exam in enumerate(exams):
            rows += _rows(exam, name=f"{split}-{number:03d}", out=out, side_px=rng.choice(SIDES_PX))
        rng.shuffle(rows)
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (out / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


def _rows(exam: Exam, *, name: str, out: Path, side_px: int) -> list[dict[str, Any]]:
    scene = exam.scene
    if scene is None:
        kind, media = "text", {}
    elif scene.duration_s:
        kind, media = "video", {"videos": [f"videos/{name}.mp4"]}
        write_clip(scene, out / media["videos"][0], side_px=side_px)
    else:
        kind, media = "image", {"images": [f"images/{name}.png"]}
        write_image(scene, out / media["images"][0], side_px=side_px)
    return [
        {"problem_id": f"{name}-{place}", **row(question, kind=kind), **media}
        for place, question in enumerate(exam.questions)
    ]


def row(question: Question, *, kind: str) -> dict[str, Any]:
    """The fields of a row that do not depend on where its media lie; `kind` is video, image or text."""
    tag = "" if kind == "text" else f"<{kind}>"
    return {
        "problem": tag + question.problem,
        "problem_type": question.problem_type,
        "data_type": kind,
        "family": question.family,
        "options": list(question.options),
        "answer": question.gold,
    }
