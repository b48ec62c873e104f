"""`easyvideor1 reward score CASES.jsonl --out SCORES.jsonl` and `reward test DATA`: the grader by hand."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from easyvideor1.cli.settings import add_settings, only_settings, read_settings
from easyvideor1.errors import UsageError
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.reward_cases import mean, score_cases, try_golds

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
    only_settings(args.words)
    settings = read_settings(args)
    thinking = args.thinking or (args.recipe is not None and settings.data.thinking)
    with RewardPool.from_config(settings.reward, thinking=thinking, max_response_tokens=0) as pool:
        return _score(Path(args.data), args.out, pool) if args.action == "score" else _test(Path(args.data), pool)


def _score(cases: Path, out: Path, pool: RewardPool) -> int:
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: the folder {out.parent} does not exist; make it first")
    results = score_cases(cases, pool)
    with out.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(result, ensure_ascii=False) + "\n" for result in results)
    counts = Counter(result["status"] for result in results)
    print(f"{len(results)} responses: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    return 0


def _test(data: Path, pool: RewardPool) -> int:
    tried = try_golds(data, pool)
    table = Table("problem type", "rows", "gold", "other gold", "empty", "verdict")
    for trial in tried.trials:
        means = (f"{mean(part):.3f}" if part else "-" for part in (trial.golds, trial.others, trial.empty))
        table.add_row(trial.problem_type, str(trial.num_rows), *means, trial.verdict)
    Console().print(table)
    mistakes = [mistake for trial in tried.trials for mistake in trial.mistakes]
    for sample, what, score in mistakes[:SHOWN_MISTAKES]:
        print(f"{sample.where}: {what} scores {score.parts.get('accuracy')} ({score.reason or score.parsed})")
    for error in tried.bad[:SHOWN_MISTAKES]:
        print(f"not tried: {error}")
    if tried.bad:
        print(f"{len(tried.bad)} rows could not be tried; `easyvideor1 data clean` lists them and writes the others")
    return 1 if mistakes or tried.bad else 0
