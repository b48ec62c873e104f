"""`easyvideor1 train RECIPE [a.b=c ..]`: start or continue a run."""

from __future__ import annotations

import argparse

import easyvideor1
from easyvideor1.cli.interrupts import ends_at_once
from easyvideor1.cli.settings import only_settings
from easyvideor1.extras import need_extras

EXAMPLES = ("easyvideor1 train demo-run/config.yaml out=another-run train.steps=1",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Train a model by a recipe: a YAML file, or one that ships with the package (demo, qwen3_vl_8b_video, "
        "qwen3_vl_8b_lora_offline). Any value can be overridden: easyvideor1 train qwen3_vl_8b_video out=runs/a "
        "optimizer.learning_rate=2e-6. Run the same command again to continue an interrupted run."
    )
    parser.add_argument("recipe", metavar="RECIPE", help="YAML file, or name of a shipped recipe")
    parser.add_argument("words", nargs="*", metavar="section.key=value", help="values that replace the recipe's")


def run(args: argparse.Namespace) -> int:
    only_settings(args.words)
    config = easyvideor1.load_config(args.recipe, args.words)
    need_extras(config)  # `train` does so too, but torch is imported before it, which takes seconds
    with ends_at_once():
        train = easyvideor1.train
    done = train(config)
    if done.is_first:
        print(f"report: {done.out / 'report.html'}")
    return 0
