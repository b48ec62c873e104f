"""A training run of a few seconds by the real command: an untrained tiny model, two clips, a picture and a text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.report.read import comparable, read_metrics
from support.warm_start import WarmProcess, warm_command

TEXTS = ["What colour is it? A. red B. blue Think in <think> tags, then give the option letter in <answer> tags."] * 50
OPTIONS = ["A. red", "B. blue"]
Rows = list[dict[str, Any]]


def write_inputs(folder: Path) -> Path:
    """The model, three media and a data file of four rows."""
    tokenizer = train_tokenizer(TEXTS)
    save(new_model(tokenizer, seed=0), tokenizer, folder / "model")
    for name in ("a.mp4", "b.mp4"):
        write_clip(scene(), folder / name, side_px=64)
    write_image(scene(), folder / "c.png", side_px=64)
    write_rows(folder / "rows.jsonl", rows())
    return folder


def scene(colour: str = "red", *, seed: int = 0) -> Scene:
    thing = Thing(colour=colour, shape="circle", x=0.3, y=0.5, radius=0.2, dx_per_s=0.1)
    return Scene(things=(thing,), duration_s=2.0, background="plain", shade=60, texture_seed=seed)


def rows() -> Rows:
    question = {"problem": "What colour is it?", "answer": "A", "problem_type": "multiple choice", "options": OPTIONS}
    return [
        {**question, "problem_id": "video-a", "videos": ["a.mp4"]},
        {**question, "problem_id": "video-b", "videos": ["b.mp4"]},
        {**question, "problem_id": "image", "images": ["c.png"]},
        {"problem": "What is 1 + 2?", "answer": "3", "problem_type": "numerical", "problem_id": "text"},
    ]


def text_rows(count: int = 4) -> Rows:
    return [
        {"problem": f"What is {n} + 2?", "answer": str(n + 2), "problem_type": "numerical", "problem_id": f"text-{n}"}
        for n in range(count)
    ]


def write_rows(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recipe(folder: Path, out: Path, *, data: str = "rows.jsonl", changes: Mapping[str, Any] | None = None) -> str:
    """Write a recipe beside `out`; returns its path.

    Args:
        changes: "section.key" -> value.
    """
    small = {"fps": 2.0, "min_frames": 2, "max_frames": 4, "min_pixels": 4096, "max_pixels": 4096}
    tree: dict[str, Any] = {
        "out": str(out),
        "model": {"path": str(folder / "model")},
        "data": {
            "train": [{"path": str(folder / data)}],
            "validation": [{"path": str(folder / data)}],
            "video": small,
            "image": small,
            "max_prompt_tokens": 1000,
            "workers": 1,
            "allow_shared_validation": True,  # the same rows, to keep this short
        },
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"n": 2, "max_response_tokens": 4},
        "optimizer": {"learning_rate": 0.001},
        "train": {"steps": 3, "prompts_per_step": 2, "stop": {"zero_reward_steps": 0}},
    }
    for key, value in (changes or {}).items():
        *sections, last = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = value
    path = out.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def start_warm(*words: str) -> WarmProcess:
    """The command in a process of its own that need not import anything first."""
    return warm_command(*words, env=environment())


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}


def start(*words: str) -> subprocess.Popen[str]:
    """The command in a process of its own, whose output comes by pipes."""
    command = [sys.executable, "-m", "easyvideor1", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def numbers(out: Path) -> list[dict[str, Any]]:
    """What two equal runs agree on."""
    return comparable(read_metrics(out / "metrics.jsonl"))


def weights(out: Path, step: int) -> bytes:
    return (out / "checkpoints" / f"step-{step:06d}" / "model" / "model.safetensors").read_bytes()
