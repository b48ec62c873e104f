"""`easyvideor1 data check DATA..`: everything that would stop or spoil a run, found before it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easyvideor1.cli.frame_options import (
    FrameOptions,
    add_cache_argument,
    add_data_arguments,
    add_frame_arguments,
    add_worker_arguments,
    data_sources,
    frame_options,
)
from easyvideor1.config import DataConfig, RewardConfig
from easyvideor1.data.check import CheckMedium, Report, VerdictFile, check_data
from easyvideor1.data.prompts import instruction
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import MediaPlan, Sample

SHOWN_PROBLEMS = 50
DEFAULTS = DataConfig(train=())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data_arguments(parser)
    add_cache_argument(parser)
    parser.add_argument("--verdicts", metavar="FILE", help="what is known of media (default: DATA.verdicts.jsonl)")
    parser.add_argument("--max-prompt-tokens", type=int, help="longer prompts are errors")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for warnings too")
    parser.add_argument("--json", action="store_true", help="print one line of JSON, all problems included")
    add_worker_arguments(parser)
    add_frame_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 1 if there are errors (with --strict, or warnings)."""
    options = frame_options(args)
    sources = data_sources(args, options.recipe)
    verdicts = VerdictFile(Path(args.verdicts or f"{sources[0].path}.verdicts.jsonl"))
    recipe_limit = options.recipe.data.max_prompt_tokens if options.recipe else DEFAULTS.max_prompt_tokens
    reward = options.recipe.reward if options.recipe else RewardConfig()
    with RewardPool.from_config(reward, thinking=False, max_response_tokens=0) as rewards:
        report = check_data(
            [(source.path, source.media_root) for source in sources],
            work=CheckMedium(
                specs=options.specs,
                vision=options.vision,
                known=dict(verdicts.known),
                cache=options.cache(args.cache),
            ),
            verdicts=verdicts,
            check_gold=lambda sample: rewards.check([sample]),
            prompt_tokens=_prompt_tokens(options),
            max_prompt_tokens=args.max_prompt_tokens or recipe_limit,
            workers=max(1, args.workers),
            deadline_s=args.deadline_s,
        )
    if args.json:
        print(json.dumps(_summary(report, options)))
    else:
        _print(report, options)
    return 1 if report.num_errors or (args.strict and report.problems) else 0


def _prompt_tokens(options: FrameOptions) -> Callable[[Sample, Sequence[MediaPlan]], int]:
    """Length of a prompt: exact where a model is named, its vision tokens alone where not."""
    if options.model_path is None:
        return lambda _, plans: sum(plan.num_tokens for plan in plans)
    from easyvideor1.data.encode import Encoder  # imports the tokenizer's library

    encoder = Encoder.from_pretrained(options.model_path)
    data = options.recipe.data if options.recipe else DEFAULTS
    return lambda sample, plans: len(
        encoder.encode(sample, plans, instruction(sample, thinking=data.thinking, templates=data.templates))
    )


def _summary(report: Report, options: FrameOptions) -> dict[str, object]:
    lengths = np.array(report.num_tokens or [0])
    return {
        "rows": report.num_rows,
        "errors": report.num_errors,
        "warnings": len(report.problems) - report.num_errors,
        "problems": [asdict(problem) for problem in report.problems],
        "by_problem_type": dict(report.by_problem_type),
        "by_modality": dict(report.by_modality),
        "media": {"distinct": report.media.total(), **report.media, "decoded_now": report.num_decoded},
        "tokens": {
            "of": "prompt" if options.model_path else "vision",
            "median": int(np.median(lengths)),
            "p95": int(np.quantile(lengths, 0.95)),
            "max": int(lengths.max()),
        },
    }


def _print(report: Report, options: FrameOptions) -> None:
    summary = _summary(report, options)
    console = Console()
    if report.problems:
        table = Table("", "row", "about", "what")
        for problem in sorted(report.problems, key=lambda problem: problem.level)[:SHOWN_PROBLEMS]:
            table.add_row(problem.level, escape(problem.where), problem.about, escape(problem.text))
        console.print(table)
        if len(report.problems) > SHOWN_PROBLEMS:
            console.print(f"and {len(report.problems) - SHOWN_PROBLEMS} more (--json lists all)")
    for name in ("by_problem_type", "by_modality", "media", "tokens"):
        counts = summary[name]
        assert isinstance(counts, dict)
        console.print(f"{name.replace('_', ' ')}: " + ", ".join(f"{key} {value}" for key, value in counts.items()))
    console.print(f"{report.num_rows} rows: {summary['errors']} errors, {summary['warnings']} warnings")
