"""The samples of data files: all at once, or each when it is asked for; with one rule for ids that occur twice.

Real data sets and their merges repeat ids. An id that several rows of the files of a run have is `ID#1`, `ID#2`, .. in
the order of the rows; an id that only one row has stays as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.rows import Row, RowFile
from easyvideor1.data.schema import parse_row
from easyvideor1.errors import DataError
from easyvideor1.types import Modality, Sample

log = logging.getLogger(__name__)

SHOWN_IDS = 3


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row as it stands in its file, and as it was read."""

    row: Row
    sample: Sample

    @property
    def fields(self) -> dict[str, Any]:
        """The row's fields, with the sample's id where several rows have the row's own."""
        return renamed(self.row.fields, self.sample.id)


@dataclass(frozen=True, slots=True)
class Label:
    """The facts that decide when a sample comes, known without parsing it."""

    source: str
    modality: Modality
    problem_type: str


class Samples(Sequence[Sample]):
    """Samples that are parsed when they are asked for, so that a data set of any size starts at once."""

    def __init__(
        self,
        files: Sequence[tuple[SourceConfig, RowFile]],
        places: Sequence[tuple[int, int]],
        *,
        ids: Sequence[str],
        labels: Sequence[Label],
    ) -> None:
        """
        Args:
            places: (number of the file, place in it) of each sample.
            ids: of each sample.
            labels: of each sample.
        """
        self._files, self._places, self._ids = files, places, ids
        self.labels = labels

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...

    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        number, place = self._places[index]
        source, file = self._files[number]
        row = file.row(place)
        if isinstance(row, DataError):
            raise row
        return with_id(read_row(row, source), self._ids[index])


def labels_of(samples: Sequence[Sample]) -> Sequence[Label]:
    """The label of every sample."""
    if isinstance(samples, Samples):
        return samples.labels
    return [Label(sample.source, sample.modality, sample.problem_type) for sample in samples]


def read_row(row: Row, source: SourceConfig) -> Sample:
    """The sample in a row of a source.

    Raises:
        DataError: see `parse_row`.
    """
    root = _root(source.path, source.media_root)
    sample = parse_row(row.fields, where=row.where, media_root=root, source=source.label)
    if not (source.video or source.image):
        return sample
    budgets = {"video": tuple(sorted(source.video.items())), "image": tuple(sorted(source.image.items()))}
    media = tuple(dataclasses.replace(medium, budget=budgets[medium.kind]) for medium in sample.media)
    return dataclasses.replace(sample, media=media)


@functools.lru_cache(maxsize=64)
def _root(path: str, media_root: str | None) -> Path:
    """The folder that relative media paths start from; fast for millions of rows."""
    return Path(path).parent if media_root is None else Path(media_root)


def read_sources(
    sources: Iterable[SourceConfig], *, on_bad: Callable[[DataError], None] | None = None
) -> list[ReadRow]:
    """All rows of some files with their samples, ids made unique.

    Args:
        on_bad: called with the error of a row, which is then left out; None: the first bad row is raised.

    Raises:
        DataError: unreadable file, no row in it; without `on_bad` also broken JSON or a wrong row (see `parse_row`).
    """
    found = []
    for item in read_all(sources):
        if isinstance(item, ReadRow):
            found.append(item)
        elif on_bad is None:
            raise item
        else:
            on_bad(item)
    return found


def read_all(sources: Iterable[SourceConfig]) -> list[ReadRow | DataError]:
    """All rows of some files in order, ids made unique; for a row that cannot be read, the reason.

    Raises:
        DataError: a file cannot be read at all.
    """
    found = [_read(row, source) for source in sources for row in RowFile(source.path)]
    ids = iter(unique_ids([item.sample.id for item in found if isinstance(item, ReadRow)]))
    return [ReadRow(item.row, with_id(item.sample, next(ids))) if isinstance(item, ReadRow) else item for item in found]


def read_samples(
    path: str | Path,
    *,
    media_root: str | Path | None = None,
    on_bad: Callable[[DataError], None] | None = None,
) -> list[Sample]:
    """The samples of one file; see `read_sources`.

    Args:
        media_root: folder that relative media paths start from; None: the folder of the data file.
    """
    source = SourceConfig(path=str(path), media_root=None if media_root is None else str(media_root))
    return [item.sample for item in read_sources([source], on_bad=on_bad)]


def unique_ids(ids: Sequence[str], *, quiet: bool = False) -> list[str]:
    """The ids of the rows of a run, those that occur more than once numbered; that is logged as a warning.

    >>> unique_ids(["a", "b", "a", "a#1"], quiet=True)
    ['a#2', 'b', 'a#3', 'a#1']
    """
    counts = Counter(ids)
    if len(counts) == len(ids):
        return list(ids)
    last: Counter[str] = Counter()
    unique = []
    for id_ in ids:
        if counts[id_] > 1:
            last[id_] += 1
            while f"{id_}#{last[id_]}" in counts:  # a row has that very id
                last[id_] += 1
        unique.append(f"{id_}#{last[id_]}" if counts[id_] > 1 else id_)
    if not quiet:
        log.warning("%s", told(repeated_ids(ids)))
    return unique


def repeated_ids(ids: Iterable[str]) -> dict[str, int]:
    """Id -> number of rows, of the ids that several rows have."""
    return {id_: count for id_, count in Counter(ids).items() if count > 1}


def told(repeated: dict[str, int]) -> str:
    """One line about ids that occur more than once."""
    shown = ", ".join(list(repeated)[:SHOWN_IDS]) + (", .." if len(repeated) > SHOWN_IDS else "")
    noun = "id occurs" if len(repeated) == 1 else "ids occur"
    return (
        f"{len(repeated)} {noun} on {sum(repeated.values())} rows ({shown}): they are called ID#1, ID#2, .. in the "
        "order of the rows (`easyvideor1 data clean` writes them so)"
    )


def renamed(fields: dict[str, Any], id_: str) -> dict[str, Any]:
    """The fields of a row under another id; a row without one keeps none."""
    name = next((name for name in ("problem_id", "id") if fields.get(name) not in (None, "")), None)
    return fields if name is None or str(fields[name]) == id_ else fields | {name: id_}


def with_id(sample: Sample, id_: str) -> Sample:
    """The sample under another id."""
    return sample if sample.id == id_ else dataclasses.replace(sample, id=id_)


def _read(row: Row | DataError, source: SourceConfig) -> ReadRow | DataError:
    if isinstance(row, DataError):
        return row
    try:
        return ReadRow(row, read_row(row, source))
    except DataError as error:
        return error
