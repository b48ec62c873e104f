"""`easyvideor1 data check DATA..`: everything that would stop or spoil a run, found before it starts."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from easyvideor1.cli.settings import add_settings, add_worker_arguments, data_sources, is_setting, read_settings
from easyvideor1.data.report import Report
from easyvideor1.runs.checking import check_files, summary

SHOWN_PROBLEMS = 50


EXAMPLES = ("easyvideor1 data check demo-run/data/train.jsonl data.max_prompt_tokens=4096",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_settings(parser)
    parser.add_argument("--verdicts", metavar="FILE", help="results about media (default: DATA.verdicts.jsonl)")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for warnings too")
    parser.add_argument("--json", action="store_true", help="print one line of JSON, all problems included")
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 1 if there are errors (with --strict, or warnings)."""
    settings = read_settings(args)
    has_files = any(not is_setting(word) for word in args.words)
    training_only = bool(settings.data.train) and not has_files
    sources = data_sources(args, settings, training_only=training_only)
    validation = settings.data.validation if training_only else ()
    verdicts = Path(args.verdicts) if args.verdicts else None
    report = check_files(sources, settings, validation=validation, verdicts=verdicts, workers=args.workers)
    found = summary(report, settings)
    if args.json:
        print(json.dumps(found | {"problems": [asdict(problem) for problem in report.problems]}))
    else:
        _print(report, found)
    return 1 if report.num_errors or (args.strict and report.problems) else 0


def _print(report: Report, found: dict[str, Any]) -> None:
    console = Console()
    for problem in sorted(report.problems, key=lambda problem: problem.level)[:SHOWN_PROBLEMS]:
        colour = "red" if problem.level == "error" else "yellow"
        text = escape(f"{problem.where}: {problem.text}")
        console.print(f"[{colour}]{problem.level}[/{colour}]: {text}", soft_wrap=True, highlight=False)
    if len(report.problems) > SHOWN_PROBLEMS:
        console.print(f"and {len(report.problems) - SHOWN_PROBLEMS} more (--json lists all)")
    for name in ("by_problem_type", "by_modality", "media", "tokens", "unknown_keys"):
        counts = ", ".join(f"{key} {value}" for key, value in found[name].items())
        console.print(f"{name.replace('_', ' ')}: {counts}")
    console.print(f"{report.num_rows} rows: {found['errors']} errors, {found['warnings']} warnings")
