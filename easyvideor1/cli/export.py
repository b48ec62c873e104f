"""`easyvideor1 export RUN --out DIR`: a trained model as a folder of its own, tokenizer included."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from easyvideor1.extras import need

EXAMPLES = ("easyvideor1 export demo-run --out trained",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a trained model as Transformers, vLLM and every model.path here read it: weights (LoRA adapters "
        "merged in), configuration, tokenizer, processor."
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        help="folder of a run, or one of its checkpoints/ folders",
    )
    parser.add_argument(
        "--step",
        default="",
        metavar="best|last|N",
        help="which checkpoint of the run (default: the best, or the last where nothing was validated)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to make")


def run(args: argparse.Namespace) -> int:
    need("torch", "transformers", for_what="export")
    from easyvideor1.runs.exporting import export  # imports torch

    chosen = export(args.run, args.out, step=args.step)
    if chosen.warning:
        print(f"warning: {chosen.warning}", file=sys.stderr)
    print(f"step {chosen.step} of {args.run}, {chosen.why}: {args.out}")
    return 0
