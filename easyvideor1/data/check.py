"""Everything that can be wrong with data files, found before a run: rows, gold answers, media, lengths of prompts.

Training, `data check` and `data clean` go through the same steps. Large sets are worked on in processes, and what was
found is remembered (see data.memory), so that a second start takes seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.length_check import LengthCheck, Lengths, measure_lengths
from easyvideor1.data.media_check import MediumFacts, Seen
from easyvideor1.data.memory import Memory, Remembered, identity
from easyvideor1.data.row_check import PARALLEL_ROWS, CheckRows, Chunk, Columns, Fault, chunks_of
from easyvideor1.data.rows import RowFile
from easyvideor1.data.samples import Label, Samples, unique_ids
from easyvideor1.errors import DataError, JobError
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.types import Media, Modality
from easyvideor1.video.preprocess import tried_twice

MANY_ROWS = 1000
"""With this many rows or more, results of earlier checks are remembered on disk, and prompts are tokenized only where
they may be too long."""
FEW_MEDIA = 16
ROW_DEADLINE_S = 60.0
"""Longest time for a chunk of rows; a gold answer that takes as long cannot be used."""

Progress = Callable[[str, int, int], object]
"""Progress of a check: (what is checked, number done, number in all)."""


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The processes that a check uses."""

    processes: int
    deadline_s: float
    """Longest time for one media file, in seconds."""
    look_here: Callable[[Media], Seen] | None = None
    """Does what `Steps.look` does for a few media, in this process."""


class Look(Protocol):
    """Looks at a medium; picklable, to run in worker processes."""

    def __call__(self, media: Media) -> Seen:
        """Raises DataError for a medium that cannot be planned."""
        ...

    def recall(self, facts: MediumFacts) -> Seen | None:
        """The result for a medium whose facts are remembered; None: the medium must be checked again."""
        ...


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The functions of a check."""

    rows: CheckRows
    look: Look
    lengths: LengthCheck
    note: Callable[[Seen], object] = lambda seen: None
    """Called with the result of each medium as soon as it is known."""


@dataclass(kw_only=True, eq=False)
class CheckedFile:
    """The rows of a file with what is known of them."""

    source: SourceConfig
    rows: RowFile
    columns: Columns
    ids: Sequence[str] = ()
    """Id of each row, unique among the files; "" where it could not be read."""
    lengths: Lengths = field(default_factory=Lengths)
    bad_media: dict[int, list[Fault]] = field(default_factory=dict)

    def faults(self, place: int) -> list[Fault]:
        """What makes the row at a place unusable."""
        one = (self.columns.faults.get(place), self.lengths.too_long.get(place))
        return [fault for fault in (one[0], *self.bad_media.get(place, ()), one[1]) if fault is not None]


@dataclass(kw_only=True, eq=False)
class CheckedData:
    """Data files, checked."""

    files: list[CheckedFile]
    seen: dict[Media, Seen | DataError]
    problem_types: frozenset[str] | None = None
    """The types whose rows are used; None: all."""

    def bad_rows(self) -> Iterator[tuple[CheckedFile, int]]:
        """The rows that cannot be used, in order."""
        for file in self.files:
            for place in sorted({*file.columns.faults, *file.bad_media, *file.lengths.too_long}):
                if self._is_chosen(file, place):
                    yield file, place

    def errors(self) -> Iterator[DataError]:
        """What is wrong with each row that cannot be used, in order."""
        for file, place in self.bad_rows():
            fault = file.faults(place)[0]
            if fault.about == "length":
                fault = dataclasses.replace(fault, problem=f"sample {file.ids[place]}: {fault.problem}")
            yield fault.error(file.rows.where(place))

    def places(self) -> list[tuple[int, int]]:
        """(number of the file, place) of each row that can be used."""
        bad = {(id(file), place) for file, place in self.bad_rows()}
        return [
            (number, place)
            for number, file in enumerate(self.files)
            for place in range(len(file.rows))
            if (id(file), place) not in bad and self._is_chosen(file, place)
        ]

    def _is_chosen(self, file: CheckedFile, place: int) -> bool:
        """Whether rows of its type are used; a row that could not be read has none, and is told of."""
        kind = file.columns.problem_types[place]
        return self.problem_types is None or not kind or kind in self.problem_types

    def samples(self) -> Samples:
        """The samples that can be used, each parsed when it is asked for."""
        places = self.places()
        made: dict[tuple[int, str, str], Label] = {}
        """One label for all samples of a kind: there may be millions."""

        def label_of(number: int, place: int) -> Label:
            columns = self.files[number].columns
            modality, problem_type = columns.modalities[place], columns.problem_types[place]
            key = (number, modality, problem_type)
            if key not in made:
                made[key] = Label(self.files[number].source.label, cast(Modality, modality), problem_type)
            return made[key]

        return Samples(
            [(file.source, file.rows) for file in self.files],
            places,
            ids=[self.files[number].ids[place] for number, place in places],
            labels=[label_of(number, place) for number, place in places],
        )


def check_sources(
    sources: Sequence[SourceConfig],
    steps: Steps,
    *,
    workers: Workers,
    memory: Memory | None = None,
    rows_only: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> CheckedData:
    """Check every row of some data files.

    Args:
        memory: where findings are remembered; None: nowhere.
        rows_only: look at media and lengths only if all rows can be read and scored.

    Raises:
        DataError: a file cannot be read at all.
        UsageError: settings that contradict each other, or templates that do not work.
    """
    files = [(source, RowFile(source.path)) for source in sources]
    is_large = sum(len(rows) for _, rows in files) >= MANY_ROWS
    known = [memory.recall(rows.path) if memory is not None and is_large else Remembered() for _, rows in files]
    checked, places = [], []
    for (source, rows), remembered in zip(files, known, strict=True):
        old = remembered.places(rows.digests)
        columns = _check_rows(source, rows, remembered, old, steps.rows, workers, progress)
        checked.append(CheckedFile(source=source, rows=rows, columns=columns))
        places.append(old)
    _name(checked)
    found = CheckedData(files=checked, seen={})
    if rows_only and any(file.columns.faults for file in checked):
        return found
    identities, fresh = _look_at_media(found, known, steps, workers, progress)
    for file, remembered, old in zip(checked, known, places, strict=True):
        _note_bad_media(file, found.seen)
        unchanged = _lengths_known(file, remembered, old, fresh)
        file.lengths = measure_lengths(
            file.rows, file.source, file.columns,
            facts={media: seen.facts for media, seen in found.seen.items() if isinstance(seen, Seen)},
            bad={*file.columns.faults, *file.bad_media},
            known=unchanged,
            check=steps.lengths,
            is_large=is_large,
            workers=workers.processes,
            progress=progress,
        )  # fmt: skip
        is_new = fresh or list(old) != list(range(len(remembered.digests))) or file.lengths.tokens != remembered.tokens
        if memory is not None and is_large and is_new:
            memory.keep(file.rows.path, _to_remember(file, found.seen, identities))
    return found


def _check_rows(
    source: SourceConfig,
    rows: RowFile,
    remembered: Remembered,
    old: Sequence[int],
    check: CheckRows,
    workers: Workers,
    progress: Progress,
) -> Columns:
    """The columns of a file: those that are remembered, and the others made now."""
    new = [place for place, known in enumerate(old) if known < 0]
    if not new and len(old) == len(remembered.columns):
        return remembered.columns if list(old) == list(range(len(old))) else remembered.columns.taken(old)
    found, by_start, chunks = Columns(), {}, chunks_of(source, rows, new)
    if len(new) < PARALLEL_ROWS:
        by_start = {chunk.start: check(chunk) for chunk in chunks}
    else:
        done = 0
        with Pool(check, workers=workers.processes, deadline_s=ROW_DEADLINE_S) as pool:
            for outcome in pool.run(chunks):
                columns = outcome.result or _one_by_one(pool, outcome.item, outcome.error)
                by_start[outcome.item.start] = columns
                done += len(columns)
                progress("rows", done, len(new))
    for start in sorted(by_start):
        found.extend(by_start[start])
    if len(new) == len(old):
        return found
    both = Columns()
    both.extend(remembered.columns)
    both.extend(found)
    place_of = {place: len(remembered.columns) + number for number, place in enumerate(new)}
    return both.taken([known if known >= 0 else place_of[place] for place, known in enumerate(old)])


def _one_by_one(pool: Pool[Chunk, Columns], chunk: Chunk, error: Exception | None) -> Columns:
    """The columns of a chunk that broke its process: of all rows but the one that did."""
    if not isinstance(error, JobError):
        assert error is not None
        raise error
    found = Columns()
    for where, content in chunk.rows:
        one = Chunk(chunk.start, chunk.source, ((where, content),))
        try:
            found.extend(pool.call(one))
        except JobError as reason:
            fault = Fault("gold", f"reading the row failed: {reason.problem}", "", "answer", "give a shorter answer")
            empty = [""]
            found.extend(
                Columns(
                    ids=empty,
                    problem_types=empty,
                    modalities=empty,
                    unknown=empty,
                    text_bytes=[0],
                    questions=[0],
                    golds=[0],
                    faults={0: fault},
                )
            )
    return found


def _name(files: Sequence[CheckedFile]) -> None:
    """Give every readable row its id."""
    named: list[str] = []
    for file in files:
        named += [
            id_ or (file.rows.where(place).rpartition("/")[2] if kind else "")
            for place, (id_, kind) in enumerate(zip(file.columns.ids, file.columns.problem_types, strict=True))
        ]
    readable = [id_ for id_ in named if id_]
    unique = iter(unique_ids(readable))
    named = [next(unique) if id_ else "" for id_ in named]
    start = 0
    for file in files:
        file.ids = named[start : start + len(file.rows)]
        start += len(file.rows)


def _look_at_media(
    found: CheckedData,
    known: Sequence[Remembered],
    steps: Steps,
    workers: Workers,
    progress: Progress,
) -> tuple[dict[Media, Any], set[Media]]:
    """Look at every distinct medium that is not known; returns the identity of each, and those looked at now."""
    media = dict.fromkeys(
        medium
        for file in found.files
        for place, items in file.columns.media.items()
        if place not in file.columns.faults
        for medium in items
    )
    remembered = {medium: pair for item in known for medium, pair in item.media.items()}
    identities = {medium: identity(medium) for medium in media}
    fresh = []
    for medium in media:
        before, facts = remembered.get(medium, (None, None))
        is_same = facts is not None and before is not None and before == identities[medium]
        seen = steps.look.recall(facts) if is_same and facts is not None else None
        if seen is None:
            fresh.append(medium)
        else:
            found.seen[medium] = seen
    for done, (medium, seen) in enumerate(_looked(fresh, steps.look, workers), start=1):
        found.seen[medium] = seen
        if isinstance(seen, Seen):
            steps.note(seen)
        progress("media", done, len(fresh))
    return identities, set(fresh)


def _looked(media: Sequence[Media], look: Look, workers: Workers) -> Iterator[tuple[Media, Seen | DataError]]:
    """The result for each medium, as it comes."""
    if len(media) <= FEW_MEDIA and workers.look_here is not None:
        for medium in media:
            try:
                yield medium, workers.look_here(medium)
            except DataError as error:
                yield medium, _naming(error, medium)
    elif media:
        with Pool(look, workers=min(workers.processes, len(media)), deadline_s=workers.deadline_s) as pool:
            for outcome in tried_twice(pool.run, media):
                if outcome.result is not None:
                    yield outcome.item, outcome.result
                    continue
                assert outcome.error is not None
                if not isinstance(outcome.error, DataError):
                    raise outcome.error
                yield outcome.item, _naming(outcome.error, outcome.item)


def _naming(error: DataError, media: Media) -> DataError:
    named = naming(error, media.name)
    assert isinstance(named, DataError), named
    return named


def _note_bad_media(file: CheckedFile, seen: dict[Media, Seen | DataError]) -> None:
    for place, media in file.columns.media.items():
        if place in file.columns.faults:
            continue
        faults = []
        for medium in media:
            found = seen[medium]
            if isinstance(found, DataError):
                faults.append(Fault.of(found, "media", row=file.rows.where(place)))
            elif found.verdict is not None and found.verdict.reason:
                faults.append(Fault("media", found.verdict.reason, "", "", ""))
        if faults:
            file.bad_media[place] = faults


def _lengths_known(
    file: CheckedFile, remembered: Remembered, old: Sequence[int], fresh: set[Media]
) -> dict[int, tuple[int, Fault | None]]:
    """(tokens, fault) of the rows whose length is remembered and whose media are the same."""
    known = {}
    for place, before in enumerate(old):
        if before < 0 or before >= len(remembered.tokens):
            continue
        if not fresh or fresh.isdisjoint(file.columns.media.get(place, ())):
            known[place] = (remembered.tokens[before], remembered.too_long.get(before))
    return known


def _to_remember(file: CheckedFile, seen: dict[Media, Seen | DataError], identities: dict[Media, Any]) -> Remembered:
    media = dict.fromkeys(medium for items in file.columns.media.values() for medium in items)
    pairs = {}
    for medium in media:
        found = seen.get(medium)
        pairs[medium] = (identities.get(medium), found.facts) if isinstance(found, Seen) else (None, None)
    return Remembered(
        digests=file.rows.digests,
        columns=file.columns,
        tokens=file.lengths.tokens,
        too_long=file.lengths.too_long,
        media=pairs,
    )
