"""Several expressions in one answer: pairs, sets, lists, and systems of values by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

OPENING = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_CLOSING_OF = {"(": ")]", "[": ")]", "{": "}"}
_NAMED_TUPLE = re.compile(r"\A\(\s?(\w+(?:\s?,\s?\w+)+)\s?\)\s?=\s?(?=\()")
"""The left side of "(x, y) = (3, 4)"."""
_SET_NAME = re.compile(
    r"\A(?:[a-zA-Z]|\\text\{[^{}]*\})\s?(?:(?:=|\\in(?![a-zA-Z]))\s?(?=\\?\{)|\\in(?![a-zA-Z])\s?(?=[(\[]))"
)
_LIST_NAME = re.compile(
    r"\A([a-zA-Z](?:_\{?\w+\}?)?)\s?(?:=|\\in(?![a-zA-Z]))\s?(?=[^=]*\Z)(?=.*[,\u00b1]|.*(?<![a-zA-Z])or(?![a-zA-Z]))"
)
_JOINTS = re.compile(
    r"\\text\{\s*(?:,\s*)?(?:or|and)\s*\}|(?<![a-zA-Z\\]),?\s*(?:or|and)(?![a-zA-Z])|[;\uff1b\u3001\u6216\u548c]|\\(?:lor|land|vee|wedge)(?![a-zA-Z])"
)
_OR = re.compile(r"(?<![a-zA-Z\\])or(?![a-zA-Z])|\\(?:lor|vee)(?![a-zA-Z])|\u6216")
NAME = re.compile(r"(?:[a-zA-Z]|\\[a-zA-Z]+|[a-zA-Z]\s?\(\s?[a-zA-Z]\s?\)|\\text\s?\{[^{}]*\})(?:_\{?\w+\}?)?'?")
"""A name on the left side of an assignment."""


@dataclass(frozen=True, slots=True)
class Row:
    """Several expressions in one answer."""

    items: tuple[str, ...]
    brackets: str
    """ "()", "[)" .. for pairs and intervals, where the order counts; "" for lists and sets, where it does not."""
    names: tuple[str, ...] = ()
    """Names of the items, where each item is the value of a name: (x, y) = (1, 2), or x = 1, y = 2."""


def read_row(text: str) -> Row | None:
    """The items of a pair, an interval, a set, a list or a system; None for a single expression.

    >>> read_row("x = 1, y = 2"), read_row("4 or 7")
    (Row(items=('1', '2'), brackets='', names=('x', 'y')), Row(items=('4', '7'), brackets='', names=()))
    >>> read_row("(x, y) = (1, 2)")
    Row(items=('1', '2'), brackets='()', names=('x', 'y'))
    """
    inner = text.replace(r"\{", "{").replace(r"\}", "}").strip()
    named = _NAMED_TUPLE.match(inner)
    names = tuple(name.strip() for name in named[1].split(",")) if named else ()
    inner = inner[named.end() :] if named else _SET_NAME.sub("", inner)
    brackets = ""
    if inner and inner[0] in _CLOSING_OF and inner[-1] in _CLOSING_OF[inner[0]] and _closes_at_end(inner):
        brackets = "" if inner[0] == "{" else inner[0] + inner[-1]
        items = split(inner[1:-1])
        is_row = len(items) > 1 or inner[0] == "{"
        system = _system(items) if inner[0] == "{" and len(items) > 1 else None
        if system and system.names:
            return system
    else:
        items = split(inner)
        is_row = len(items) > 1
        if is_row and (system := _system(items)):
            # "x = 1 or y = 2" is no system but a choice of equations.
            return Row(tuple(map(str.strip, items)), "") if system.names and _OR.search(inner) else system
        list_name = _LIST_NAME.match(inner)
        if list_name:
            items = split(inner[list_name.end() :])
    if not brackets and any("\u00b1" in item for item in items):
        items = [item.replace("\u00b1", sign) for item in items for sign in ("+", "-")]
        is_row = True
    items = [item.strip() for item in items]
    if names and len(names) != len(items):
        return None
    return Row(tuple(items), brackets, names) if is_row and all(items) else None


def _system(items: list[str]) -> Row | None:
    """Values by name; the values of one name are a list."""
    sides = [assigned(item.strip()) for item in items]
    if not all(name for name, _ in sides):
        return None
    names = tuple(name for name, _ in sides)
    values = tuple(value for _, value in sides)
    if len(set(names)) == 1:
        values = (
            tuple(value.replace("\u00b1", sign) for value in values for sign in ("+", "-"))
            if any("\u00b1" in value for value in values)
            else values
        )
        return Row(values, "")
    return Row(values, "", names) if len(set(names)) == len(names) else None


def assigned(text: str) -> tuple[str, str]:
    """The name and the value of "x = 5"; "" and the text where it is no assignment of one value to one name."""
    left, equals, right = text.partition("=")
    if equals and right.strip() and NAME.fullmatch(left.strip()) and "=" not in right:
        # f(x) = .. and y = .. name the same thing, and a name in words names whatever was asked for
        name = left.strip()
        return ("y" if "(" in name else "" if "text" in name else re.sub(r"[\s{}]", "", name)), right.strip()
    return "", text


def _closes_at_end(text: str) -> bool:
    depth = 0
    for place, char in enumerate(text):
        depth += OPENING.get(char, 0)
        if depth == 0:
            return place == len(text) - 1
    return False


def split(text: str) -> list[str]:
    """Parts between the commas, semicolons, "and"s and "or"s outside all brackets; commas of thousands stay."""
    text = _JOINTS.sub(",", text)
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += OPENING.get(char, 0)
        if char == "," and depth == 0 and not _is_thousands(text, place, start):
            parts.append(text[start:place])
            start = place + 1
    return [part for part in [*parts, text[start:]] if part.strip() or len(parts) == 0]


_THOUSANDS = re.compile(r"\s*-?\d{1,3}(?:,\d{3})+(?![\d])")


def _is_thousands(text: str, comma: int, start: int) -> bool:
    match = _THOUSANDS.match(text, start)
    return match is not None and comma < match.end()
