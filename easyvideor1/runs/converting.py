"""`easyvideor1 data convert`: a data set of another project made into rows of this one."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from easyvideor1.data.convert.formats import FORMATS, recognise
from easyvideor1.data.convert.kinds import guess_type
from easyvideor1.data.convert.media import MediaWriter
from easyvideor1.data.convert.tables import read_table
from easyvideor1.data.rows import Row
from easyvideor1.data.schema import is_nan, parse_row
from easyvideor1.errors import DataError, UsageError
from easyvideor1.types import Sample

SHOWN_ROWS = 5
SHOWN_ERRORS = 10


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set to convert, and how to read it."""

    path: Path
    format: str | None = None
    """Name of a format; None: it is recognised row by row."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field of a row -> the column that holds it, or the columns that hold its items."""
    problem_type: str | None = None
    """Problem type of every row; None: the type that the format states, or that the gold answer fits."""
    media_root: Path | None = None
    split: str | None = None


@dataclass(kw_only=True)
class Converted:
    """The result of a conversion."""

    num_rows: int = 0
    num_rejected: int = 0
    num_media: int = 0
    """Files written with the content of media."""
    by_format: Counter[str] = field(default_factory=Counter)
    by_problem_type: Counter[str] = field(default_factory=Counter)
    num_guessed: int = 0
    """Rows whose problem type was guessed from their gold answer."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Settings of media that a row cannot have -> how often."""
    shown: list[Sample] = field(default_factory=list)
    """The first few rows."""
    errors: list[DataError] = field(default_factory=list)
    """What is wrong with the first few of the others."""


def convert(source: Source, out: Path) -> Converted:
    """Write the rows of a data set to `out`; those that cannot be converted, with reasons, beside it.

    Raises:
        DataError: the source cannot be read at all.
        UsageError: `out` cannot be written or is the source, an unknown format, or a missing package.
    """
    if source.format is not None and source.format not in FORMATS:
        raise UsageError(f"--format {source.format} is unknown; known: {', '.join(FORMATS)}")
    if out.exists() and source.path.exists() and out.samefile(source.path):
        raise UsageError(f"--out {out} is the source itself; name another file")
    found, rejected = Converted(), rejected_path(out)
    root = source.media_root or (source.path if source.path.is_dir() else source.path.parent)
    writer = MediaWriter(root.resolve(), out.parent.resolve(), out.parent / f"{out.stem}-media")
    drafts = [path.with_name(f".{path.name}.part") for path in (out, rejected)]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with drafts[0].open("w", encoding="utf-8") as good, drafts[1].open("w", encoding="utf-8") as bad:
            for where, row in _rows(source, writer, found, bad):
                good.write(json.dumps(row, ensure_ascii=False) + "\n")
                found.num_rows += 1
                if len(found.shown) < SHOWN_ROWS:
                    found.shown.append(parse_row(row, where=where, media_root=out.parent))
        for draft, path in zip(drafts, (out, rejected), strict=True):
            os.replace(draft, path)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
    if not found.num_rejected:
        rejected.unlink()
    found.num_media, found.left_out = writer.num_written, writer.left_out
    return found


def rejected_path(out: Path) -> Path:
    """The file that lists the rows that cannot be used."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.rejected.jsonl")


def _rows(source: Source, writer: MediaWriter, found: Converted, bad: IO[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every converted row; the others are written down."""
    for item in read_table(source.path, split=source.split):
        where = item.where
        try:
            if isinstance(item, DataError):
                raise item
            yield where, _converted(item, source, writer, found)
        except DataError as error:
            named = DataError(error.problem, where=error.where or where, field=error.field, remedy=error.remedy)
            found.num_rejected += 1
            if len(found.errors) < SHOWN_ERRORS:
                found.errors.append(named)
            fields = item.fields if isinstance(item, Row) else None
            line = {"where": where, "reasons": [str(named)], "row": fields}
            bad.write(json.dumps(line, ensure_ascii=False, default=_shown) + "\n")


def _converted(item: Row, source: Source, writer: MediaWriter, found: Converted) -> dict[str, Any]:
    fields = _renamed(item.fields, source.columns)
    name = source.format or recognise(fields)
    row = writer.localised(FORMATS[name](fields))
    if source.problem_type is not None:
        row["problem_type"] = source.problem_type
    is_guessed = not row.get("problem_type")
    if is_guessed:
        row["problem_type"] = guess_type(_gold(row), row.get("options") or ())
    try:
        json.dumps(row)
    except (TypeError, ValueError) as error:
        raise DataError(f"holds a value that JSON has no form for: {error}", where=item.where) from None
    sample = parse_row(row, where=item.where, media_root=Path())
    found.num_guessed += is_guessed
    found.by_format[name] += 1
    found.by_problem_type[sample.problem_type] += 1
    return row


def _renamed(fields: Mapping[str, Any], columns: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """A copy of the fields of a row, columns under the names of the fields that they are."""
    row = {name: value for name, value in fields.items() if value is not None and not is_nan(value)}
    for name, sources in columns.items():
        values = [row.pop(column, None) for column in sources]
        if missing := [column for column in sources if column not in fields]:
            raise DataError(f"no column '{missing[0]}'; there are {', '.join(fields)}", field=name)
        value = values[0] if len(sources) == 1 else [value for value in values if value is not None]
        if value is not None:
            row[name] = value
    return row


def _gold(row: Mapping[str, Any]) -> str:
    """The gold answer as text, without its tags."""
    value = row.get("answer", row.get("solution"))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("<answer>", "").replace("</answer>", "").strip()


def _shown(value: Any) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)
