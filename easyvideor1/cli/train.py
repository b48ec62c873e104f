"""`easyvideor1 train RECIPE [a.b=c ..]`: start or continue a run."""

from __future__ import annotations

import argparse

from easyvideor1.config import load_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Train a model by a recipe (a YAML file; see recipes/). Any value can be overridden: "
        "easyvideor1 train recipes/demo.yaml out=runs/a optimizer.learning_rate=2e-6. "
        "Run the same command again to continue an interrupted run."
    )
    parser.add_argument("recipe", help="YAML file of the run")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="values that replace the recipe's")


def run(args: argparse.Namespace) -> int:
    config = load_config(args.recipe, args.overrides)
    from easyvideor1.runs.training import train  # imports torch

    done = train(config)
    print(f"report: {done.out / 'report.html'}")
    return 0
