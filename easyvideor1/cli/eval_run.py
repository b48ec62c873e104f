"""`easyvideor1 eval --model M --benchmarks a,b --data-root D --out O`: benchmarks answered by a model and scored."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from easyvideor1.cli.benchmarks import json_object
from easyvideor1.cli.evaluated import print_preflight, print_results, progress_line
from easyvideor1.config import ModelConfig
from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import UsageError
from easyvideor1.evals.protocol import FAMILIES
from easyvideor1.evals.status import Status
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.runs.benchmarks import JudgeAddress

if TYPE_CHECKING:
    from easyvideor1.runs.evaluating import EvalSettings

NEEDED = ("model", "benchmarks", "data_root", "out")
SHOW_EVERY_S = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("to evaluate a model")
    group.add_argument("--model", metavar="M", help="folder of the model; with --engine openai its name at the server")
    group.add_argument("--benchmarks", metavar="a,b", help="names (`easyvideor1 eval list`), or all of the data root")
    group.add_argument("--data-root", type=Path, metavar="D", help="folder of the benchmarks' downloads")
    group.add_argument("--out", type=Path, metavar="O", help="folder of answers and results; the same one goes on")
    group.add_argument(
        "--protocol", default="official", metavar="P", help=f"{', '.join(FAMILIES)}, or a YAML file (official)"
    )
    group.add_argument("--limit", type=int, metavar="N", help="only the first N items of each benchmark")
    group.add_argument("--shard", metavar="i/n", help="only every n-th video; all shards share the folder")
    group.add_argument("--engine", default="hf", help="what answers: hf, vllm or openai (hf)")
    group.add_argument("--vllm-args", type=json_object, default={}, metavar="JSON", help="of vLLM's EngineArgs")
    group.add_argument("--url", help="address of the server, for --engine openai")
    group.add_argument("--processor", metavar="DIR", help="folder of the tokenizer of a served model")
    group.add_argument("--cache", metavar="DIR", help="frame cache (O/frames); share it between models")
    group.add_argument("--workers", type=int, default=usable_cores(), metavar="N", help="processes that decode")
    group.add_argument("--deadline", type=float, default=300.0, metavar="S", help="seconds one video may take (300)")
    group.add_argument("--tokens-per-batch", type=int, default=65_536, metavar="N", help="asked at once (65536)")
    group.add_argument("--dtype", default="bfloat16", help="of the model: bfloat16, float16 or float32 (bfloat16)")
    group.add_argument("--seed", type=int, default=0, help="of sampled responses (0)")
    group.add_argument("--judge-url", metavar="URL", help="OpenAI-compatible endpoint of the judge; none: unscored")
    group.add_argument("--judge-model", metavar="M", help="its model (default: the one that the authors use)")
    group.add_argument("--judge-cache", metavar="DIR", default="judge-cache", help="its replies (judge-cache)")
    group.add_argument("--retry-failed", action="store_true", help="ask again what could not be asked before")
    group.add_argument("--ray", metavar="N", type=int, help="as N shards, tasks of a Ray cluster")
    group.add_argument("--json", action="store_true", help="print the results as one JSON object, last")


def run(args: argparse.Namespace) -> int:
    """Returns 1 if items failed or have no answer."""
    settings = _settings(args)
    console = Console(stderr=args.json)
    from easyvideor1.runs.evaluating import evaluate_benchmarks, evaluate_on_ray

    shown_s = [0.0]

    def show(status: Status) -> None:
        if status.elapsed_s - shown_s[0] >= SHOW_EVERY_S:
            shown_s[0] = status.elapsed_s
            console.print(escape(progress_line(status)))

    if args.ray:
        found = evaluate_on_ray(settings, num_shards=args.ray)
    else:
        found = evaluate_benchmarks(settings, show=show, told=lambda found: print_preflight(console, found))
    results = {name: each for name, each in found.items() if name != "run"}
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        print_results(console, results, settings.out)
    return int(any(each["coverage"]["num_failed"] or each["coverage"]["num_missing"] for each in results.values()))


def _settings(args: argparse.Namespace) -> EvalSettings:
    missing = [f"--{name.replace('_', '-')}" for name in NEEDED if getattr(args, name) is None]
    if missing:
        raise UsageError(f"give an action (`easyvideor1 eval --help`), or {', '.join(missing)} to evaluate a model")
    from easyvideor1.runs.eval_engines import EngineChoice
    from easyvideor1.runs.evaluating import EvalSettings

    judge = None
    if args.judge_url:
        judge = JudgeAddress(url=args.judge_url, model=args.judge_model, cache_dir=args.judge_cache)
    return EvalSettings(
        engine=EngineChoice(
            name=args.engine,
            model=ModelConfig(path=args.model, dtype=args.dtype),
            processor=args.processor,
            tokens_per_batch=args.tokens_per_batch,
            vllm_args=args.vllm_args,
            url=args.url,
        ),
        benchmarks=tuple(name.strip() for name in args.benchmarks.split(",") if name.strip()),
        data_root=args.data_root,
        out=args.out,
        protocol=args.protocol,
        limit=args.limit,
        shard=args.shard,
        cache=CacheConfig(dir=args.cache or str(args.out / "frames"), deadline_s=args.deadline),
        workers=args.workers,
        seed=args.seed,
        judge=judge,
        retry_failed=args.retry_failed,
    )
