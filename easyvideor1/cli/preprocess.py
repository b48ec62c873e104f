"""`easyvideor1 preprocess DATA.. --cache DIR`: decode every video of a data set once, ahead of training."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from easyvideor1.cli.frame_options import (
    FrameOptions,
    add_cache_argument,
    add_data_arguments,
    add_frame_arguments,
    add_worker_arguments,
    data_sources,
    frame_options,
)
from easyvideor1.data.schema import read_samples
from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.cluster import run_all_on_ray
from easyvideor1.jobs.pool import run_all
from easyvideor1.types import Media
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.codecs import CODECS
from easyvideor1.video.preprocess import (
    Job,
    StoreFrames,
    Summary,
    distinct_jobs,
    failure_row,
    shard_of,
    store_all,
)

LINE_EVERY_S = 10.0
"""Seconds between lines of progress where the output is not a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Decode, sample and resize every distinct video and image of a data set into the frame cache. "
        "Run the same command again after an interruption: what is stored is reused."
    )
    add_data_arguments(parser)
    add_cache_argument(parser)
    parser.add_argument("--codec", choices=list(CODECS), help="how frames are packed (default: raw, memory-mapped)")
    parser.add_argument("--shard", metavar="I/N", help="do only the I-th of N equal parts, I from 1 (job arrays)")
    parser.add_argument("--ray", nargs="?", const="", metavar="ADDRESS", help="run on a Ray cluster (extra: ray)")
    parser.add_argument("--failed", metavar="FILE", help="where failures are written (default: failed.jsonl in DIR)")
    parser.add_argument("--json", action="store_true", help="print the summary as one line of JSON")
    add_worker_arguments(parser)
    add_frame_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 0 if every medium is in the cache, 1 if some failed."""
    options = frame_options(args)
    work = _work(args, options)
    jobs = distinct_jobs(_uses(args, options))
    if args.shard:
        jobs = shard_of(jobs, args.shard)
    failed_path = Path(args.failed) if args.failed else Path(work.cache.dir) / _failed_name(args.shard)
    started = time.monotonic()
    summary = _store(args, work, jobs, failed_path)
    if not summary.failed and failed_path.is_file():
        failed_path.unlink()  # of an earlier run
    _report(args, summary, failed_path, wall_s=time.monotonic() - started)
    return 1 if summary.failed else 0


def _work(args: argparse.Namespace, options: FrameOptions) -> StoreFrames:
    cache = options.cache(args.cache)
    if cache is None:
        raise UsageError("name the folder of the frame cache: --cache DIR, or a --recipe that does")
    cache = replace(cache, codec=args.codec or cache.codec)
    FrameCache.open(cache)  # a wrong folder or a missing package stops here, not in every worker
    return StoreFrames(specs=options.specs, vision=options.vision, cache=cache)


def _uses(args: argparse.Namespace, options: FrameOptions) -> Iterator[tuple[Media, str]]:
    for source in data_sources(args, options.recipe):
        for sample in read_samples(source.path, media_root=source.media_root, on_bad=_policy(options)):
            for media in sample.media:
                yield media, sample.where


def _policy(options: FrameOptions) -> Callable[[DataError], None] | None:
    """What is done about wrong rows: what the recipe says, or nothing is done at all."""
    if options.recipe is None or options.recipe.data.on_bad_sample == "error":
        return None
    return lambda error: print(f"skipped: {error}", file=sys.stderr)


def _failed_name(shard: str | None) -> str:
    return f"failed-{shard.replace('/', '-of-')}.jsonl" if shard else "failed.jsonl"


def _store(args: argparse.Namespace, work: StoreFrames, jobs: list[Job], failed_path: Path) -> Summary:
    media = [job.media for job in jobs]
    if args.ray is not None:
        outcomes = run_all_on_ray(work, media, deadline_s=args.deadline_s, address=args.ray or None)
    else:
        outcomes = run_all(work, media, workers=max(1, args.workers), deadline_s=args.deadline_s)
    summary = Summary(total=len(jobs), total_source_bytes=sum(job.source_bytes for job in jobs))
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    next_line_s = time.monotonic() + LINE_EVERY_S
    with bar, closing(outcomes):
        task = bar.add_task("preprocess", total=summary.total_source_bytes)
        for job, outcome in store_all(jobs, outcomes, summary):
            if outcome.error is not None:
                _note(failed_path, failure_row(job, outcome), is_first=summary.failed == 1)
                bar.console.print(f"failed: {outcome.error}", markup=False, highlight=False)
            bar.update(task, advance=job.source_bytes, description=_counts(summary))
            if bar.disable and time.monotonic() > next_line_s:
                print(_counts(summary), file=sys.stderr, flush=True)
                next_line_s = time.monotonic() + LINE_EVERY_S
    return summary


def _note(path: Path, row: dict[str, object], *, is_first: bool) -> None:
    """Add a line to the list of failures; the first replaces what an earlier run left."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if is_first else "a") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot write the list of failures: {error.strerror} (use --failed FILE)") from None


def _counts(summary: Summary) -> str:
    counts = f"{summary.finished}/{summary.total} media: {summary.done} stored, {summary.reused} reused"
    return f"{counts}, {summary.failed} failed" if summary.failed else counts


def _report(args: argparse.Namespace, summary: Summary, failed_path: Path, *, wall_s: float) -> None:
    if args.json:
        result = {
            "total": summary.total,
            "done": summary.done,
            "reused": summary.reused,
            "failed": summary.failed,
            "written_bytes": summary.written_bytes,
            "evicted": summary.evicted,
            "decoded_s": round(summary.decoded_s, 3),
            "wall_s": round(wall_s, 3),
            "failed_file": str(failed_path) if summary.failed else None,
        }
        print(json.dumps(result))
        return
    pace = f"{summary.decoded_s:.0f} s of media in {wall_s:.1f} s" if summary.done else f"{wall_s:.1f} s"
    print(f"{_counts(summary)}; {summary.written_bytes / 1e6:.1f} MB written; {pace}")
    if summary.evicted:
        print(f"warning: {summary.evicted} entries were removed again; cache.max_bytes is too small for these data")
    if summary.failed:
        print(f"reasons: {failed_path}")
