"""Annotation files as their authors publish them: JSON, JSON Lines, CSV, TSV and Parquet, as plain values and rows."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.data.rows import read_rows as read_lines
from easyvideor1.errors import DataError
from easyvideor1.extras import need

Row = Mapping[str, Any]


def read_value(path: Path) -> Any:
    """The value in a JSON file, or the list of rows of a file in another format.

    Raises:
        DataError: the file cannot be read, or is not what its ending says.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _parquet(path)
    if ending in (".csv", ".tsv"):
        return _table(path, "," if ending == ".csv" else "\t")
    text = _text(path)
    try:
        return json.loads(text)
    except RecursionError:
        raise DataError("broken JSON: nested too deeply", where=str(path)) from None
    except ValueError as error:
        if not text.lstrip().startswith("{"):
            raise DataError(f"broken JSON: {error}", where=str(path)) from None
    return [row.fields for row in read_lines(path)]


def read_rows(path: Path) -> list[tuple[str, Row]]:
    """("file[number]", row) of a file that is a list of rows, or one object of rows by key.

    Raises:
        DataError: as `read_value`; the file holds no rows.
    """
    value = read_value(path)
    if isinstance(value, dict):
        value = list(value.values()) if value and all(isinstance(row, dict) for row in value.values()) else [value]
    if not isinstance(value, list) or not value:
        raise DataError("no rows", where=str(path), remedy="give the annotation file that the authors publish")
    rows = []
    for number, row in enumerate(value):
        if not isinstance(row, dict):
            raise DataError(f"a row is an object, got {type(row).__name__}", where=f"{path}[{number}]")
        rows.append((f"{path}[{number}]", row))
    return rows


def text_lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    return [line for line in _text(path).splitlines() if line.strip()]


def required(row: Row, name: str, *, where: str, kind: type | tuple[type, ...] = str) -> Any:
    """A field of a row; a number that a table holds as text is one.

    Raises:
        DataError: it is missing or of another type.
    """
    value = row.get(name)
    if value is None:
        raise DataError(
            "missing", where=where, field=name, remedy=f"the rows of this benchmark have it; found {sorted(row)[:12]}"
        )
    if isinstance(value, str) and kind in (int, float, (int, float)):
        number = number_in(value)
        value = value if number is None else int(number) if number.is_integer() else number
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"must be another type, got {value!r:.60}", where=where, field=name)
    return value


def as_list(value: Any) -> list[Any]:
    """A list as it is, a sequence of another kind as a list, one value as a list of it, nothing as an empty list."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)) or (isinstance(value, Sequence) and not isinstance(value, str)):
        return list(value)
    return [value]


def number_in(value: Any) -> float | None:
    """A number, also one that a table holds as text; None for anything else."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read the annotations: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text at byte {error.start}", where=str(path)) from None


def _table(path: Path, delimiter: str) -> list[dict[str, Any]]:
    csv.field_size_limit(10_000_000)
    try:
        rows = list(csv.DictReader(io.StringIO(_text(path), newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"broken table: {error}", where=str(path)) from None
    return [{name: _cell(text) for name, text in row.items()} for row in rows]


def _cell(text: Any) -> Any:
    """A cell of a table; lists and objects of texts are written there as JSON, or as Python shows them."""
    if not isinstance(text, str) or text[:1] + text[-1:] not in ("[]", "{}"):
        return text
    if text not in ("[]", "{}") and not set(text) & set("\"'{"):  # numbers in brackets may be an answer
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, (list, dict)):
            return value
    return text


def _without_nulls(value: Any) -> Any:
    """A value without the fields that only other rows of its column have: Parquet fills them with nulls."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value


def _parquet(path: Path) -> list[dict[str, Any]]:
    need("pyarrow", for_what=f"reading {path.name}")
    import pyarrow
    import pyarrow.parquet

    try:
        return [_without_nulls(row) for row in pyarrow.parquet.read_table(path).to_pylist()]
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"cannot read the Parquet file: {error}", where=str(path)) from None
