"""Rows of any kind of file or folder, before their format is known: JSON in all its forms, CSV, Parquet, Arrow."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from easyvideor1.data.rows import BOM, Row, RowFile, parse
from easyvideor1.data.shapes import HEADS, TABLES
from easyvideor1.errors import DataError, UsageError
from easyvideor1.extras import need

HEAD_BYTES = 64
MAX_CELL_CHARS = 1 << 24
CONTAINERS = (".parquet", ".arrow")


def read_table(path: Path, *, split: str | None = None) -> Iterator[Row | DataError]:
    """The rows of a file or folder, or what is wrong with one.

    Args:
        split: which one of a folder that holds several.

    Raises:
        DataError: it cannot be read at all.
        UsageError: a missing package, or a folder of several splits of which none was chosen.
    """
    if path.is_dir():
        return _containers(_files_of(path, split))
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if head.startswith(tuple(start for start, _ in HEADS)) or path.suffix.lower() in CONTAINERS:
        return _containers([path])
    if path.suffix.lower() in TABLES:
        return _cells(path)
    return _objects(path)


def _files_of(folder: Path, split: str | None) -> list[Path]:
    """The files of one split of a data set's folder, in order."""
    found = sorted(file for end in CONTAINERS for file in folder.rglob(f"*{end}") if not file.name.startswith("."))
    if (folder / "state.json").exists():  # a folder of `save_to_disk` names its own files; others are caches
        names = [item["filename"] for item in json.loads((folder / "state.json").read_text())["_data_files"]]
        found = [folder / name for name in names]
    if not found:
        raise DataError("a folder without Parquet or Arrow files", where=str(folder), remedy="name a file in it")
    by_split: dict[str, list[Path]] = {}
    for file in found:
        inside = file.relative_to(folder)
        is_split_folder = len(inside.parts) > 1 and (folder / "dataset_dict.json").exists()
        name = str(inside).partition(os.sep)[0] if is_split_folder else file.stem.split("-")[0]
        by_split.setdefault(name, []).append(file)
    if split is None and len(by_split) > 1:
        raise UsageError(f"{folder} holds {', '.join(by_split)}; choose one with --split NAME")
    if split is not None and split not in by_split:
        raise UsageError(f"{folder} has no split '{split}'; it holds {', '.join(by_split)}")
    return by_split[split] if split is not None else next(iter(by_split.values()))


def _containers(files: list[Path]) -> Iterator[Row | DataError]:
    need("pyarrow", for_what="reading Parquet and Arrow files")
    from easyvideor1.data.convert.arrow import read_container  # its library is optional

    for file in files:
        for place, fields in enumerate(read_container(file)):
            yield Row(f"{file}[{place}]", fields)


def _cells(path: Path) -> Iterator[Row | DataError]:
    """The rows of a table of text; its first line names the columns."""
    csv.field_size_limit(MAX_CELL_CHARS)
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=separator, restkey="")
            for fields in reader:
                where = f"{path}:{reader.line_num}"
                if "" in fields or None in fields.values():
                    yield DataError(f"not as many cells as the {len(reader.fieldnames or ())} columns", where=where)
                else:
                    yield Row(where, {name: _cell(text) for name, text in fields.items()})
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8 text at byte {error.start}", where=str(path), remedy="save the file as UTF-8"
        ) from None
    except csv.Error as error:
        raise DataError(f"not a table: {error}", where=str(path)) from None


def _cell(text: str) -> Any:
    """A cell; a list or an object that is written in it is read, and nothing in it is no value."""
    if not text.strip():
        return None
    if text.lstrip()[0] in "[{":
        value = parse(b'{"value": ' + text.encode() + b"}", where="")
        return value.fields["value"] if isinstance(value, Row) else text
    return text


def _objects(path: Path) -> Iterator[Row | DataError]:
    """The rows of a JSON file: lines, a list, or one object that holds them under a key, by key or by column."""
    whole = _one_object(path)
    if whole is None:
        yield from RowFile(path)
        return
    for where, value in _inside(whole, path):
        yield (
            Row(where, value)
            if isinstance(value, dict)
            else DataError(f"a row is a JSON object, got {type(value).__name__}", where=where)
        )


def _one_object(path: Path) -> dict[str, Any] | None:
    """The object that a whole file is; None where it holds lines or a list."""
    with path.open("rb") as file:
        start = file.read(1 << 16).removeprefix(BOM).lstrip()
        if not start.startswith(b"{") or (b"\n" in start.rstrip() and start.split(b"\n")[0].rstrip().endswith(b"}")):
            return None
        file.seek(0)
        whole = parse(file.read().removeprefix(BOM), where=str(path))
    return whole.fields if isinstance(whole, Row) and _is_container(whole.fields) else None


def _is_container(fields: dict[str, Any]) -> bool:
    """Whether an object holds rows, instead of being the only one."""
    values = list(fields.values())
    holders = [value for value in values if isinstance(value, list) and value and isinstance(value[0], dict)]
    names = {"messages", "conversations", "prompt", "turns", "images", "videos"}
    if any(fields.get(name) in holders for name in names):
        return False
    return len(holders) == 1 or (
        len(values) > 0 and (all(isinstance(v, dict) for v in values) or all(isinstance(v, list) for v in values))
    )


def _inside(whole: dict[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    if all(isinstance(value, dict) for value in whole.values()):
        for key, value in whole.items():
            yield f"{path}[{key}]", {"id": key} | value
        return
    for name, value in whole.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from ((f"{path}[{name}][{place}]", item) for place, item in enumerate(value))
            return
    sizes = {len(column) for column in whole.values()}
    if len(sizes) != 1:
        raise DataError(f"columns of different lengths: {sorted(sizes)}", where=str(path))
    for place in range(sizes.pop()):
        yield f"{path}[{place}]", {name: column[place] for name, column in whole.items()}
