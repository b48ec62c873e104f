"""Rows parsed, their prompts rendered and their gold answers read, chunk by chunk, in any process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import xxhash

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.media_fields import STORED_FRAMES
from easyvideor1.data.oddities import oddities
from easyvideor1.data.prompts import instruction
from easyvideor1.data.rows import RowFile, parse
from easyvideor1.data.samples import read_row
from easyvideor1.data.schema import unknown_keys
from easyvideor1.data.tags import escaped
from easyvideor1.errors import DataError
from easyvideor1.types import Media, Sample

About = Literal["row", "media", "gold", "length"]
CHUNK_ROWS = 250
CHUNK_BYTES = 8 << 20
"""Rows may hold whole pictures."""
PARALLEL_ROWS = 4000
"""With this many rows or more, rows are checked in several processes, which take a second to start."""
NFC_GROWTH = 3
"""A tokenizer may normalize (NFC), which makes text at most three times as long in UTF-8 (Unicode UAX 15)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a row is unusable."""

    about: About
    problem: str
    where: str
    """The place of the problem where that is not the row itself: a medium."""
    field: str
    remedy: str

    @classmethod
    def of(cls, error: DataError, about: About, *, row: str) -> Self:
        return cls(about, error.problem, "" if error.where == row else error.where, error.field, error.remedy)

    def error(self, row: str) -> DataError:
        """The error again, at the place of the row."""
        problem = f"{self.where}: {self.problem}" if self.where else self.problem
        return DataError(problem, where=row, field=self.field, remedy=self.remedy)


@dataclass(kw_only=True)
class Columns:
    """What is known of rows without their media, column by column: N values each, or by place where few rows have one.

    A row that cannot be read has "" and 0 in all columns, and a fault.
    """

    ids: list[str] = field(default_factory=list)
    problem_types: list[str] = field(default_factory=list)
    modalities: list[str] = field(default_factory=list)
    text_bytes: list[int] = field(default_factory=list)
    """Bytes of the texts in a prompt: an upper bound of its text tokens where tokens are made of bytes."""
    questions: list[int] = field(default_factory=list)
    """Hash of what is asked about what: problem, options and media."""
    golds: list[int] = field(default_factory=list)
    """Hash of the gold answer."""
    unknown: list[str] = field(default_factory=list)
    """Keys that nothing reads, with commas between."""
    turns: dict[int, int] = field(default_factory=dict)
    """Messages beside the problem: the system message and the turns before it."""
    media: dict[int, tuple[Media, ...]] = field(default_factory=dict)
    trajectories: dict[int, int] = field(default_factory=dict)
    """Number of offline trajectories; 0 where the row says that it has one, but has none."""
    odd: dict[int, str] = field(default_factory=dict)
    """What looks wrong in a row that can be used."""
    stored: dict[int, str] = field(default_factory=dict)
    """File of frames that another project stored, where a row names one."""
    faults: dict[int, Fault] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def extend(self, other: Columns) -> None:
        """Add the rows of another table after these."""
        start = len(self)
        for item in dataclasses.fields(self):
            mine, theirs = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, dict):
                mine.update({start + place: value for place, value in theirs.items()})
            else:
                mine.extend(theirs)

    def taken(self, places: Sequence[int]) -> Columns:
        """The rows at some places, in that order."""
        found = Columns()
        for item in dataclasses.fields(self):
            mine, theirs = getattr(found, item.name), getattr(self, item.name)
            if isinstance(mine, dict):
                mine.update({new: theirs[old] for new, old in enumerate(places) if old in theirs})
            else:
                mine.extend(theirs[place] for place in places)
        return found


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a source, as they stand in its file."""

    start: int
    """Where its first row stands among the places that are worked on."""
    source: SourceConfig
    rows: tuple[tuple[str, bytes | DataError], ...]
    """(where, content) of each; instead of the content how a list breaks off."""


def chunks_of(source: SourceConfig, rows: RowFile, places: Sequence[int]) -> Iterator[Chunk]:
    """The rows at some places in pieces of work of CHUNK_ROWS rows or about CHUNK_BYTES, read when one is asked for."""
    start = 0
    while start < len(places):
        end, num_bytes = start, 0
        while end < min(start + CHUNK_ROWS, len(places)) and num_bytes < CHUNK_BYTES:
            num_bytes += rows.num_bytes(places[end])
            end += 1
        yield Chunk(start, source, tuple((rows.where(place), rows.content(place)) for place in places[start:end]))
        start = end


@dataclass(frozen=True, kw_only=True)
class CheckRows:
    """Parses rows, renders their prompts and reads their gold answers; picklable, to run in worker processes."""

    check_gold: Callable[[Sample], object]
    """Reads the gold answer of a sample; raises DataError where the sample cannot be scored."""
    thinking: bool
    templates: str | None

    def __call__(self, chunk: Chunk) -> Columns:
        found = Columns()
        for place, (where, content) in enumerate(chunk.rows):
            self._add(found, place, where, content, chunk.source)
        return found

    def _add(self, found: Columns, place: int, where: str, content: bytes | DataError, source: SourceConfig) -> None:
        row, sample, num_bytes = parse(content, where=where), None, 0
        try:
            if isinstance(row, DataError):
                raise row
            sample = read_row(row, source)
            num_bytes = sum(map(_most_bytes, said_in(sample, thinking=self.thinking, templates=self.templates)))
        except DataError as error:
            found.faults[place] = Fault.of(error, "row", row=where)
        if sample is None or isinstance(row, DataError) or place in found.faults:
            for column in (found.ids, found.problem_types, found.modalities, found.unknown):
                column.append("")
            for numbers in (found.text_bytes, found.questions, found.golds):
                numbers.append(0)
            return
        try:
            self.check_gold(sample)
        except DataError as error:
            found.faults[place] = Fault.of(error, "gold", row=where)
        found.ids.append(sample.id if any(row.fields.get(name) for name in ("problem_id", "id")) else "")
        found.problem_types.append(sample.problem_type)
        found.modalities.append(sample.modality)
        found.text_bytes.append(num_bytes)
        found.questions.append(_question(sample))
        found.golds.append(xxhash.xxh3_64_intdigest(sample.gold.encode()))
        found.unknown.append(",".join(unknown_keys(row.fields)))
        if num_messages := len(sample.turns) + (sample.system is not None):
            found.turns[place] = num_messages
        if sample.media:
            found.media[place] = sample.media
        if sample.trajectories or row.fields.get("has_offline_trajectory"):
            found.trajectories[place] = len(sample.trajectories)
        if stored := row.fields.get(STORED_FRAMES):
            found.stored[place] = str(stored)
        if odd := "; ".join(oddities(row.fields, sample)):
            found.odd[place] = odd


def said_in(sample: Sample, *, thinking: bool, templates: str | None) -> Iterator[str]:
    """The texts of a prompt: what the user says, the system message and the turns before."""
    yield instruction(sample, thinking=thinking, templates=templates)
    if sample.system is not None:
        yield escaped(sample.system)  # nothing is seen there
    for turn in sample.turns:
        yield turn.content


def _most_bytes(text: str) -> int:
    return len(text) if text.isascii() else NFC_GROWTH * len(text.encode())


def _question(sample: Sample) -> int:
    seen = [[medium.path, medium.start_s, medium.end_s] for medium in sample.media]
    said = [[turn.content for turn in sample.turns], " ".join(sample.problem.split()), sample.options, seen]
    return xxhash.xxh3_64_intdigest(repr(said).encode())


def as_tree(columns: Columns) -> dict[str, Any]:
    """The table in plain values, media left out."""
    tree = dataclasses.asdict(dataclasses.replace(columns, media={}, faults={}))
    tree["faults"] = {place: dataclasses.astuple(fault) for place, fault in columns.faults.items()}
    for name in REPEATED:
        numbers: dict[str, int] = {}
        tree[name] = {
            "of": [numbers.setdefault(value, len(numbers)) for value in tree[name]],
            "values": list(numbers),
        }
    return tree


def from_tree(tree: Mapping[str, Any]) -> Columns:
    """The table of `as_tree`.

    Raises:
        KeyError, TypeError, ValueError, IndexError: it is not one.
    """
    columns: dict[str, Any] = dict(tree)
    for name in REPEATED:
        values = columns[name]["values"]
        columns[name] = [values[number] for number in columns[name]["of"]]
    for name in ("turns", "trajectories"):
        columns[name] = {int(place): int(value) for place, value in columns[name].items()}
    for name in ("odd", "stored"):
        columns[name] = {int(place): str(text) for place, text in columns[name].items()}
    columns["faults"] = {int(place): Fault(*values) for place, values in columns["faults"].items()}
    columns["media"] = {}
    found = Columns(**columns)
    lengths = {len(value) for value in vars(found).values() if isinstance(value, list)}
    if len(lengths) != 1:
        raise ValueError(f"columns of {sorted(lengths)} rows")
    return found


REPEATED = ("problem_types", "modalities", "unknown")
"""Columns of few values."""
