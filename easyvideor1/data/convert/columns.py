"""Columns that mean a field of a row under another name, and options in all the forms that tables have them in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from easyvideor1.data.convert.kinds import known_type, options_in
from easyvideor1.errors import DataError

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "problem": ("question",),
    "videos": ("video", "video_path"),
    "images": ("image", "image_path"),
    "options": ("choices", "candidates", "option"),
    "answer": ("ground_truth", "gt", "gt_answer", "gold", "correct_answer", "answerKey", "answer_key"),
    "problem_type": ("question_type", "type", "task_type"),
    "system": ("system_prompt",),
}
"""Field of a row -> what data sets call it."""
MEDIA_NAMES = ("videos", "images")
SEVERAL = (
    re.compile(r"([A-Z])"), re.compile(r"[Oo]ption[ _]?([A-Za-z])"), re.compile(r"(?:[Oo]ption[ _]?|a|choice_?)(\d)")
)  # fmt: skip
"""Names of columns that hold an option each; the group says which."""
NO_OPTION = ("", "n/a", "none", "nan")
_ITEM = re.compile(
    r"""\s*(?:'(?P<one>(?:[^'\\]|\\.)*)'|"(?P<two>(?:[^"\\]|\\.)*)"|(?P<number>-?\d+(?:\.\d+)?))\s*(?:,|\Z)""",
    re.DOTALL,
)


def under_own_names(row: dict[str, Any], names: Sequence[str] = tuple(OTHER_NAMES)) -> dict[str, Any]:
    """The row with its columns under the names of the fields that they are, where it does not have these."""
    for name in names:
        if name in row or (name in MEDIA_NAMES and "path" in row) or (name == "answer" and "solution" in row):
            continue
        other = next((other for other in OTHER_NAMES[name] if other in row), None)
        if other is not None and (name != "problem_type" or known_type(row[other])):
            row[name] = row.pop(other)
    return row


def with_options(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its options as a list of texts, from whatever form they have.

    Raises:
        DataError: options of no known form; an index that names none.
    """
    if row.get("options") in (None, "", []):
        row.pop("options", None)
        columns = _columns_of_options(row)
        if columns:
            row["options"] = [str(row.pop(column)) for column in columns]
            first = 0 if columns[0][-1] == "0" else 1
            if re.fullmatch(r"\d+", str(row.get("answer"))) and columns[0][-1].isdigit():
                row["answer"] = _letter(int(row["answer"]) - first, len(columns))
        return row
    row["options"] = _listed(row["options"])
    return row


def list_in(text: str) -> list[Any] | None:
    """The list that is written in a text, as JSON or in Python's notation; None where it is none.

    >>> list_in("['red', \\"it's\\", 3]"), list_in("['red' 'blue']")
    (['red', "it's", 3], None)
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return found
    inside = text.strip()
    if not (inside.startswith("[") and inside.endswith("]")):
        return None
    inside, place, items = inside[1:-1], 0, []
    while place < len(inside):
        match = _ITEM.match(inside, place)
        if match is None:  # such as an array of numpy, whose items nothing divides for sure
            return None
        text = match["one"] if match["one"] is not None else match["two"]
        items.append(json.loads(match["number"]) if match["number"] else re.sub(r"\\(.)", r"\1", text))
        place = match.end()
    return items


def _listed(options: Any) -> list[str]:
    if isinstance(options, str):
        options = list_in(options) or options_in(options) or options
    if isinstance(options, dict) and {"text", "label"} <= set(options):  # AI2-ARC and its kin
        return [f"{label}. {text}" for label, text in zip(options["label"], options["text"], strict=False)]
    if isinstance(options, dict):
        return [f"{key}. {text}" for key, text in options.items() if str(text).strip().lower() not in NO_OPTION]
    if not isinstance(options, list):
        raise DataError(
            f"must be a list of texts, got {options!r:.60}", field="options",
            remedy="or map columns: --map options=a,b,c",
        )  # fmt: skip
    if options and all(isinstance(option, dict) for option in options):
        return [_of_object(option) for option in options]
    while options and options[-1] is None:
        options = options[:-1]
    return list(options)


def _of_object(option: dict[str, Any]) -> str:
    """The text of an option that is an object, such as {"label": "A", "text": "red"}."""
    label = next((option[name] for name in ("label", "key", "letter", "id") if name in option), None)
    text = next((option[name] for name in ("text", "value", "content", "option") if name in option), None)
    if text is None and len(option) == 1:
        label, text = next(iter(option.items()))
    if text is None:
        raise DataError(f"an option is a text, got {option!r:.60}", field="options")
    return str(text) if label is None else f"{label}. {text}"


def _columns_of_options(row: Mapping[str, Any]) -> list[str]:
    """The columns that hold an option each, in order: A, B, ..; option_a, ..; a0, a1, ..; none where fewer than two."""
    for pattern in SEVERAL:
        named = sorted((match[1].upper(), name) for name in row if (match := pattern.fullmatch(name)))
        marks = [mark for mark, _ in named]
        first = ord(marks[0]) if marks else 0
        is_row = marks == [chr(first + place) for place in range(len(marks))] and chr(first) in "A01"
        if len(marks) > 1 and is_row:
            return [name for _, name in named if str(row[name]).strip().lower() not in NO_OPTION]
    return []


def _letter(index: int, count: int) -> str:
    if not 0 <= index < count:
        raise DataError(f"names option {index}, counted from 0, of {count}", field="answer")
    return chr(ord("A") + index)
