"""`easyvideor1 demo`: a data set, a tiny model, GRPO and a report, on a CPU; `demo build-model` makes the model."""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import replace
from pathlib import Path

import easyvideor1
from easyvideor1.config import RunConfig, load_config
from easyvideor1.errors import UsageError
from easyvideor1.records.folder import RunFolder

PACKAGE = Path(easyvideor1.__file__).parent
RECIPE = PACKAGE / "recipes" / "demo.yaml"
MODEL = PACKAGE / "demo" / "model"
BUILD_MODEL = "build-model"
STAGES = ("tower", "skill", "habit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="build-model | a.b=c", help="make the model anew, or overrides of the demo's recipe"
    )
    parser.add_argument("--out", type=Path, default=Path("demo-run"), help="folder of the run, or of the model")
    parser.add_argument("--seed", type=int, default=0, help="of the clips and of the run, or of the model")
    parser.add_argument("--tower-steps", type=int, help="build-model: steps of the vision tower alone")
    parser.add_argument("--skill-steps", type=int, help="build-model: supervised steps on careful answers")
    parser.add_argument("--habit-steps", type=int, help="build-model: supervised steps on bad habits")
    parser.add_argument(
        "--cold", action="store_true", help="build-model: a start that does not know the asked form, for cold starts"
    )


def run(args: argparse.Namespace) -> int:
    if args.words[:1] == [BUILD_MODEL]:
        return _build_model(args)
    if given := [f"--{stage}-steps" for stage in STAGES if getattr(args, f"{stage}_steps") is not None]:
        raise UsageError(f"{', '.join(given)}: belongs to 'demo {BUILD_MODEL}'")
    config = demo_config(args.out, seed=args.seed, overrides=args.words)
    with RunFolder(args.out).claimed():
        _write_data(args.out / "data", seed=args.seed)

    from easyvideor1.runs.training import train

    train(config)
    print(f"report: {args.out / 'report.html'}")
    return 0


def demo_config(out: Path, *, seed: int, overrides: list[str]) -> RunConfig:
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
    return load_config(RECIPE, [*(f"{key}={json.dumps(value)}" for key, value in filled.items()), *overrides])


def _write_data(folder: Path, *, seed: int) -> None:
    """Write the data set once, so that a run that goes on finds the files it began with."""
    from easyvideor1.demo.dataset import build_dataset

    marker = folder / "seed.txt"
    if marker.exists():
        found = marker.read_text().strip()
        if found != str(seed):
            raise UsageError(f"{folder} was made with seed {found}, not {seed}; give another --out")
        return
    print(f"writing clips, images and questions to {folder}")
    build_dataset(folder, seed)
    marker.write_text(f"{seed}\n")


def _build_model(args: argparse.Namespace) -> int:
    from easyvideor1.demo.build import COLD, SKILL_STEPS, TOWER_STEPS, USUAL, build_model

    if args.words[1:]:
        raise UsageError(f"demo {BUILD_MODEL} takes no overrides, got {' '.join(args.words[1:])}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    habit = COLD if args.cold else USUAL
    build_model(
        args.out,
        args.seed,
        tower_steps=TOWER_STEPS if args.tower_steps is None else args.tower_steps,
        skill_steps=SKILL_STEPS if args.skill_steps is None else args.skill_steps,
        habit=habit if args.habit_steps is None else replace(habit, steps=args.habit_steps),
    )
    print(f"model: {args.out}")
    return 0
