"""JSON values where they stand in an answer: among words, in fences, one per line, in Python's spelling."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

_CLOSING = {"{": "}", "[": "]", "(": ")"}
_MARK = re.compile(r"[\[\]{}()\"']")
_QUOTE_BEFORE = re.compile(r"[\[{(,:]\s{0,8}\Z")
_QUOTE_BEHIND = re.compile(r"\s{0,8}[\]}),:]")
_TUPLE = re.compile(r"\(\s*+(?:[\"'][^\"'()]{1,40}[\"']|[-+.\deE]++)\s*+,[-+.\deE\s,\"':\[\]]*+\)")
MAX_TUPLE_CHARS = 200
MAX_MARKS_IN_STRING = 50
_CURLY_QUOTES = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")
_BARE_KEY = re.compile(r"([{,]\s*+)([A-Za-z_]\w*+|\d++(?:\.\d++)?)(\s*+:)")
_PYTHON_WORD = re.compile(r"\b(None|True|False)\b")
_PYTHON_WORDS = {"None": "null", "True": "true", "False": "false"}
_SINGLE_QUOTED = re.compile(r"'([^'\"\\]*+)'")


def json_values(text: str) -> list[Any]:
    """Every JSON value of an answer, in order: objects, lists, and tuples of numbers.

    Python spellings and curly quotes are accepted. NaN and infinities come back as floats: whoever reads numbers out of
    a value must test them for finiteness. What is cut off, and words in brackets, is no value.

    >>> json_values("The cup (red): {'time': (1, 2),}. Or [3]."), json_values("no (value) here")
    ([{'time': [1, 2]}, [3]], [])
    """
    bare = text.strip()
    if bare[:1] in ("{", "[") and bare[-1:] in ("}", "]"):  # nearly all answers are nothing but JSON
        value = _loads(bare)
        if value is not None:
            return [value]
    values = (_value(body) for body in _outermost(text))
    return [value for value in values if value is not None]


def read_json(text: str) -> Any:
    """The one JSON value in an answer; None where there is none, or where there are several.

    >>> read_json("It is {'time': (1, 2),}."), read_json("no"), read_json("[1] or [2]")
    ({'time': [1, 2]}, None, None)
    """
    values = json_values(text)
    return values[0] if len(values) == 1 else None


def _outermost(text: str) -> Iterator[str]:
    """The objects, lists and tuples of a text that stand in no other one; brackets around words enclose nothing."""
    stack: list[tuple[str, int]] = []
    closed: list[tuple[int, int]] = []
    place = 0
    while (mark := _MARK.search(text, place)) is not None:
        char, place = mark[0], mark.end()
        if char in "\"'":
            if stack:
                place = _behind_string(text, mark.start())
        elif char in _CLOSING:
            stack.append((char, mark.start()))
        elif stack and _CLOSING[stack[-1][0]] == char:
            start = stack.pop()[1]
            if char == ")" and not (place - start <= MAX_TUPLE_CHARS and _TUPLE.fullmatch(text, start, place)):
                continue
            while closed and closed[-1][0] > start:
                closed.pop()
            closed.append((start, place))
    return (text[start:end] for start, end in closed)


def _behind_string(text: str, start: int) -> int:
    """The place behind the string that a quotation mark opens; behind the mark itself where it opens none."""
    if not _QUOTE_BEFORE.search(text, max(0, start - 9), start):
        return start + 1  # an apostrophe, or a mark in words
    end = start
    for _ in range(MAX_MARKS_IN_STRING):
        end = text.find(text[start], end + 1)
        if end < 0:
            break
        if text[end - 1] != "\\" and _QUOTE_BEHIND.match(text, end + 1):
            return end + 1
    return start + 1


def _value(body: str) -> Any:
    value = _loads(body)
    return _loads(_as_json(body)) if value is None else value


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: floods of brackets
        return None


def _as_json(text: str) -> str:
    text = text.translate(_CURLY_QUOTES).replace("(", "[").replace(")", "]")
    if "'" in text:
        text = text.replace("'", '"') if '"' not in text else _SINGLE_QUOTED.sub(r'"\1"', text)
    text = _PYTHON_WORD.sub(lambda match: _PYTHON_WORDS[match[1]], text)
    text = _BARE_KEY.sub(r'\1"\2"\3', text)
    return re.sub(r",(\s*+[}\]])", r"\1", text)


_NUMBER = re.compile(r"\s*[+-]?[\d.]{1,40}(?:[eE][+-]?\d{1,4})?\s*")


def finite(value: object) -> float | None:
    """A finite float from a JSON number or numeric string; None for anything else, booleans included.

    >>> finite("1.5"), finite(True), finite(float("nan")), finite([1])
    (1.5, None, None, None)
    """
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
