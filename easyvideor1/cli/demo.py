"""`easyvideor1 demo`: a data set, a tiny model, GRPO and a report, on a CPU; `demo build-model` makes the model."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import easyvideor1
from easyvideor1.demo.setup import demo_config, write_data
from easyvideor1.errors import UsageError
from easyvideor1.extras import need

BUILD_MODEL = "build-model"
STAGES = ("tower", "skill", "habit")


EXAMPLES = ("easyvideor1 demo --out demo-run",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="build-model | a.b=c", help="make the model anew, or overrides of the demo's recipe"
    )
    parser.add_argument("--out", type=Path, default=Path("demo-run"), help="folder of the run, or of the model")
    parser.add_argument("--seed", type=int, default=0, help="seed of the clips and of the run, or of the model")
    parser.add_argument("--tower-steps", type=int, help="build-model: steps of the vision tower alone")
    parser.add_argument("--skill-steps", type=int, help="build-model: supervised steps on careful answers")
    parser.add_argument("--habit-steps", type=int, help="build-model: supervised steps on bad habits")
    parser.add_argument(
        "--cold", action="store_true", help="build-model: a start that does not know the asked form, for cold starts"
    )


def run(args: argparse.Namespace) -> int:
    need("torch", "transformers", for_what="the demo")
    if args.words[:1] == [BUILD_MODEL]:
        return _build_model(args)
    if given := [f"--{stage}-steps" for stage in STAGES if getattr(args, f"{stage}_steps") is not None]:
        raise UsageError(f"{', '.join(given)}: belongs to 'demo {BUILD_MODEL}'")
    config = demo_config(args.out, seed=args.seed, overrides=args.words)
    print(f"data: {args.out / 'data'}")
    write_data(args.out, seed=args.seed)
    easyvideor1.train(config)
    print(f"report: {args.out / 'report.html'}")
    return 0


def _build_model(args: argparse.Namespace) -> int:
    from easyvideor1.demo.build import COLD, SKILL_STEPS, TOWER_STEPS, USUAL, build_model

    if args.words[1:]:
        raise UsageError(f"demo {BUILD_MODEL} takes no overrides, got {' '.join(args.words[1:])}")
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
