"""Everything that can be wrong with a data set, found before a run: rows, media, gold answers, prompt lengths.

A medium is decoded at most once: what was found is kept in a verdict file by the plan's key, which changes with the
file's content, the frame settings and the decoder.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from easyvideor1.config import CacheConfig
from easyvideor1.data.schema import parse_row, rows_or_errors
from easyvideor1.errors import DataError, EasyVideoError, UsageError
from easyvideor1.jobs.pool import Outcome, naming, run_all
from easyvideor1.types import Clip, FrameSpec, Media, MediaKind, MediaPlan, Sample, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import known_files
from easyvideor1.video.preprocess import tried_twice
from easyvideor1.video.sampling import plan_media

log = logging.getLogger(__name__)

NO_CACHE = CacheConfig(dir=".", mode="realtime_only")
About = Literal["row", "media", "gold", "length"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, or looks it."""

    level: Literal["error", "warning"]
    about: About
    where: str
    """ "file:line" of the row."""
    sample_id: str
    """ "" where the row could not be read."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a medium can be decoded; a line of the verdict file."""

    key: str
    """Cache key of its plan."""
    reason: str = ""
    """Why not; "" if it can."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a worker found out about a medium."""

    plan: MediaPlan
    verdict: Verdict
    decoded: bool


@dataclass(kw_only=True)
class Report:
    """The findings about a data set."""

    num_rows: int = 0
    num_decoded: int = 0
    """Media decoded now, not known from the verdict file."""
    problems: list[Problem] = field(default_factory=list)
    by_problem_type: Counter[str] = field(default_factory=Counter)
    by_modality: Counter[str] = field(default_factory=Counter)
    media: Counter[str] = field(default_factory=Counter)
    """Distinct media by verdict: ok, warn, error."""
    num_tokens: list[int] = field(default_factory=list)
    """Length of each prompt whose media could be planned."""

    @property
    def num_errors(self) -> int:
        return sum(problem.level == "error" for problem in self.problems)

    def add(self, level: Literal["error", "warning"], about: About, sample: Sample, text: str) -> None:
        self.problems.append(Problem(level=level, about=about, where=sample.where, sample_id=sample.id, text=text))


@dataclass(frozen=True, kw_only=True)
class CheckMedium:
    """Plan a medium and decode it unless its verdict is known; picklable, to run in worker processes."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    known: Mapping[str, Verdict]
    cache: CacheConfig | None = None
    """Frame cache to read from and fill, whatever its mode; None: frames are decoded and dropped."""
    decode: Callable[[MediaPlan], Clip] | None = None
    """Makes the clip of a plan; None: `video.decode.decode` on one core."""

    def __call__(self, media: Media) -> Seen:
        """Raises what `plan_media` raises; a medium that cannot be decoded is a verdict."""
        config = replace(self.cache, mode="prefer_preprocessed") if self.cache else NO_CACHE
        files = known_files(config)
        plan = plan_media(media, self.specs[media.kind], self.vision, files=files)
        if plan.cache_key in self.known:
            return Seen(plan=plan, verdict=self.known[plan.cache_key], decoded=False)
        cache = FrameCache.open(config, decode=self.decode or partial(decode, threads=1, files=files))
        try:
            verdict = Verdict(key=plan.cache_key, warnings=cache.load(plan).warnings)
        except DataError as error:
            verdict = Verdict(key=plan.cache_key, reason=str(error))
        return Seen(plan=plan, verdict=verdict, decoded=cache.counters.decodes > 0)


class VerdictFile:
    """Verdicts of earlier checks, one JSON object per line; later lines count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, Verdict] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError, TypeError, KeyError):  # a line cut by a kill is checked again
                    row = json.loads(line)
                    self.known[row["key"]] = Verdict(**row | {"warnings": tuple(row["warnings"])})

    def add(self, verdict: Verdict) -> None:
        """Remember a verdict, on disk at once."""
        self.known[verdict.key] = verdict
        try:
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
        except OSError as error:
            raise UsageError(
                f"{self._path}: cannot keep verdicts there: {error.strerror} (use --verdicts FILE)"
            ) from None


def check_data(
    sources: Iterable[tuple[str, str | None]],
    *,
    work: CheckMedium,
    verdicts: VerdictFile,
    check_gold: Callable[[Sample], None],
    prompt_tokens: Callable[[Sample, Sequence[MediaPlan]], int],
    max_prompt_tokens: int,
    workers: int,
    deadline_s: float,
) -> Report:
    """Check every row of every file.

    Args:
        sources: (data file, media root or None) pairs.
        work: how media are looked at.
        verdicts: known verdicts; new ones are added.
        check_gold: raises DataError for an unknown problem type or an unreadable gold answer.
        prompt_tokens: length of a sample's prompt, given its plans.
        max_prompt_tokens: longer prompts are errors.
        workers, deadline_s: as of `run_all`.

    Raises:
        DataError: a data file cannot be opened.
        UsageError: the frame settings contradict each other, or the verdict file cannot be written.
    """
    report = Report()
    samples = [sample for path, root in sources for sample in _read(Path(path), root, report)]
    for sample in samples:
        report.by_problem_type[sample.problem_type] += 1
        report.by_modality[sample.modality] += 1
        try:
            check_gold(sample)
        except DataError as error:
            report.add("error", "gold", sample, _without_place(error))
    media = dict.fromkeys(medium for sample in samples for medium in sample.media)
    seen: dict[Media, Seen | EasyVideoError] = {}
    for outcome in tried_twice(partial(run_all, work, workers=workers, deadline_s=deadline_s), list(media)):
        seen[outcome.item] = _settled(outcome, verdicts, report)
    for sample in samples:
        plans = _plans(sample, seen, report)
        if plans is not None:
            _check_length(sample, plans, prompt_tokens, max_prompt_tokens, report)
    return report


def _read(path: Path, media_root: str | None, report: Report) -> list[Sample]:
    samples, first_place = [], {}
    root = Path(media_root) if media_root is not None else path.parent
    for where, row in rows_or_errors(path):
        report.num_rows += 1
        try:
            if isinstance(row, DataError):
                raise row
            sample = parse_row(row, where=where, media_root=root, source=path.stem)
            if sample.id in first_place:
                raise DataError(f"id {sample.id!r} is already used at {first_place[sample.id]}", field="problem_id")
        except DataError as error:
            text = _without_place(error)
            report.problems.append(Problem(level="error", about="row", where=where, sample_id="", text=text))
            continue
        first_place[sample.id] = where
        samples.append(sample)
    if not report.num_rows:
        raise DataError("no rows", where=str(path), remedy="the file must hold one JSON object per line")
    return samples


def _without_place(error: DataError) -> str:
    """Field, problem and remedy; the place has a column of its own."""
    return str(DataError(error.problem, field=error.field, remedy=error.remedy))


def _settled(outcome: Outcome[Media, Seen], verdicts: VerdictFile, report: Report) -> Seen | EasyVideoError:
    """What is known of a medium now; new verdicts are kept."""
    seen = outcome.result
    if seen is None:
        assert outcome.error is not None
        if not isinstance(outcome.error, DataError):
            raise outcome.error
        # Not kept: a missing file may come back, a slow disk may have caused the time-out.
        report.media["error"] += 1
        return naming(outcome.error, outcome.item.name)
    if seen.verdict.key not in verdicts.known:
        verdicts.add(seen.verdict)
    report.num_decoded += seen.decoded
    report.media["error" if seen.verdict.reason else "warn" if seen.verdict.warnings else "ok"] += 1
    return seen


def _plans(sample: Sample, seen: Mapping[Media, Seen | EasyVideoError], report: Report) -> list[MediaPlan] | None:
    """The plans of a sample's media, and its media's problems; None if one of them cannot be planned."""
    plans = []
    for media in sample.media:
        found = seen[media]
        if isinstance(found, EasyVideoError):
            report.add("error", "media", sample, str(found))
            continue
        plans.append(found.plan)
        if found.verdict.reason:
            report.add("error", "media", sample, found.verdict.reason)
        for warning in found.verdict.warnings:
            report.add("warning", "media", sample, f"{media.name}: {warning}")
    return plans if len(plans) == len(sample.media) else None


def _check_length(
    sample: Sample,
    plans: Sequence[MediaPlan],
    prompt_tokens: Callable[[Sample, Sequence[MediaPlan]], int],
    max_prompt_tokens: int,
    report: Report,
) -> None:
    try:
        num_tokens = prompt_tokens(sample, plans)
    except DataError as error:
        report.add("error", "length", sample, _without_place(error))
        return
    report.num_tokens.append(num_tokens)
    if num_tokens > max_prompt_tokens:
        vision = sum(plan.num_tokens for plan in plans)
        text = (
            f"the prompt has {num_tokens} tokens ({vision} of them vision), the limit is {max_prompt_tokens} "
            "(lower max_frames or max_pixels, or raise max_prompt_tokens)"
        )
        report.add("error", "length", sample, text)
