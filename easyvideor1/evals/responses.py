"""Saved responses of any origin, by item: JSON Lines, sample files of lmms-eval, prediction tables of VLMEvalKit."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.evals.annotations import Row, read_value
from easyvideor1.evals.benchmark import Item
from easyvideor1.extras import need

ID_FIELDS = ("id", "question_id", "uid", "key", "Question ID", "problem_id", "qid")
ENDINGS = (".jsonl", ".json", ".xlsx", ".csv", ".tsv", ".parquet")
TEXT_FIELDS = ("response", "prediction", "output", "pred", "answer_by_model", "video-llm-prediction")


@dataclass(frozen=True, kw_only=True, slots=True)
class Responses:
    """The saved responses by item."""

    by_id: Mapping[str, str]
    origin: str
    """How the file was read: "JSON Lines" (or rows of a JSON file), "lmms-eval" or "VLMEvalKit"."""
    num_unknown: int = 0
    """Responses to nothing that was asked."""
    num_repeated: int = 0
    """Responses to an item that had one already; the last counts."""
    num_broken: int = 0
    """Lines that are no response at all."""


def read_responses(path: Path, items: Sequence[Item]) -> Responses:
    """The responses of a file, or of all files of a folder, matched to items.

    An item is found by its id, or by what the authors call it where that is unique; in files of other harnesses also by
    its question and video, or else by its place in the annotations.

    Raises:
        DataError: a file cannot be read, or none of the responses belongs to an item.
    """
    files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS) if path.is_dir() else [path]
    found, numbers = zip(*(_read_file(file, items) for file in files), strict=True) if files else ((), ())
    by_id: dict[str, str] = {}
    num_repeated = 0
    for part in found:
        num_repeated += part.num_repeated + len(by_id.keys() & part.by_id.keys())
        by_id |= part.by_id
    num_unknown, num_broken = sum(part.num_unknown for part in found), sum(part.num_broken for part in found)
    is_empty = not sum(numbers) and (path.is_dir() or path.suffix.lower() == ".json")
    if items and (is_empty or 0 < num_unknown == sum(numbers)):
        raise DataError(
            f"none of {sum(numbers)} responses belongs to one of {len(items)} items, such as '{items[0].id}'",
            where=str(path),
            remedy="a line is {id, response} with the ids of `easyvideor1 eval items`",
        )
    return Responses(
        by_id=by_id,
        origin=", ".join(dict.fromkeys(part.origin for part in found)),
        num_unknown=num_unknown,
        num_repeated=num_repeated,
        num_broken=num_broken,
    )


def _read_file(path: Path, items: Sequence[Item]) -> tuple[Responses, int]:
    """The responses of one file, and how many rows have or lack one."""
    rows, num_broken = _rows(path)
    if rows and all("doc_id" in row for row in rows):
        origin, pairs = "lmms-eval", [(_lmms_key(row), _lmms_text(row)) for row in rows]
    elif rows and all("prediction" in row and ("index" in row or _is_table(path)) for row in rows):
        origin, pairs = "VLMEvalKit", _table_pairs(rows, items)
    else:
        origin, pairs = "JSON Lines", _pairs(rows, items)
    place_of = _places(items, is_by_place=origin != "JSON Lines")
    by_id: dict[str, str] = {}
    num_unknown = num_repeated = 0
    for key, text in pairs:
        name = place_of(key)
        if name is None:
            num_unknown += 1
        elif text is not None:
            num_repeated += name in by_id
            by_id[name] = text
    found = Responses(
        by_id=by_id, origin=origin, num_unknown=num_unknown, num_repeated=num_repeated, num_broken=num_broken
    )
    return found, len(pairs)


def _rows(path: Path) -> tuple[list[Row], int]:
    """The rows of a response file, and how many lines are none."""
    if _is_table(path):
        return (_sheet(path) if path.suffix.lower() == ".xlsx" else read_value(path)), 0
    if path.suffix.lower() == ".json":
        value = read_value(path)
        if isinstance(value, dict):
            value = value.get("logs") or value.get("results") or value
        rows = list(_nested(value))
        if not rows and isinstance(value, dict):
            return _by_key(value), 0
        return rows, sum(not isinstance(row, dict) for row in value) if isinstance(value, list) else 0
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise DataError(f"cannot read the responses: {error.strerror}", where=str(path)) from None
    rows, num_broken = [], 0
    for line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            num_broken += 1
    return rows, num_broken


def _nested(value: Any, video: str = "") -> Iterator[Row]:
    """The responses in a file as authors publish them: lists of rows at any depth, below tracks (OVO-Bench), below
    videos and aspects (TempCompass) or below videos (Video-MME); probes of one row have its id and their number."""
    if isinstance(value, list):
        for part in value:
            yield from _nested(part, video)
    elif isinstance(value, dict):
        if isinstance(value.get("test_info"), list):
            for number, probe in enumerate(value["test_info"]):
                if isinstance(probe, dict) and any(name in probe for name in TEXT_FIELDS):
                    yield probe | {"id": f"{value.get('id')}_{number}"}
        elif any(name in value for name in (*TEXT_FIELDS, "doc_id")):
            yield {"video": video} | value
        else:
            for name, part in value.items():
                yield from _nested(part, video or str(name)) if isinstance(part, (list, dict)) else ()


def _by_key(value: Mapping[str, Any]) -> list[Row]:
    """An object id -> response as rows."""
    return [{"id": name, "response": text} for name, text in value.items() if not isinstance(text, (dict, list))]


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".xlsx", ".csv", ".tsv", ".parquet")


def _sheet(path: Path) -> list[Row]:
    need("openpyxl", for_what=f"reading {path.name}")
    import openpyxl

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:
        # A damaged workbook makes the reader raise errors of many libraries; the remedy is the same.
        raise DataError(f"cannot read the table: {type(error).__name__}: {error}", where=str(path)) from error
    lines = book.worksheets[0].iter_rows(values_only=True)
    header = [str(name) for name in next(lines, ())]
    return [dict(zip(header, line, strict=False)) for line in lines]


def _own_key(row: Row) -> Any:
    return next((row[name] for name in ID_FIELDS if row.get(name) is not None), None)


def _text(row: Row) -> str | None:
    """The response of a row; None where it has none."""
    value = next((row[name] for name in TEXT_FIELDS if row.get(name) is not None), None)
    while isinstance(value, list) and value:
        value = value[0]
    if value is None or value == [] or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pairs(rows: Sequence[Row], items: Sequence[Item]) -> list[tuple[Any, str | None]]:
    """Rows by their id; one without an id by its question and video, of equal ones the next."""
    waiting: dict[tuple[str, str], deque[str]] = {}
    for item in items:
        waiting.setdefault((_folded(item.fields["question"]), _stem(item.video)), deque()).append(item.id)
    pairs = []
    for row in rows:
        key = _own_key(row)
        if key is None and (same := waiting.get((_folded(str(row.get("question"))), _stem(str(row.get("video")))))):
            key = same.popleft()
        pairs.append((key, _text(row)))
    return pairs


def _stem(video: str) -> str:
    return re.sub(r".*/|\.[a-z0-9]+$", "", video)


def _lmms_key(row: Row) -> Any:
    """The id in the document that lmms-eval keeps with a sample, else the number of the document."""
    document = row.get("doc")
    named = _own_key(document) if isinstance(document, dict) else None
    return named if named is not None else row["doc_id"]


def _lmms_text(row: Row) -> str | None:
    """The unfiltered response of a sample: `resps` is a list of lists of sampled texts."""
    value = row.get("resps", row.get("filtered_resps"))
    while isinstance(value, list) and value:
        value = value[0]
    return None if value is None or value == [] else _text({"response": value})


def _table_pairs(rows: Sequence[Row], items: Sequence[Item]) -> list[tuple[Any, str | None]]:
    """Rows of a prediction table: by id where they have one of ours, by question and video, else by their index."""
    known = {item.id for item in items}
    by_question: dict[tuple[str, str], list[str]] = {}
    for item in items:
        by_question.setdefault((_folded(item.fields["stem"]), _stem(item.video)), []).append(item.id)
        by_question.setdefault((_folded(item.fields["stem"]), ""), []).append(item.id)
    pairs = []
    for row in rows:
        key = next((str(row[name]) for name in ID_FIELDS if str(row.get(name)) in known), None)
        if key is None:
            video = _stem(str(row.get("video") or row.get("video_path") or ""))
            question = _folded(str(row.get("question") or ""))
            found = by_question.get((question, video)) or by_question.get((question, ""), [])
            key = found[0] if len(found) == 1 else row.get("index")
        pairs.append((key, _text(row)))
    return pairs


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _places(items: Sequence[Item], *, is_by_place: bool) -> Callable[[Any], str | None]:
    """Key of a response -> id of its item."""
    names = {item.id: item.id for item in items}
    short = Counter(alias for item in items for alias in _aliases(item.id))
    for item in items:
        for alias in _aliases(item.id):
            if short[alias] == 1:
                names.setdefault(alias, item.id)
    by_place = dict(enumerate(item.id for item in items)) if is_by_place else {}

    def find(key: Any) -> str | None:
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if key is None:
            return None
        if str(key) in names:
            return names[str(key)]
        return by_place.get(int(key)) if str(key).isdigit() else None

    return find


def _aliases(name: str) -> Iterable[str]:
    """Names that the authors use for items whose id has a track or a file in front."""
    _, slash, rest = name.partition("/")
    return (rest,) if slash else ()
