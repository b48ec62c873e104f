"""`easyvideor1 data filter DATA.. --model M --k 8 --out DIR`: keep the rows that a model solves sometimes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from easyvideor1.cli.frame_options import add_data_arguments, add_frame_arguments, data_sources, frame_options
from easyvideor1.config import CacheConfig, DataConfig, RewardConfig, RolloutConfig, SourceConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.errors import UsageError
from easyvideor1.filter.pass_rate import Bounds, Failure, RateFile, Row, check_settings, collected, load_rows, select
from easyvideor1.records.jsonl import write_objects
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import FrameSpec, MediaKind
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.pool import DecodePool

BAR_WIDTH = 40
SHOWN_FAILURES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Sample k responses of a model to every row, and keep the rows whose pass rate lies between --min and --max. "
        "A row's pass rate is the mean accuracy of its responses; with --threshold it is the share of responses of at "
        "least that accuracy. Writes kept.jsonl, dropped.jsonl, failed.jsonl and summary.json into DIR. Run the same "
        "command again after an interruption, or with other bounds: what was sampled is in rates.jsonl and is reused."
    )
    add_data_arguments(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="folder of the results")
    parser.add_argument("--k", type=int, default=8, help="responses per row (default: 8)")
    parser.add_argument("--min", type=float, default=0.0, dest="low", metavar="P", help="keep rates above this (0)")
    parser.add_argument("--max", type=float, default=1.0, dest="high", metavar="P", help="keep rates below this (1)")
    parser.add_argument("--inclusive", action="store_true", help="keep rates equal to --min or --max too")
    parser.add_argument("--threshold", type=float, metavar="A", help="a response of at least this accuracy passes")
    parser.add_argument(
        "--collect",
        action="store_true",
        help="write collected.jsonl: every row to which a response was right and well-formed, with the shortest such "
        "response as its offline trajectory (in place of those that the row had)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N readable rows")
    parser.add_argument("--cache", metavar="DIR", help="frame cache to read from and fill (default: the recipe's)")
    parser.add_argument("--max-prompt-tokens", type=int, help="longer prompts are bad rows")
    parser.add_argument("--max-response-tokens", type=int)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--tokens-per-batch", type=int, help="tokens in memory while sampling (see the recipe's)")
    parser.add_argument(
        "--dtype", choices=["float32", "bfloat16"], help="of the model (default: the recipe's, float32)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the summary as one line of JSON")
    add_frame_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 0 if every row has a pass rate, 1 if some have none."""
    bounds = Bounds(low=args.low, high=args.high, inclusive=args.inclusive)
    job = _job(args)
    out = Path(args.out)
    console = Console(stderr=args.json)
    with RewardPool.from_config(
        job.reward, thinking=job.data.thinking, max_response_tokens=job.max_response_tokens
    ) as pool:
        rows, failures = load_rows(job.sources, lambda sample: pool.check([sample]))
        rows = rows[: args.limit]
        check_settings(out / "settings.json", job.settings())
        rates = RateFile(out / "rates.jsonl")
        with _progress(console, total=len(rows)) as advance:
            for num_done, failed in _measure(rows, job, pool=pool, rates=rates):
                failures += failed
                advance(num_done)
    kept, dropped = select(rows, rates, bounds=bounds, threshold=args.threshold)
    files: dict[str, list[Any]] = {"kept": kept, "dropped": dropped, "failed": [asdict(item) for item in failures]}
    if args.collect:
        files["collected"] = list(collected(rows, rates, threshold=args.threshold))
    for name, items in files.items():
        write_objects(out / f"{name}.jsonl", items)
    summary: dict[str, Any] = {name: len(items) for name, items in files.items()}
    summary |= {"out": str(out), "media_root": str(job.media_root)}
    write_objects(out / "summary.json", [summary])
    if args.json:
        print(json.dumps(summary))
    else:
        _print(console, summary, kept=kept, dropped=dropped, failures=failures)
    return 1 if failures else 0


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What is measured and how: by the options, or else the recipe, or else the defaults."""

    sources: Sequence[SourceConfig]
    media_root: Path
    """Where the relative media paths of all sources start."""
    model_path: str
    dtype: str
    specs: Mapping[MediaKind, FrameSpec]
    cache: CacheConfig | None
    k: int
    temperature: float
    top_p: float
    top_k: int
    max_response_tokens: int
    tokens_per_batch: int
    seed: int
    data: DataConfig
    reward: RewardConfig

    def settings(self) -> dict[str, Any]:
        """All that responses and their accuracies depend on, beside the rows and their media."""
        plain = ("dtype", "k", "temperature", "top_p", "top_k", "max_response_tokens", "seed")
        return {
            "model": str(Path(self.model_path).resolve()),
            # A model that was trained further or built anew in the same folder is another model.
            "weights": sorted(
                (file.name, file.stat().st_size, file.stat().st_mtime_ns)
                for file in Path(self.model_path).glob("*.safetensors")
            ),
            "frames": {kind: to_tree(spec) for kind, spec in self.specs.items()},
            "thinking": self.data.thinking,
            "templates": self.data.templates,
            "reward": to_tree(self.reward),
            **{name: getattr(self, name) for name in plain},
        }


def _job(args: argparse.Namespace) -> _Job:
    options = frame_options(args)
    recipe = options.recipe
    if options.model_path is None:
        raise UsageError("name the model that answers: --model FOLDER, or a --recipe that does")
    rollout = recipe.rollout if recipe else RolloutConfig()
    data = recipe.data if recipe else DataConfig(train=())
    temperature = rollout.temperature if args.temperature is None else args.temperature
    if args.k < 1 or temperature < 0 or (args.k > 1 and temperature == 0):
        raise UsageError(
            f"--k {args.k} responses at --temperature {temperature:g}: k must be >= 1, and the temperature > 0 where "
            "k > 1 (at 0 all responses are the same)"
        )
    # Of a recipe only the training files: validation questions are not chosen by what the model can answer.
    sources = data_sources(args, recipe) if args.data or recipe is None else recipe.data.train
    cache = options.cache(args.cache)
    return _Job(
        sources=sources,
        media_root=_media_root(sources),
        model_path=options.model_path,
        dtype=args.dtype or (recipe.model.dtype if recipe else "float32"),
        specs=options.specs,
        cache=cache,
        k=args.k,
        temperature=temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        max_response_tokens=args.max_response_tokens or rollout.max_response_tokens,
        tokens_per_batch=args.tokens_per_batch or rollout.tokens_per_batch,
        seed=args.seed,
        data=replace(data, max_prompt_tokens=args.max_prompt_tokens or data.max_prompt_tokens),
        reward=recipe.reward if recipe else RewardConfig(),
    )


def _media_root(sources: Sequence[SourceConfig]) -> Path:
    """The one folder that relative media paths start from; the rows of all files end up in one."""
    roots = {Path(source.media_root or Path(source.path).parent).resolve() for source in sources}
    if len(roots) > 1:
        raise UsageError(
            f"relative media paths start from {' and '.join(sorted(map(str, roots)))}, which one result file cannot "
            "say; filter the data files one by one, each with its own --out, or give --media-root"
        )
    return roots.pop()


def _measure(
    rows: Sequence[Row], job: _Job, *, pool: RewardPool, rates: RateFile
) -> Iterator[tuple[int, list[Failure]]]:
    if all(rates.get(row) is not None for row in rows):
        yield len(rows), []  # other bounds for known rates: the model is not needed
        return
    import torch  # heavy imports, which the other actions on data need not wait for
    import transformers
    from transformers import AutoModelForImageTextToText

    from easyvideor1.data.encode import Encoder
    from easyvideor1.data.prepare import Preparer
    from easyvideor1.filter.measure import measure
    from easyvideor1.rollout.engine import Sampling
    from easyvideor1.rollout.hf import HFEngine

    transformers.logging.disable_progress_bar()
    encoder = Encoder.from_pretrained(job.model_path)
    dtype = getattr(torch, job.dtype)
    model = AutoModelForImageTextToText.from_pretrained(job.model_path, dtype=dtype, local_files_only=True)
    model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))  # type: ignore[arg-type]
    cache = job.cache or CacheConfig(dir=".", mode="realtime_only")
    with DecodePool(1, cache.deadline_s) as decoder:
        prepare = Preparer(
            encoder,
            FrameCache.open(cache, decode=decoder.decode),
            video=job.specs["video"],
            image=job.specs["image"],
            thinking=job.data.thinking,
            templates=job.data.templates,
            max_prompt_tokens=job.data.max_prompt_tokens,
            dtype=dtype,
            plan=decoder.plan,
        )
        yield from measure(
            rows,
            prepare=prepare,
            engine=HFEngine(model, encoder, tokens_per_batch=job.tokens_per_batch),
            score=pool.score,
            sampling=Sampling(
                n=job.k,
                temperature=job.temperature,
                top_p=job.top_p,
                top_k=job.top_k,
                max_response_tokens=job.max_response_tokens,
            ),
            seed=job.seed,
            rates=rates,
        )


@contextmanager
def _progress(console: Console, *, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of rows that are done; nothing where the output is not a terminal."""
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda num_done: bar.advance(task, num_done)


def _print(
    console: Console,
    summary: Mapping[str, Any],
    *,
    kept: Sequence[Mapping[str, Any]],
    dropped: Sequence[Mapping[str, Any]],
    failures: Sequence[Failure],
) -> None:
    if kept or dropped:
        console.print(_histogram([row["pass_rate"] for row in kept], [row["pass_rate"] for row in dropped]))
    for failure in failures[:SHOWN_FAILURES]:
        console.print(escape(f"no pass rate: {failure.where}: {failure.error.removeprefix(f'{failure.where}: ')}"))
    if len(failures) > SHOWN_FAILURES:
        console.print(f"and {len(failures) - SHOWN_FAILURES} more in failed.jsonl")
    counts = ", ".join(f"{value} {name}" for name, value in summary.items() if isinstance(value, int))
    console.print(escape(f"{len(kept) + len(dropped) + len(failures)} rows: {counts}; in {summary['out']}"))
    console.print(escape(f"use them with media_root: {summary['media_root']}"))


def _histogram(kept: Sequence[float], dropped: Sequence[float]) -> Table:
    """Rows by pass rate; 0 and 1 have bars of their own: a group that always or never passes teaches nothing."""
    names = ["0", *(f"0.{tenth} - {(tenth + 1) / 10:.1f}" for tenth in range(10)), "1"]
    counts = {name: [0, 0] for name in names}
    for place, rates in enumerate((kept, dropped)):
        for rate in rates:
            counts[names[0 if rate == 0 else 11 if rate == 1 else 1 + int(rate * 10)]][place] += 1
    scale = BAR_WIDTH / max(map(sum, counts.values()))
    table = Table("pass rate", Column("rows", justify="right"), Column("kept", justify="right"), "")
    for name, (num_kept, num_dropped) in counts.items():
        bar = f"[green]{'#' * round(num_kept * scale)}[/green][dim]{'-' * round(num_dropped * scale)}[/dim]"
        table.add_row(name, str(num_kept + num_dropped), str(num_kept), bar)
    return table
