"""What a check of data files found, as a list of problems and some counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from easyvideor1.data.check import CheckedData, CheckedFile
from easyvideor1.data.doubts import Doubt
from easyvideor1.data.length_check import UNCOUNTED
from easyvideor1.data.media_check import Seen
from easyvideor1.data.samples import repeated_ids, told
from easyvideor1.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is wrong, or looks it."""

    level: Literal["error", "warning"]
    about: str
    """row, media, gold, length or trajectory."""
    where: str
    """ "file:line" of the row."""
    sample_id: str
    """ "" where the row could not be read."""
    text: str


@dataclass(kw_only=True)
class Report:
    """The findings about data files."""

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
    unknown_keys: Counter[str] = field(default_factory=Counter)
    """Keys of rows that nothing reads -> rows that have them."""
    repeated_ids: dict[str, int] = field(default_factory=dict)
    """Ids that several rows have -> how many."""

    @property
    def num_errors(self) -> int:
        return sum(problem.level == "error" for problem in self.problems)

    def merge(self, other: Report) -> None:
        """Add the findings about other files."""
        for name, theirs in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, Counter | dict):
                mine.update(theirs)
            else:
                setattr(self, name, mine + theirs)

    def add_doubts(self, doubts: Iterable[Doubt]) -> None:
        """Warn of rows that look wrong."""
        self.problems += [
            Problem(
                level="warning",
                about=doubt.about,
                where=doubt.where,
                sample_id=doubt.file.ids[doubt.place],
                text=doubt.text,
            )
            for doubt in doubts
        ]


def report_of(data: CheckedData) -> Report:
    """The errors, the warnings about media and ids, and the counts; callers add other doubts."""
    report = Report(num_rows=sum(len(file.rows) for file in data.files))
    for file in data.files:
        report.by_problem_type.update(kind for kind in file.columns.problem_types if kind)
        report.by_modality.update(kind for kind in file.columns.modalities if kind)
        report.num_tokens += [tokens for tokens in file.lengths.tokens if tokens != UNCOUNTED]
        for names, count in Counter(file.columns.unknown).items():
            for name in filter(None, names.split(",")):
                report.unknown_keys[name] += count
    for seen in data.seen.values():
        report.media[_verdict(seen)] += 1
        report.num_decoded += isinstance(seen, Seen) and seen.decoded
    report.problems += [*_errors(data), *_media_warnings(data), *_repeated(data, report)]
    return report


def _verdict(seen: Seen | DataError) -> str:
    if isinstance(seen, DataError) or (seen.verdict is not None and seen.verdict.reason):
        return "error"
    return "warn" if seen.verdict is not None and seen.verdict.warnings else "ok"


def _errors(data: CheckedData) -> Iterator[Problem]:
    for file, place in data.bad_rows():
        for fault in file.faults(place):
            # Field, problem and remedy; the place has a column of its own.
            error = fault.error("")
            yield _problem("error", fault.about, file, place, str(error))


def _media_warnings(data: CheckedData) -> Iterator[Problem]:
    for file in data.files:
        for place, media in file.columns.media.items():
            for medium in media:
                seen = data.seen.get(medium)
                if isinstance(seen, Seen) and seen.verdict is not None:
                    for warning in seen.verdict.warnings:
                        yield _problem("warning", "media", file, place, f"{medium.name}: {warning}")


def _repeated(data: CheckedData, report: Report) -> Iterator[Problem]:
    named = [
        (file, place, file.columns.ids[place])
        for file in data.files
        for place in range(len(file.rows))
        if file.columns.ids[place]
    ]
    report.repeated_ids = repeated_ids(id_ for _, _, id_ in named)
    if report.repeated_ids:
        file, place, _ = next(item for item in named if item[2] in report.repeated_ids)
        yield _problem("warning", "row", file, place, told(report.repeated_ids))


def _problem(level: Literal["error", "warning"], about: str, file: CheckedFile, place: int, text: str) -> Problem:
    return Problem(level=level, about=about, where=file.rows.where(place), sample_id=file.ids[place], text=text)
