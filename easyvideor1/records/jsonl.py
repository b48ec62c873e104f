"""Append-only JSON Lines: the one file format of everything a run tells about itself, mostly in records with a step."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError

REMEDY = "the file was damaged; delete the line to go on without it"


class Lines:
    """An open file of records, one JSON object a line; every record is flushed at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _cut_torn_tail(self.path)
        self._open()

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record; NaN and infinity, which JSON does not know, become null.

        Raises:
            OSError: it cannot be written; what was written of it is cut off when the file is opened again.
        """
        # A lone surrogate becomes its escape, which is how JSON spells it.
        rest = memoryview(_line(record).encode(errors="backslashreplace"))
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        self._file.close()

    def _open(self) -> None:
        self._file = self.path.open("ab", buffering=0)


class StepLines(Lines):
    """An open file of records that each carry their "step"."""

    def truncate_after(self, step: int) -> None:
        """Drop the records of later steps, which a resumed run makes again; the file is replaced in one move."""
        self._file.close()
        write_objects(self.path, [record for record in read_records(self.path) if record["step"] <= step])
        self._open()


def write_objects(path: str | Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole file of records in one move: a reader sees all of them, or what was there before."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.writelines(map(_line, records))
    os.replace(part, path)


def read_records(path: str | Path) -> list[dict[str, Any]]:
    """All records of a step file in order.

    Raises:
        DataError: as `read_objects`, and for a record without an integer "step".
    """
    records = read_objects(path)
    for number, record in enumerate(records, start=1):
        if not isinstance(record.get("step"), int):
            raise DataError("a record has an integer 'step'", where=f"{path}:{number}", field="step", remedy=REMEDY)
    return records


def read_objects(path: str | Path) -> list[dict[str, Any]]:
    """One object per line, in order; a last line without its end (a killed writer) is left out.

    Raises:
        DataError: the file is missing, or a finished line is not a JSON object.
    """
    path = Path(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read: {error.strerror}", where=str(path)) from None
    *lines, _torn = text.split(b"\n")
    return [_object(line, where=f"{path}:{number}") for number, line in enumerate(lines, start=1)]


def _object(line: bytes, *, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise DataError(f"not a JSON line: {error}", where=where, remedy=REMEDY) from None
    if not isinstance(record, dict):
        raise DataError(f"a line is a JSON object, got {type(record).__name__}", where=where, remedy=REMEDY)
    return record


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(_finite(record), ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut_torn_tail(path: Path) -> None:
    """Remove a half-written last line, so that the next record does not continue it."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(data.rfind(b"\n") + 1)
