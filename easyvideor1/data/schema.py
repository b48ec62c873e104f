"""Rows of a data file become Samples, or errors naming file, line and field.

The rows of EasyVideoR1, OneThinker and Video-R1 load unchanged: `problem`, `answer` or `solution` (with or without
`<answer>` tags), `videos`, `images` or `path`, `options`, `data_type`, `problem_type`, `problem_id`, `offline_output`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.problem_types import canonical, option_named_by_text
from easyvideor1.types import Media, MediaKind, Sample
from easyvideor1.video.source import is_address

BOM = b"\xef\xbb\xbf"
TAG = re.compile(r"<(image|video)>")
ANSWER = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL)
SPAN_IN_THOUGHT = re.compile(r"\s*<think>\s*(\{.*\})\s*</think>(?!.*<answer>).*", re.DOTALL)
"""Charades-STA rows of EasyVideoR1: the span in the think tag, and a broken token where the answer tag should be."""
CLIP_FIELDS = {
    "path",
    "image",
    "video",
    "start_s",
    "end_s",
    "start",
    "end",
    "video_start",
    "video_end",
    "fps",
    "times_s",
}
TIME_FIELDS = CLIP_FIELDS - {"path", "image", "video"}
READ_FIELDS = {
    "id", "problem_id", "problem", "problem_type", "answer", "solution", "options", "images", "videos", "path",
    "data_type", "offline_output",
}  # fmt: skip


def read_samples(
    path: str | Path,
    *,
    media_root: str | Path | None = None,
    source: str = "",
    on_bad: Callable[[DataError], None] | None = None,
) -> list[Sample]:
    """All samples of a JSONL file, or of a JSON file holding a list of rows.

    Args:
        media_root: folder that relative media paths start from; None: the folder of the data file.
        source: name of the data set; "" takes the file's name.
        on_bad: is told what is wrong with a row, which is then left out; None: the first bad row is raised.

    Raises:
        DataError: unreadable file, no row in it; without `on_bad` also broken JSON, a wrong row (see `parse_row`) or
            an id used twice.
    """
    path = Path(path)
    root = Path(media_root) if media_root is not None else path.parent
    places: dict[str, str] = {}
    samples = []
    num_rows = 0
    for where, row in rows_or_errors(path):
        num_rows += 1
        try:
            if isinstance(row, DataError):
                raise row
            sample = parse_row(row, where=where, media_root=root, source=source or path.stem)
            _note_id(sample, places)
        except DataError as error:
            if on_bad is None:
                raise
            on_bad(error)
        else:
            samples.append(sample)
    if not num_rows:
        raise DataError("no rows", where=str(path), remedy="the file must hold one JSON object per line")
    return samples


def _note_id(sample: Sample, places: dict[str, str]) -> None:
    if sample.id in places:
        raise DataError(
            f"id {sample.id!r} is already used at {places[sample.id]}",
            where=sample.where,
            field="problem_id",
            remedy="make ids unique, or leave them out to number the rows",
        )
    places[sample.id] = sample.where


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """("file:line", row) of every row, before any check of its fields."""
    for where, row in rows_or_errors(path):
        if isinstance(row, DataError):
            raise row
        yield where, row


def rows_or_errors(path: Path) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """("file:line", row) of every row, or what is wrong with that line; an unreadable file is raised."""
    try:
        with path.open("rb") as file:
            number, is_first = 0, True
            for content in file:
                for line in content.removeprefix(BOM if number == 0 else b"").splitlines() or [b""]:
                    number += 1
                    if is_first and line.lstrip().startswith(b"["):
                        yield from _listed(path)
                        return
                    if line.strip():
                        is_first = False
                        yield f"{path}:{number}", _row_or_error(line, where=f"{path}:{number}")
    except OSError as error:
        raise DataError(f"cannot read the data file: {error.strerror}", where=str(path)) from None


def _listed(path: Path) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """The rows of a file that holds one JSON list of them."""
    for index, row in enumerate(_loads(path.read_bytes().removeprefix(BOM), where=str(path))):
        yield f"{path}[{index}]", _mapping_or_error(row, where=f"{path}[{index}]")


def _row_or_error(line: bytes, *, where: str) -> dict[str, Any] | DataError:
    try:
        return _mapping_or_error(_loads(line, where=where), where=where)
    except DataError as error:
        return error


def parse_row(row: Mapping[str, Any], *, where: str, media_root: Path, source: str = "") -> Sample:
    """One checked Sample.

    Raises:
        DataError: missing or empty problem, answer or problem_type; media that are no paths or a clip range that is
            none; `<image>`/`<video>` tags that do not match the media in number and kind.
    """
    problem, problem_type = _text(row, "problem", where=where), _type(row, where=where)
    media = _media(row, where=where, media_root=media_root)
    return Sample(
        id=_id(row, where=where),
        problem_type=problem_type,
        problem=problem,
        gold=_gold(row, problem_type, where=where),
        options=_options(row, where=where),
        media=_in_tag_order(problem, media, where=where),
        trajectories=_trajectories(row, where=where),
        source=source,
        where=where,
        extra={key: value for key, value in row.items() if key not in READ_FIELDS and value is not None},
    )


def _loads(content: bytes, *, where: str) -> Any:
    try:
        text = content.decode()
        value = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # halves of characters, which no file and no tokenizer can take
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        place = f"line {line}, byte {error.start}" if line > 1 else f"byte {error.start}"
        raise DataError(f"not UTF-8 text at {place}", where=where, remedy="save the file as UTF-8") from None
    except UnicodeEncodeError as error:
        raise DataError(f"half a character, \\u{ord(error.object[error.start]):x}", where=where) from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise DataError(f"broken JSON: {error.msg} at {line}column {error.colno}", where=where) from None
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f"broken JSON: {error}", where=where) from None
    except RecursionError:
        raise DataError("broken JSON: nested too deeply", where=where) from None
    return value


def _mapping_or_error(row: Any, *, where: str) -> dict[str, Any] | DataError:
    if isinstance(row, dict):
        return row
    return DataError(f"a row is a JSON object, got {type(row).__name__}", where=where)


def _text(row: Mapping[str, Any], name: str, *, where: str) -> str:
    value = row.get(name)
    if value is None:
        raise DataError("missing", where=where, field=name, remedy=f"every row needs a text '{name}'")
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"must be a non-empty text, got {value!r:.60}", where=where, field=name)
    return value


def _id(row: Mapping[str, Any], *, where: str) -> str:
    for name in ("problem_id", "id"):
        value = row.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        if value not in (None, ""):
            raise DataError(f"must be a text or an integer, got {value!r:.60}", where=where, field=name)
    return where.rpartition("/")[2]


def _answer(row: Mapping[str, Any], *, where: str) -> str:
    name = "answer" if row.get("answer") is not None else "solution"
    value = row.get(name)
    if value is None:
        raise DataError("missing", where=where, field="answer", remedy="give the gold answer in 'answer' or 'solution'")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    wrapped = ANSWER.fullmatch(text) or SPAN_IN_THOUGHT.fullmatch(text)
    text = wrapped.group(1).strip() if wrapped else text
    if not text.strip():
        raise DataError("empty gold answer", where=where, field=name, remedy="give the gold answer or drop the row")
    return text


def _gold(row: Mapping[str, Any], problem_type: str, *, where: str) -> str:
    """The gold answer; the letter of the option where an `answer` is the text of exactly one."""
    text = _answer(row, where=where)
    if canonical(problem_type) != "multiple choice" or row.get("answer") is None:
        return text
    return option_named_by_text(text, _options(row, where=where)) or text


def _type(row: Mapping[str, Any], *, where: str) -> str:
    """The problem type; where and when something happens is a question of time alone if the gold has no boxes."""
    name = _text(row, "problem_type", where=where)
    if canonical(name) != "spatial-temporal grounding":
        return name
    try:
        gold = json.loads(_answer(row, where=where))
    except (ValueError, RecursionError):
        return name  # the reward says what is wrong with it
    return "temporal grounding" if isinstance(gold, dict) and "time" in gold and not gold.get("boxes") else name


def _options(row: Mapping[str, Any], *, where: str) -> tuple[str, ...]:
    options = row.get("options") or ()
    if isinstance(options, dict):
        options = [f"{key}. {text}" for key, text in options.items()]
    if not isinstance(options, (list, tuple)) or not all(isinstance(option, (str, int, float)) for option in options):
        raise DataError(f"must be a list of texts, got {options!r:.60}", where=where, field="options")
    return tuple(str(option) for option in options)


def _trajectories(row: Mapping[str, Any], *, where: str) -> tuple[str, ...]:
    stored = row.get("offline_output") or ()
    stored = (stored,) if isinstance(stored, str) else stored
    if not isinstance(stored, (list, tuple)) or not all(isinstance(text, str) for text in stored):
        raise DataError("must be a text or a list of texts", where=where, field="offline_output")
    return tuple(text for text in stored if text.strip())


def _media(row: Mapping[str, Any], *, where: str, media_root: Path) -> list[Media]:
    media = []
    fields: tuple[tuple[str, MediaKind], ...] = (("images", "image"), ("videos", "video"))
    for name, kind in fields:
        items = row.get(name) or ()
        if isinstance(items, (str, dict)):
            items = (items,)
        if not isinstance(items, (list, tuple)):
            raise DataError(f"must be a path or a list of them, got {items!r:.60}", where=where, field=name)
        for item in items:
            media.append(_medium(item, kind, where=where, field=name, media_root=media_root))
    path = row.get("path")
    if path and not media:
        kind = row.get("data_type")
        if kind not in ("image", "video"):
            raise DataError(f"must be 'image' or 'video' beside 'path', got {kind!r}", where=where, field="data_type")
        media.append(_medium(path, kind, where=where, field="path", media_root=media_root))
    return media


def _medium(item: Any, kind: MediaKind, *, where: str, field: str, media_root: Path) -> Media:
    entry = item if isinstance(item, dict) else {"path": item}
    unknown = set(entry) - CLIP_FIELDS
    if unknown:
        raise DataError(f"unknown keys {sorted(unknown)}; known: {sorted(CLIP_FIELDS)}", where=where, field=field)
    path = entry.get("path", entry.get(kind))
    if isinstance(path, list) and path and all(isinstance(frame, str) for frame in path):
        resolved: str | tuple[str, ...] = tuple(_resolve(frame, media_root) for frame in path)
    elif isinstance(path, str) and path:
        resolved = _resolve(path, media_root)
    else:
        raise DataError(f"a {kind} is a path or a list of frame paths, got {path!r:.60}", where=where, field=field)
    timing = sorted(name for name in TIME_FIELDS if entry.get(name) is not None)
    if kind == "image" and timing:
        raise DataError(f"an image has no {', '.join(timing)}", where=where, field=field)
    medium = Media(
        kind=kind,
        path=resolved,
        start_s=_seconds(entry, ("start_s", "start", "video_start"), where=where, field=field),
        end_s=_seconds(entry, ("end_s", "end", "video_end"), where=where, field=field),
        fps=_seconds(entry, ("fps",), where=where, field=field),
        times_s=_times(entry.get("times_s"), where=where, field=field),
    )
    if medium.end_s is not None and medium.end_s <= (medium.start_s or 0.0):
        raise DataError(f"clip ends at {medium.end_s} s, before it starts", where=where, field=field)
    return medium


def _times(value: Any, *, where: str, field: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(_is_time(time) for time in value):
        raise DataError(f"'times_s' must be a list of numbers >= 0, got {value!r:.60}", where=where, field=field)
    return tuple(float(time) for time in value)


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _seconds(entry: Mapping[str, Any], names: tuple[str, ...], *, where: str, field: str) -> float | None:
    value = next((entry[name] for name in names if entry.get(name) is not None), None)
    if value is None:
        return None
    if not _is_time(value):
        raise DataError(f"'{names[0]}' must be a number >= 0, got {value!r}", where=where, field=field)
    return float(value)


def _resolve(path: str, media_root: Path) -> str:
    return path if is_address(path) else os.path.join(media_root, path)


def _in_tag_order(problem: str, media: list[Media], *, where: str) -> tuple[Media, ...]:
    """The media in the order of their tags; without any tag, in the order given (they then stand before the text)."""
    tags = TAG.findall(problem)
    if not tags:
        return tuple(media)
    have = {kind: [medium for medium in media if medium.kind == kind] for kind in ("image", "video")}
    for kind, items in have.items():
        if tags.count(kind) != len(items):
            raise DataError(
                f"{tags.count(kind)} <{kind}> tags but {len(items)} {kind}s",
                where=where,
                field="problem",
                remedy=f"write one <{kind}> tag per {kind}, or no tag at all to put the media first",
            )
    return tuple(have[tag].pop(0) for tag in tags)
