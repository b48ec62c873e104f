"""Rows of any kind of file or folder, before their format is known: JSON in all its forms, CSV, Parquet, Arrow."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from easyvideor1.data.convert.columns import list_in
from easyvideor1.data.rows import BOM, Row, RowFile, broken_json, no_object, open_plain, parse
from easyvideor1.data.shapes import HEADS, TABLES
from easyvideor1.errors import DataError, UsageError
from easyvideor1.extras import need

HEAD_BYTES = 64
MAX_CELL_CHARS = 1 << 24
CONTAINERS = (".parquet", ".arrow")
_BETWEEN = re.compile(r"[\s,]*")
ASKED = ("problem", "question", "query", "prompt", "instruction", "sentence", "caption")
SAID_NAMES = ("messages", "conversations", "conversation", "prompt", "turns", "images", "videos", "options", "choices")
"""Keys of lists of objects that one row may have."""


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
    return _objects(path, split)


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
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            separator = _separator(path, file)
            reader = csv.DictReader(file, delimiter=separator)
            names = reader.fieldnames or ()
            if twice := {name for name in names if names.count(name) > 1}:
                raise DataError(f"two columns are called {sorted(twice)[0]!r}", where=str(path), remedy="rename one")
            for fields in reader:
                where = f"{path}:{reader.line_num}"
                if None in fields or None in fields.values():
                    yield DataError(
                        f"not as many cells as the {len(names)} columns", where=where,
                        remedy='put " around a cell that holds a separator or a new line',
                    )  # fmt: skip
                else:  # a column without a name counts the rows
                    yield Row(where, {name: _cell(text) for name, text in fields.items() if name})
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8 text at byte {error.start}", where=str(path), remedy="save the file as UTF-8"
        ) from None
    except csv.Error as error:
        raise DataError(f"not a table: {error}", where=str(path)) from None


def _separator(path: Path, file: TextIO) -> str:
    """What divides cells: a tab in .tsv; else a comma, or what the first line has instead of any."""
    first = file.readline()
    file.seek(0)
    if path.suffix.lower() == ".tsv":
        return "\t"
    return next((mark for mark in (",", ";", "\t") if mark in first), ",")


def _cell(text: str) -> Any:
    """A cell; a list or an object that is written in it is read, and nothing in it is no value."""
    if not text.strip():
        return None
    if text.lstrip()[0] in "[{":
        value = parse(b'{"value": ' + text.encode() + b"}", where="")
        if isinstance(value, Row):
            return value.fields["value"]
        items = list_in(text)
        return text if items is None else items
    return text


def _objects(path: Path, split: str | None) -> Iterator[Row | DataError]:
    """The rows of a JSON file: lines, a list, or objects over several lines, of which one may hold all rows."""
    objects = _spread(path)
    if objects is None:
        yield from RowFile(path)
    elif len(objects) == 1 and _is_container(objects[0]):
        for where, value in _inside(objects[0], path, split):
            yield Row(where, value) if isinstance(value, dict) else no_object(value, where=where)
    else:
        yield from (Row(f"{path}[{place}]", value) for place, value in enumerate(objects))


def _spread(path: Path) -> list[dict[str, Any]] | None:
    """The objects of a file that are not one per line; None where it holds lines or a list.

    Raises:
        DataError: broken JSON.
    """
    with open_plain(path) as file:
        line = next((line for line in file if line.strip(BOM).strip()), b"").removeprefix(BOM).strip()
        if not line.startswith(b"{"):
            return None
        first = parse(line, where=str(path))
        if isinstance(first, Row):
            is_alone = not any(line.strip() for line in file)
            return [first.fields] if is_alone and _is_container(first.fields) else None
        if line.endswith(b"}"):  # a broken line
            return None
        text = (line + b"\n" + file.read()).decode(errors="replace")
    decoder, found, place = json.JSONDecoder(), [], 0
    while place < len(text):
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise broken_json(error, where=str(path)) from None
        if not isinstance(value, dict):
            raise no_object(value, where=f"{path}[{len(found)}]")
        found.append(value)
        between = _BETWEEN.match(text, place)
        place = between.end() if between else place
    return found


def _is_container(fields: dict[str, Any]) -> bool:
    """Whether an object holds rows, instead of being the only one."""
    if any(isinstance(fields.get(name), str) for name in ASKED) or any(
        isinstance(fields.get(name), list) and fields[name] and isinstance(fields[name][0], dict) for name in SAID_NAMES
    ):
        return False
    values = list(fields.values())
    return len(values) > 0 and (
        bool(_holders(fields))
        or all(isinstance(value, dict) for value in values)
        or all(isinstance(value, list) for value in values)
    )


def _holders(fields: dict[str, Any]) -> list[str]:
    """The keys of lists of objects."""
    return [name for name, value in fields.items() if isinstance(value, list) and value and isinstance(value[0], dict)]


def _inside(whole: dict[str, Any], path: Path, split: str | None) -> Iterator[tuple[str, Any]]:
    """(place, value) of each row that an object holds: under a key, by key, or by column as pandas writes them."""
    holders = _holders(whole)
    if "rows" in holders and isinstance(whole["rows"][0].get("row"), dict):  # of the Hugging Face server
        yield from ((f"{path}[rows][{place}]", item.get("row")) for place, item in enumerate(whole["rows"]))
    elif holders:
        name = split if split in holders else holders[0]
        if len(holders) > 1 and split not in holders:
            raise UsageError(f"{path} holds {', '.join(holders)}; choose one with --split NAME")
        yield from ((f"{path}[{name}][{place}]", item) for place, item in enumerate(whole[name]))
    elif isinstance(whole.get("columns"), list) and isinstance(whole.get("data"), list):  # orient="split"
        for place, values in enumerate(whole["data"]):
            yield f"{path}[{place}]", dict(zip(whole["columns"], values, strict=False))
    elif all(isinstance(value, dict) for value in whole.values()):
        if _are_columns(whole):
            for key in next(iter(whole.values())):
                yield f"{path}[{key}]", {name: column[key] for name, column in whole.items()}
        else:
            yield from ((f"{path}[{key}]", {"id": key} | value) for key, value in whole.items())
    else:
        sizes = {len(column) for column in whole.values()}
        if len(sizes) != 1:
            raise DataError(
                f"columns of different lengths: {sorted(sizes)}", where=str(path), remedy="give each row every column"
            )
        for place in range(sizes.pop()):
            yield f"{path}[{place}]", {name: column[place] for name, column in whole.items()}


def _are_columns(whole: dict[str, dict[str, Any]]) -> bool:
    """Whether objects are columns with the number of each row, instead of rows."""
    keys = [set(column) for column in whole.values()]
    return bool(keys[0]) and all(one == keys[0] for one in keys) and all(key.isdigit() for key in keys[0])
