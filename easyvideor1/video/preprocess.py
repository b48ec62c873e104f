"""Fill a frame cache ahead of a run: every distinct medium of a data set planned, decoded and stored once.

Nothing is remembered besides the cache itself, so a job that was killed goes on where it was: entries that are there
are reused, and a half-written one never has its name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import JobDied, RunError, UsageError
from easyvideor1.jobs.pool import Outcome, naming
from easyvideor1.jobs.worker import Item, Result
from easyvideor1.types import Clip, FrameSpec, Media, MediaKind, MediaPlan, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import known_files
from easyvideor1.video.sampling import plan_media
from easyvideor1.video.source import local_path

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An entry of the cache, made now or before."""

    reused: bool
    derived: bool
    """Made of the frames of another entry, not decoded."""
    written_bytes: int
    """Size of the entry; 0 where it is reused."""
    evicted: int
    """Entries that had to make room for it."""
    duration_s: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StoreFrames:
    """The work on one medium; picklable, so that it runs in any process or machine that sees the same folders."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    cache: CacheConfig
    """The frame cache to write to; its mode is ignored."""
    decode: Callable[[MediaPlan], Clip] | None = None
    """Makes the clip of a plan; None: `video.decode.decode` on one core."""

    def __call__(self, media: Media) -> Stored:
        """Make sure the frames of a medium are in the cache; errors as of `plan_media` and `FrameCache.load`."""
        config = replace(self.cache, mode="prefer_preprocessed")
        files = known_files(config)
        plan = plan_media(media, self.specs[media.kind], self.vision, files=files)
        cache = FrameCache.open(config, decode=self.decode or partial(decode, threads=1, files=files))
        warnings = plan.warnings
        if not cache.contains(plan):
            warnings = cache.load(plan).warnings
        return Stored(
            reused=cache.counters.misses == 0,  # also where another process stored it while this one waited
            derived=cache.counters.derived > 0,
            written_bytes=int(cache.counters.written_bytes),
            evicted=int(cache.counters.evicted),
            duration_s=plan.duration_s,
            warnings=warnings,
        )


@dataclass(frozen=True, kw_only=True)
class Job:
    """A distinct medium and the rows that use it."""

    media: Media
    rows: tuple[str, ...]
    """ "file:line" of each row."""
    source_bytes: int
    """Size of its file or files; 0 where they are missing (its work will say so)."""


@dataclass(kw_only=True)
class Summary:
    """Counts of a preprocessing run so far."""

    total: int
    total_source_bytes: int
    done: int = 0
    reused: int = 0
    derived: int = 0
    """Media among those done that were made of the frames of other entries instead of decoded."""
    failed: int = 0
    source_bytes: int = 0
    """Bytes of the files of all finished jobs."""
    written_bytes: int = 0
    evicted: int = 0
    """Entries removed again: above 0 the cache is too small for the data."""
    decoded_s: float = 0.0
    """Length of the media that were decoded."""

    @property
    def finished(self) -> int:
        return self.done + self.reused + self.failed

    def add(self, job: Job, outcome: Outcome[Media, Stored]) -> None:
        """Count an outcome.

        Raises:
            RunError: the job failed for a reason that stops every other too (a full disk).
        """
        if isinstance(outcome.error, RunError):
            raise outcome.error
        self.source_bytes += job.source_bytes
        stored = outcome.result
        if stored is None:
            self.failed += 1
        elif stored.reused:
            self.reused += 1
        else:
            self.done += 1
            self.written_bytes += stored.written_bytes
            self.evicted += stored.evicted
            self.derived += int(stored.derived)
            self.decoded_s += 0.0 if stored.derived else stored.duration_s


def distinct_jobs(uses: Iterable[tuple[Media, str]]) -> list[Job]:
    """One job per distinct medium (file and clip range), the largest file first so that no long one ends last.

    Args:
        uses: (medium, "file:line" of the row that shows it), as often as they occur.
    """
    rows: dict[Media, list[str]] = {}
    for media, row in uses:
        rows.setdefault(media, []).append(row)
    jobs = [Job(media=media, rows=tuple(where), source_bytes=source_bytes(media)) for media, where in rows.items()]
    return sorted(jobs, key=lambda job: job.source_bytes, reverse=True)


def shard_of(jobs: list[Job], shard: str) -> list[Job]:
    """The jobs of shard "i/n", i from 1 to n; every n-th of the size order, so that shards weigh the same.

    Raises:
        UsageError: not of that form.
    """
    index, slash, count = shard.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise UsageError(f"--shard is i/n with i from 1 to n (the first of four: 1/4), got '{shard}'")
    return jobs[int(index) - 1 :: int(count)]


def source_bytes(media: Media) -> int:
    """Size of the file or files of a medium; 0 for what is not there."""
    if media.data is not None:
        return len(media.data)
    paths = (media.path,) if isinstance(media.path, str) else media.path
    return sum(_size(local_path(path)) for path in paths)


def _size(path: Path | None) -> int:
    if path is None:
        return 0
    try:
        if os.path.isdir(path):
            return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def tried_twice(
    run: Callable[[Sequence[Item]], Generator[Outcome[Item, Result]]], items: Sequence[Item]
) -> Generator[Outcome[Item, Result]]:
    """The outcome of every item, as they come; those whose process died are tried once more at the end.

    A process may have been killed for no fault of its file: by the kernel, where memory is short.

    Args:
        run: does the work on some items in processes that can be killed (`jobs.pool.run_all`).
    """
    died: list[Item] = []
    with closing(run(items)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome.error, JobDied):
                died.append(outcome.item)
            else:
                yield outcome
    if died:
        log.warning("the processes of %d files died; these are tried once more in fresh ones", len(died))
        with closing(run(died)) as outcomes:
            yield from outcomes


def failure_row(job: Job, outcome: Outcome[Media, Stored]) -> dict[str, object]:
    """A line of failed.jsonl: the medium, why it failed, and the rows that need it."""
    return {
        "media": job.media.name,
        "kind": job.media.kind,
        "start_s": job.media.start_s,
        "end_s": job.media.end_s,
        "error": str(outcome.error),
        "wall_s": round(outcome.wall_s, 3),
        "rows": list(job.rows),
    }


def store_all(
    jobs: list[Job], outcomes: Iterable[Outcome[Media, Stored]], summary: Summary
) -> Iterator[tuple[Job, Outcome[Media, Stored]]]:
    """Follow the outcomes of the jobs' media: yields each with its job, counted in the summary."""
    by_media = {job.media: job for job in jobs}
    for outcome in outcomes:
        job = by_media[outcome.item]
        if outcome.error is not None:
            outcome = replace(outcome, error=naming(outcome.error, job.media.name))
        summary.add(job, outcome)
        yield job, outcome
