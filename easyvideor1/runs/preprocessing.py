"""`easyvideor1 preprocess`: fill the frame cache for a data set ahead of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from easyvideor1.config import Settings
from easyvideor1.config_data import SourceConfig
from easyvideor1.data.samples import read_sources
from easyvideor1.errors import DataError, UsageError
from easyvideor1.extras import need
from easyvideor1.jobs.cluster import run_all_on_ray
from easyvideor1.jobs.pool import Outcome, run_all
from easyvideor1.report.terminal import LastingConsole
from easyvideor1.runs.media import media_specs, model_vision
from easyvideor1.types import Media
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.failures import FailureList
from easyvideor1.video.preprocess import (
    Job,
    Stored,
    StoreFrames,
    Summary,
    distinct_jobs,
    failure_row,
    shard_of,
    store_all,
    tried_twice,
)

LINE_EVERY_S = 10.0
"""Seconds between lines of progress where the output is not a terminal."""


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The processes or the cluster that decode."""

    processes: int
    """Number of processes on this machine."""
    ray: str | None = None
    """Address of a Ray cluster instead, "" for the one that the environment names or a new one; None: no cluster."""


@dataclass(frozen=True, kw_only=True)
class Preprocessed:
    """The result of a preprocessing run."""

    summary: Summary
    wall_s: float
    failed_file: Path
    """List of media that failed in this and other runs; there only if some did."""

    def as_values(self) -> dict[str, Any]:
        found = self.summary
        return {
            "total": found.total,
            "done": found.done,
            "reused": found.reused,
            "derived": found.derived,
            "failed": found.failed,
            "written_bytes": found.written_bytes,
            "evicted": found.evicted,
            "decoded_s": round(found.decoded_s, 3),
            "wall_s": round(self.wall_s, 3),
            "failed_file": str(self.failed_file) if found.failed else None,
        }


def preprocess(
    sources: Sequence[SourceConfig],
    settings: Settings,
    *,
    workers: Workers,
    shard: str | None = None,
    failed_file: Path | None = None,
) -> Preprocessed:
    """Decode every distinct medium of some data files once, into the cache; progress goes to standard error.

    Args:
        shard: "i/n", only every n-th medium, i from 1.
        failed_file: where failures are listed, beside those of runs over other data; None: failed.jsonl in the cache's
            folder.

    Raises:
        UsageError: no cache is named, or it cannot be used.
        DataError: a wrong row, where the settings do not skip them.
        RunError: the disk is full.
    """
    if settings.cache is None:
        raise UsageError("name the folder of the frame cache: --cache DIR, or a --recipe that does")
    if settings.cache.codec == "zstd":
        need("zstandard", for_what="cache.codec=zstd")
    if workers.ray is not None:
        need("ray", for_what="--ray")
    FrameCache.open(settings.cache)  # a wrong folder stops here, not in every worker
    jobs = distinct_jobs(_uses(sources, settings))
    if shard:
        jobs = shard_of(jobs, shard)
    if failed_file is None:
        name = f"failed-{shard.replace('/', '-of-')}.jsonl" if shard else "failed.jsonl"
        failed_file = Path(settings.cache.dir) / name
    started = time.monotonic()
    work = StoreFrames(specs=media_specs(settings.data), vision=model_vision(settings.model), cache=settings.cache)
    if workers.ray is None:
        run = partial(run_all, work, workers=workers.processes, deadline_s=settings.cache.deadline_s)
    else:
        run = partial(run_all_on_ray, work, deadline_s=settings.cache.deadline_s, address=workers.ray or None)
    failures = FailureList(failed_file)
    with closing(tried_twice(run, [job.media for job in jobs])) as outcomes:
        summary, stored = _follow(jobs, outcomes, failures)
    # Another shard of the same data may be writing into the same list.
    failures.settle(stored, data=[] if shard else [source.path for source in sources])
    return Preprocessed(summary=summary, wall_s=time.monotonic() - started, failed_file=failed_file)


def counts(summary: Summary) -> str:
    """The state of a summary in one line."""
    text = f"{summary.finished}/{summary.total} media: {summary.done} stored, {summary.reused} reused"
    text += f", {summary.derived} of the frames of others" if summary.derived else ""
    return f"{text}, {summary.failed} failed" if summary.failed else text


def _uses(sources: Sequence[SourceConfig], settings: Settings) -> Iterator[tuple[Media, str]]:
    """Every use of a medium by a row; wrong rows stop the job or are told and skipped, as the settings say."""
    on_bad: Callable[[DataError], None] | None = None
    if settings.data.on_bad_sample == "skip":
        on_bad = _tell_skipped
    for item in read_sources(sources, on_bad=on_bad):
        for media in item.sample.media:
            yield media, item.row.where


def _tell_skipped(error: DataError) -> None:
    sys.stderr.write(f"skipped: {error}\n")


def _follow(
    jobs: list[Job], outcomes: Iterator[Outcome[Media, Stored]], failures: FailureList
) -> tuple[Summary, list[Media]]:
    """Show the outcomes as they come, and write down those that failed; returns what is in the cache too."""
    stored: list[Media] = []
    summary = Summary(total=len(jobs), total_source_bytes=sum(job.source_bytes for job in jobs))
    console = LastingConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TextColumn("ETA"))
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
    next_line_s = time.monotonic() + LINE_EVERY_S
    with bar:
        task = bar.add_task("preprocess", total=summary.total_source_bytes)
        for job, outcome in store_all(jobs, outcomes, summary):
            if outcome.error is None:
                stored.append(job.media)
            else:
                failures.add(failure_row(job, outcome))
                bar.console.print(f"failed: {outcome.error}", markup=False, highlight=False)
            bar.update(task, advance=job.source_bytes, description=counts(summary))
            if bar.disable and time.monotonic() > next_line_s:
                sys.stderr.write(f"{counts(summary)}\n")
                next_line_s = time.monotonic() + LINE_EVERY_S
    return summary, stored
