"""Readers for the records of a run, for the report, for people's own plots and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from easyvideor1.records.jsonl import read_records
from easyvideor1.records.metrics import is_wall_clock


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Records of a metrics file, oldest first; a half-written last line is left out.

    Raises:
        DataError: no such file, or a damaged line.
    """
    return read_records(path)


def comparable(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records without readings of the clock, which two equal runs must agree on; records of nothing else are left
    out."""
    plain = ({name: value for name, value in record.items() if not is_wall_clock(name)} for record in records)
    return [record for record in plain if record.keys() != {"step"}]


def read_validation(path: str | Path) -> list[dict[str, Any]]:
    """Records of a validation log; of two for the same response (a validation done again) the later one counts."""
    found = {(record["step"], record.get("id"), record.get("kind")): record for record in read_records(path)}
    return list(found.values())


def read_rollouts(folder: str | Path) -> list[dict[str, Any]]:
    """Records of a rollout log, oldest first."""
    return read_records(Path(folder) / "rollouts.jsonl")
