"""Recognises files and rows in other forms than this project's, so that an error can name the form and the remedy."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError

TABLES = {".csv": "a CSV table", ".tsv": "a table of tab-separated values"}
HEADS: tuple[tuple[bytes, str], ...] = (
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow stream"),
)
"""First bytes -> kinds of files that `data convert` reads."""
OTHER_HEADS: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it first"),
    (b"BZh", "a bzip2 archive", "unpack it first"),
    (b"\xfd7zXZ", "an xz archive", "unpack it first"),
    (b"\xff\xfe", "text in UTF-16", "save it as UTF-8, e.g. with iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "text in UTF-16", "save it as UTF-8, e.g. with iconv -f UTF-16 -t UTF-8"),
    (b"\x80", "a Python pickle", "pickles are never read, because they can run code; write the rows as JSON"),
    (b"version https://git-lfs", "the stand-in of a file that was not downloaded", "fetch it with git lfs pull"),
    (b"<", "a page of HTML or XML", "the download may have failed; get the file again"),
)
"""First bytes -> other kinds, with the remedy."""

SAID = {
    "messages": "ms-swift's `messages` rows",
    "conversations": "the `conversations` rows of LLaVA-Video",
    "prompt": "verl's `prompt` rows",
}


def convert_command(path: str | Path) -> str:
    """The command that makes rows of a file."""
    name = Path(path).name.split(".")[0] or "data"
    return f"easyvideor1 data convert {shlex.quote(str(path))} --out {shlex.quote(name + '-rows.jsonl')}"


def foreign_file(path: Path, line: bytes) -> DataError | None:
    """The kind of a file that holds no rows of JSON; None where it may hold them.

    Args:
        line: its first line that is not empty.
    """
    kind = next((kind for head, kind in HEADS if line.startswith(head)), None)
    if kind is None and path.suffix.lower() in TABLES and not line.startswith(b"{"):
        kind = TABLES[path.suffix.lower()]
    if path.is_dir():
        kind = _folder(path)
    if kind is not None:
        return DataError(f"this is {kind}, where rows of JSON are expected", where=str(path), remedy=_try(path))
    for head, other, remedy in OTHER_HEADS:
        if line.startswith(head):
            return DataError(f"this is {other}, where rows of JSON are expected", where=str(path), remedy=remedy)
    return None


def _folder(path: Path) -> str | None:
    """The kind of a folder that `data convert` reads."""
    if (path / "dataset_dict.json").exists() or (path / "dataset_info.json").exists():
        return "a folder of Hugging Face datasets"
    if any(path.rglob("*.parquet")):
        return "a folder of Parquet files"
    return None


def _try(path: str | Path) -> str:
    return f"convert it: {convert_command(path)}"


def foreign_row(fields: Mapping[str, Any]) -> str:
    """The public format of a row, in words; "" where it is one of this project, or looks like none.

    A row with a `problem` is foreign too where it holds texts that would not be read.

    >>> foreign_row({"messages": [{"role": "user", "content": "What?"}]})
    "ms-swift's `messages` rows"
    """
    if "turns" not in fields:
        for name, kind in SAID.items():
            if isinstance(fields.get(name), list):
                return kind
    problem = fields.get("problem")
    if problem is not None and not isinstance(problem, list | dict):
        return ""
    if isinstance(fields.get("reward_model"), dict):
        return SAID["prompt"]
    if "sentence" in fields and "timestamp" in fields:
        return "Time-R1's rows"
    if "question_type" in fields and "path" in fields and "question" in fields:
        return "Time-R1's rows"
    if "question" in fields and ("video" in fields or "image" in fields):
        return "VideoChat-R1's rows"
    holders = [name for name, value in fields.items() if isinstance(value, list) and value and _are_rows(value)]
    if len(holders) == 1:
        return f"one JSON object that holds the rows under '{holders[0]}'"
    if len(fields) > 1 and _are_rows(list(fields.values())):
        return "one JSON object with a row per key"
    if len(fields) > 1 and all(isinstance(value, list) for value in fields.values()):
        return "one JSON object of columns"
    return ""


def _are_rows(values: list[Any]) -> bool:
    return all(isinstance(value, dict) and len(value) > 1 for value in values)
