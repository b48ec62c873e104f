"""`easyvideor1 eval score --benchmark B --annotations F.. --responses R`: scoring as a step of its own."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easyvideor1.cli.benchmarks import add_benchmark, add_protocol, add_responses
from easyvideor1.runs.benchmarks import JudgeAddress, score_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_benchmark(parser)
    add_responses(parser)
    add_protocol(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write results.json, outcomes.jsonl, protocol.json there"
    )
    parser.add_argument("--judge-url", metavar="URL", help="OpenAI-compatible endpoint of the judge; none: unscored")
    parser.add_argument("--judge-model", metavar="M", help="model of the judge (default: the one that the authors use)")
    parser.add_argument(
        "--judge-cache", metavar="DIR", default="judge-cache", help="folder of the judge's replies (judge-cache)"
    )
    parser.add_argument(
        "--json", action="store_true", help="a JSON object with the details, and last one with the result"
    )


def run(args: argparse.Namespace) -> int:
    judge = None
    if args.judge_url:
        judge = JudgeAddress(url=args.judge_url, model=args.judge_model, cache_dir=args.judge_cache)
    found, more = score_file(args.benchmark, args.annotations, args.responses, args.protocol, out=args.out, judge=judge)
    if args.json:
        print(json.dumps(more, ensure_ascii=False))
        print(json.dumps(found, ensure_ascii=False))
    else:
        _print(found, more)
    return 0


def _print(found: dict[str, Any], more: dict[str, Any]) -> None:
    console = Console()
    console.print(f"{more['benchmark']}: {found['metric']} = {more['formula']}")
    console.print(f"protocol {more['protocol']} ({more['protocol_hash']}), answers by the reading '{more['reading']}'")
    low_high = (
        "" if more["interval_95"] is None else f"  95 % [{more['interval_95'][0]:.2f}, {more['interval_95'][1]:.2f}]"
    )
    console.print(f"score {_shown(found['score'])}{low_high}")
    console.print(f"official score {_shown(found['official_score'])}; {more['num_different']} items differ")
    console.print(
        f"{found['num_items']} items: {found['num_scored']} scored, {found['num_unscored']} unscored, "
        f"{found['num_missing']} without a response, {more['coverage']['unparsed']} unparsed"
    )
    table = Table("metric", "strict", "official")
    for name, value in found["metrics"].items():
        table.add_row(name, _shown(value), _shown(more["official_metrics"].get(name)))
    console.print(table)
    _print_breakdown(console, found, more)
    for title in ("errata", "notes"):
        if more[title]:
            console.print(escape(f"{title}: {more[title]}"))
    for known in more["published"]:
        doubt = "" if known["is_verified"] else " (not verified)"
        console.print(
            escape(f"published: {known['model']} {known['metric']} {known['score']}{doubt}, {known['source']}")
        )


def _print_breakdown(console: Console, found: dict[str, Any], more: dict[str, Any]) -> None:
    for name, values in found["breakdown"].items():
        table = Table(name, "score", "items", "official items")
        for value, entry in values.items():
            official = more["counts"].get(name, {}).get(value, [None, None])[1]
            table.add_row(escape(value), _shown(entry["score"]), str(entry["num_items"]), str(official or ""))
        console.print(table)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
