"""`easyvideor1 reward score CASES.jsonl --out SCORES.jsonl` and `reward test DATA`: the grader by hand."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from easyvideor1.cli.settings import add_settings, only_settings, read_settings
from easyvideor1.data.samples import read_samples
from easyvideor1.errors import DataError, UsageError
from easyvideor1.runs.reward_cases import RewardSetup, counts_of, exit_code, score_cases, try_rewards

SHOWN_MISTAKES = 10


EXAMPLES = ("easyvideor1 reward test demo-run/data/train.jsonl",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    score = actions.add_parser("score", help="score responses: one JSON row in, one out")
    score.add_argument("data", metavar="CASES.jsonl", help="rows of id, problem_type, ground_truth and response")
    score.add_argument("--out", required=True, type=Path, metavar="SCORES.jsonl", help="file to write")
    test = actions.add_parser("test", help="gold answers must score 1, those of other questions little, empty ones 0")
    test.add_argument("data", metavar="DATA", help="a training or evaluation data file")
    for action in (score, test):
        add_settings(action, data=False)
        action.add_argument("--thinking", action="store_true", help="a response must think before it answers")


def run(args: argparse.Namespace) -> int:
    """Returns 1 where nothing could be scored, or a gold answer is not worth what it should be."""
    only_settings(args.words)
    setup = RewardSetup.of(read_settings(args))
    setup = replace(setup, thinking=args.thinking or (args.recipe is not None and setup.thinking))
    return _score(Path(args.data), args.out, setup) if args.action == "score" else _test(Path(args.data), setup)


def _score(cases: Path, out: Path, setup: RewardSetup) -> int:
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: the folder {out.parent} does not exist; make it first")
    results = score_cases(cases, setup)
    with out.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    failed = [result for result in results if result["status"] != "scored"]
    for result in failed[:SHOWN_MISTAKES]:
        print(f"{result['id']}: {result['status']}: {result['reason']}")
    if len(failed) > SHOWN_MISTAKES:
        print(f"and {len(failed) - SHOWN_MISTAKES} more; {out} has all reasons")
    counts = sorted(counts_of(results).items())
    print(f"{len(results)} responses: " + ", ".join(f"{count} {status}" for status, count in counts))
    return exit_code(results)


def _test(data: Path, setup: RewardSetup) -> int:
    unreadable: list[DataError] = []
    trial = try_rewards(read_samples(data, on_bad=unreadable.append), setup)
    bad = [*map(str, unreadable), *trial.bad]
    names = sorted({name for one in trial.types for name in one.parts})
    table = Table("problem type", "rows", "gold", "other gold", "empty", *names, "verdict")
    for one in trial.types:
        means = ("-" if mean is None else f"{mean:.3f}" for mean in (one.gold, one.other, one.empty))
        parts = (f"{one.parts[name]:.3f}" if name in one.parts else "-" for name in names)
        table.add_row(one.problem_type, str(one.num_rows), *means, *parts, one.verdict)
    Console().print(table)
    for line in [*trial.mistakes[:SHOWN_MISTAKES], *bad[:SHOWN_MISTAKES]]:
        print(line)
    if bad:
        print(f"{len(bad)} rows could not be tried; `easyvideor1 data clean` lists them and writes the others")
    return 1 if bad else trial.exit_code
