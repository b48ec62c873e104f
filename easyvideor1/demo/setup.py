"""The demo's recipe and data set, put into a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from easyvideor1.config import RunConfig
from easyvideor1.demo.dataset import build_dataset
from easyvideor1.errors import UsageError
from easyvideor1.recipe import load_config
from easyvideor1.records.folder import RunFolder

MODEL = Path(__file__).parent / "model"
"""The shipped model: a Qwen3-VL of 1 M parameters."""


def demo_config(out: Path, *, seed: int, overrides: Sequence[str] = ()) -> RunConfig:
    """The demo's recipe with its paths under `out`."""
    data = out / "data"
    filled = {
        "out": str(out),
        "seed": seed,
        "model.path": str(MODEL),
        "data.train": [{"path": str(data / "train.jsonl")}],
        "data.validation": [{"path": str(data / "validation.jsonl")}],
        "cache.dir": str(out / "cache"),
    }
    return load_config("demo", [*(f"{key}={json.dumps(value)}" for key, value in filled.items()), *overrides])


def write_data(out: Path, *, seed: int) -> None:
    """Write clips, images and questions into `out`/data, once: a run that goes on finds the files it began with.

    Raises:
        UsageError: the folder holds the data of another seed, or something that is no run.
    """
    with RunFolder(out).claimed():
        marker = out / "data" / "seed.txt"
        if not marker.exists():
            build_dataset(out / "data", seed)
            marker.write_text(f"{seed}\n")
        found = marker.read_text().strip()
        if found != str(seed):
            raise UsageError(f"{out / 'data'} was made with seed {found}, not {seed}; give another --out")
