"""The samples of a run: read, checked, and the usable ones kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from easyvideor1.config import RunConfig
from easyvideor1.config_data import CacheConfig, DataConfig, SourceConfig
from easyvideor1.data.check import CheckedData, Steps, Workers, check_sources
from easyvideor1.data.doubts import shared
from easyvideor1.data.length_check import LengthLimit
from easyvideor1.data.media_check import PlanMedium, Seen, facts_of
from easyvideor1.data.media_fields import STORED_FRAMES
from easyvideor1.data.prompts import require_matching
from easyvideor1.data.samples import Samples
from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.problem_types import canonical
from easyvideor1.runs.media import media_specs
from easyvideor1.runs.own_rewards import try_own_rewards
from easyvideor1.runs.parts import Parts
from easyvideor1.runs.steps import length_check, length_limit, memory_of, row_check, shown_progress, try_judge
from easyvideor1.types import Media
from easyvideor1.video.cache import FrameCache

log = logging.getLogger(__name__)

OnBad = Callable[[DataError], None]


def load_samples(
    config: RunConfig, parts: Parts, *, on_bad: OnBad | None, check: Callable[[Sequence[CheckedData]], object]
) -> tuple[Samples, Samples | None]:
    """The usable training samples of a run and its validation questions, if it has any; nothing is decoded.

    Args:
        on_bad: called with the error of each row that cannot be used; None: the first is raised.
        check: called with the checked training and validation data, which it may refuse.

    Raises:
        DataError: see `on_bad`; no sample is left; or validation shares questions or media with training, where the
            configuration does not allow it.
    """
    if config.reward.judge is not None:  # before every file is planned
        try_judge(parts.rewards, config.reward, map(canonical, config.reward.judge.problem_types))
    limit = length_limit(config.data, config.rollout, config.train)
    training = _checked(config.data.train, config, parts, limit=limit, on_bad=on_bad)
    samples = _usable(training, on_bad=on_bad)
    if not config.data.validation:
        try_own_rewards(parts.rewards, config.reward, [training])
        check([training])
        return samples, None
    validation = _checked_questions(config, parts, on_bad=on_bad)
    questions = _usable(validation, on_bad=on_bad)
    if not config.data.allow_shared_validation:
        refuse_shared(training, validation)
    try_own_rewards(parts.rewards, config.reward, [training, validation])
    check([training, validation])
    return samples, questions


def load_questions(config: RunConfig, parts: Parts, *, on_bad: OnBad | None) -> Samples:
    """The usable validation questions of a run; arguments and errors as of `load_samples`."""
    return _usable(_checked_questions(config, parts, on_bad=on_bad), on_bad=on_bad)


def _checked_questions(config: RunConfig, parts: Parts, *, on_bad: OnBad | None) -> CheckedData:
    asked = replace(config, cache=config.question_cache)
    return _checked(asked.data.validation, asked, parts, limit=length_limit(config.data), on_bad=on_bad)


def refuse_shared(training: CheckedData, validation: CheckedData) -> None:
    """Raise where validation asks or looks at what training does: its accuracy would measure memory."""
    doubts = list(shared(training, validation))
    if doubts:
        more = f" ({len(doubts)} validation rows share something with training)" if len(doubts) > 1 else ""
        raise DataError(
            f"validation must not share questions or media with training: {doubts[0].text}{more}",
            where=doubts[0].where,
            remedy="take other rows for validation, or set data.allow_shared_validation=true",
        )


def _checked(
    sources: Sequence[SourceConfig], config: RunConfig, parts: Parts, *, limit: LengthLimit, on_bad: OnBad | None
) -> CheckedData:
    specs, vision = media_specs(config.data), parts.encoder.vision

    def look_here(media: Media) -> Seen:
        return Seen(facts=facts_of(parts.plan(media, specs[media.kind], vision), vision))

    with shown_progress() as progress:
        found = check_sources(
            sources,
            Steps(
                rows=row_check(config.data, config.reward),
                look=PlanMedium(specs=specs, vision=vision, cache=config.cache),
                lengths=length_check(config.data, parts.encoder, parts.plan, limit=limit),
            ),
            workers=Workers(processes=usable_cores(), deadline_s=config.cache.deadline_s, look_here=look_here),
            memory=memory_of(config.data, config.reward, config.model, config.cache, limit=limit),
            rows_only=on_bad is None,
            progress=progress,
        )
    _choose_types(found, config.data)
    tell_stored_frames(found, config.cache)
    kinds = {kind for file in found.files for kind in file.columns.problem_types if kind}
    require_matching(config.data.templates, kinds)
    try_judge(parts.rewards, config.reward, kinds)
    return found


def _choose_types(data: CheckedData, config: DataConfig) -> None:
    """Leave only the rows of data.problem_types; raises UsageError where none is of them."""
    if config.problem_types is None:
        return
    data.problem_types = frozenset(map(canonical, config.problem_types))
    present = {kind for file in data.files for kind in file.columns.problem_types if kind}
    if not data.problem_types & present:
        names = ", ".join(file.source.path for file in data.files)
        raise UsageError(
            f"data.problem_types={list(config.problem_types)}: no row of {names} is of one; they are of "
            f"{', '.join(sorted(present))}"
        )


def tell_stored_frames(data: CheckedData, cache: CacheConfig) -> int:
    """Warn of rows that name frames stored by another project which are not in the cache; returns how many."""
    if cache.mode == "realtime_only":
        return sum(len(file.columns.stored) for file in data.files)
    num_missing, first = 0, ""
    frames = FrameCache.open(cache)
    for file in data.files:
        for place, name in file.columns.stored.items():
            seen = [data.seen.get(media) for media in file.columns.media.get(place, ())]
            if not all(isinstance(found, Seen) and frames.holds(found.facts.key) for found in seen):
                num_missing, first = num_missing + 1, first or f"{file.rows.where(place)} ({name})"
    if num_missing:
        log.warning(
            "%d rows name stored frames ('%s') that are not in %s, the first is %s: their videos are decoded instead; "
            "`easyvideor1 cache import FOLDER --data FILE --cache %s` takes the frames over",
            num_missing, STORED_FRAMES, cache.dir, first, cache.dir,
        )  # fmt: skip
    return num_missing


def _usable(data: CheckedData, *, on_bad: OnBad | None) -> Samples:
    """The samples that can be used.

    Raises:
        DataError: without `on_bad` what is wrong with the first of the others; or none is left.
    """
    errors = list(data.errors())
    if errors and on_bad is None:
        raise _with_way_out(errors[0], data, num_bad=len(errors))
    for error in errors:
        assert on_bad is not None
        on_bad(error)
    samples = data.samples()
    if not len(samples):
        raise errors[-1]
    if errors:
        names = ", ".join(file.source.path for file in data.files)
        log.warning("skipped %d of %d samples of %s", len(errors), len(errors) + len(samples), names)
    return samples


def _with_way_out(error: DataError, data: CheckedData, *, num_bad: int) -> DataError:
    """The error, with the remedy for a row that cannot be corrected."""
    names = " ".join(file.source.path for file in data.files)
    count = f"it and {num_bad - 1} more rows" if num_bad > 1 else "it"
    way_out = f"to go on without {count}: `easyvideor1 data clean {names} --out GOOD.jsonl`, or data.on_bad_sample=skip"
    remedy = f"{error.remedy}; {way_out}" if error.remedy else way_out
    return type(error)(error.problem, where=error.where, field=error.field, remedy=remedy)
