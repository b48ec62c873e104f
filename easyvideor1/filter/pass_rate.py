"""Pass rates: how often a model answers each row of a data set rightly, and which rows that leaves.

A row's pass rate is the mean accuracy of k responses. For right-or-wrong types that is the share of right responses;
graded types (grounding, tracking, ..) keep their grades, unless a threshold makes every response right or wrong.
Unscored responses are left out of the mean, and a row of which none was scored has no rate.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.samples import read_all
from easyvideor1.errors import DataError, UsageError
from easyvideor1.records.jsonl import Lines, read_objects, write_objects
from easyvideor1.types import Sample


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A row of a data file, as it stands there (but for an id that others have too) and as it was read."""

    fields: Mapping[str, Any]
    sample: Sample

    @property
    def key(self) -> tuple[str, str]:
        """Id and digest of the fields: an edited row is measured again."""
        text = json.dumps(self.fields, sort_keys=True)
        return self.sample.id, hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A row that has no pass rate."""

    where: str
    """ "file:line" of the row."""
    id: str
    """ "" where the row could not be read."""
    error: str


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The worth of the responses to a row."""

    accuracies: tuple[float | None, ...]
    """The accuracy of each response; None where it could not be scored. At least one could."""
    best: str | None
    """The shortest response that is right, well-formed and complete."""

    def pass_rate(self, threshold: float | None) -> float:
        """Mean accuracy, or the share of accuracies >= threshold."""
        values = [value for value in self.accuracies if value is not None]
        if threshold is not None:
            values = [float(value >= threshold) for value in values]
        return math.fsum(values) / len(values)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Which pass rates are kept."""

    low: float = 0.0
    high: float = 1.0
    inclusive: bool = False
    """Keep low <= rate <= high; False: low < rate < high, so that 0 and 1 leave out what never or always succeeds."""

    def __post_init__(self) -> None:
        is_empty = self.low > self.high if self.inclusive else self.low >= self.high
        if not (0.0 <= self.low <= 1.0 and 0.0 <= self.high <= 1.0) or is_empty:
            raise UsageError(
                f"no pass rate lies within --min {self.low:g} and --max {self.high:g}; give 0 <= min < max <= 1"
                + ("" if self.inclusive else ", or --inclusive to keep the bounds themselves")
            )

    def keep(self, rate: float) -> bool:
        return self.low <= rate <= self.high if self.inclusive else self.low < rate < self.high


class RateFile:
    """The file of measured rows, one JSON line each; a killed run goes on from it."""

    def __init__(self, path: Path) -> None:
        self._known: dict[tuple[str, str], Measured] = {}
        for line in read_objects(path) if path.exists() else ():
            accuracies = tuple(line["accuracies"])
            self._known[line["id"], line["row"]] = Measured(accuracies=accuracies, best=line["best"])
        self._lines = Lines(path)

    def get(self, row: Row) -> Measured | None:
        return self._known.get(row.key)

    def add(self, row: Row, measured: Measured) -> None:
        """Keep a row's result, on disk at once; what is known already stays."""
        if row.key not in self._known:
            self._known[row.key] = measured
            id_, digest = row.key
            self._lines.append({"id": id_, "row": digest, "accuracies": measured.accuracies, "best": measured.best})


def load_rows(sources: Iterable[SourceConfig], check: Callable[[Sample], object]) -> tuple[list[Row], list[Failure]]:
    """All usable rows in file order, ids made unique, and the others.

    Args:
        check: raises DataError for a sample that cannot be scored.

    Raises:
        DataError: a file cannot be read at all.
    """
    rows, failures = [], []
    for item in read_all(sources):
        if isinstance(item, DataError):
            failures.append(Failure(where=item.where, id="", error=str(item)))
            continue
        try:
            check(item.sample)
        except DataError as error:
            failures.append(Failure(where=item.row.where, id=item.sample.id, error=str(error)))
        else:
            rows.append(Row(fields=item.fields, sample=item.sample))
    return rows, failures


def select(
    rows: Iterable[Row], rates: RateFile, *, bounds: Bounds, threshold: float | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(kept, dropped) rows in their order, unchanged but for their `pass_rate`; a row without a rate is in neither."""
    kept: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    for row in rows:
        measured = rates.get(row)
        if measured is not None:
            rate = measured.pass_rate(threshold)
            (kept if bounds.keep(rate) else dropped).append({**row.fields, "pass_rate": rate})
    return kept, dropped


def collected(rows: Iterable[Row], rates: RateFile, *, threshold: float | None) -> Iterator[dict[str, Any]]:
    """Each row that has a best response, with it as the row's offline trajectory, whatever its pass rate."""
    for row in rows:
        measured = rates.get(row)
        if measured is not None and measured.best is not None:
            rate = measured.pass_rate(threshold)
            trajectory = {"offline_output": measured.best, "has_offline_trajectory": True}
            yield {**row.fields, "pass_rate": rate} | trajectory


def check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a measurement beside its rates, or make sure that they are those of the rates there.

    Raises:
        UsageError: the folder holds rates of other settings.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_objects(path, [settings])
        return
    [before] = read_objects(path)
    now = json.loads(json.dumps(settings))
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if changed:
        raise UsageError(
            f"{path.parent} holds pass rates measured with other values of {', '.join(changed)}; "
            "choose another --out, or give those of that measurement to go on with it"
        )
