"""Sets of real numbers as unions of intervals: from intervals, inequalities, and what is taken out of the line."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from fractions import Fraction

from easyvideor1.rewards.algebra.digits import TooLargeError, UndefinedError, approximate
from easyvideor1.rewards.algebra.evaluate import same_value, substituted
from easyvideor1.rewards.algebra.expression import Node, NoExpressionError, Op, Var, parse, variables
from easyvideor1.rewards.algebra.rows import split


@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval."""

    at: float
    """The place of the end as a float, infinities included, for the order."""
    node: Node | None
    """The exact value of the end; None at infinity."""
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Span:
    """An interval that is not empty; a point has two closed ends at the same place."""

    low: End
    high: End


Spans = tuple[Span, ...]
"""Apart from each other and in order."""


@dataclass(frozen=True, slots=True)
class Range:
    """A set of real numbers."""

    spans: Spans
    name: str = ""
    """The variable whose values they are, where the text names one."""


_BELOW, _ABOVE = End(-math.inf, None, False), End(math.inf, None, False)
LINE: Spans = (Span(_BELOW, _ABOVE),)
_SIGNS = re.compile("[<>\u2264\u2265\u2260=]")
_ORDER = re.compile("[<>\u2264\u2265\u2260]")
_MEMBER = re.compile(r"\A[a-zA-Z]\s?\\in(?![a-zA-Z])\s?")
_SETS = re.compile(
    r"\\cup(?![a-zA-Z])|\\cap(?![a-zA-Z])|\\setminus(?![a-zA-Z])|(?<=[\])}])\s?U\s?(?=[(\[\\{])|(?<=\})\s?-\s?(?=\\\{)"
)
_WORDS = re.compile(r"all real numbers?(?: except(?: for)? (?:[a-z] ?= ?)?(.+))?|all reals", re.IGNORECASE)
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")
_BY_RULE = re.compile(r"\\?\{\s?[a-zA-Z]\s?(?:\\in\s?(?:\\mathbb\{R\}|R)\s?)?[|:](.*?)\\?\}")
"""A set of all numbers for which something holds."""
_OR = re.compile(r"\\text\{\s*or\s*\}|(?<![a-zA-Z\\])or(?![a-zA-Z])|\\(?:lor|vee)(?![a-zA-Z])|[\u6216]")


@functools.lru_cache(maxsize=512)
def read_range(text: str) -> Range | None:
    """The set of real numbers that a text describes; None for any other text, and for a pair such as (1, 2).

    >>> one, other = read_range("x < 3"), read_range("(-\\\\infty, 3)")
    >>> one is not None and other is not None and same_range(one, other), read_range("x+y < 3"), read_range("(1, 2)")
    (True, None, None)
    """
    text = text.strip()
    by_rule = _BY_RULE.fullmatch(text)
    text = by_rule[1].strip() if by_rule else text
    words = _WORDS.fullmatch(" ".join(_TEXT.sub(r"\1", text).split()))
    try:
        if words:
            points = _points(words[1]) if words[1] else ()
            return None if points is None else Range(_without(LINE, points))
        if _ORDER.search(text):
            return _from_inequalities(text)
        if _SETS.search(text) or r"\mathbb{R}" in text or r"\infty" in text or _is_half_open(text):
            return _range(_from_sets(_MEMBER.sub("", text)), text)
    except (NoExpressionError, UndefinedError, TooLargeError):
        return None
    return None


@functools.lru_cache(maxsize=512)
def read_interval(text: str) -> Range | None:
    """The range of a text that may be a pair as well: (1, 2) as an interval."""
    try:
        return _range(_one_set(_MEMBER.sub("", text.strip())), text)
    except (NoExpressionError, UndefinedError, TooLargeError):
        return None


def _range(spans: Spans | None, text: str) -> Range | None:
    member = _MEMBER.match(text.strip())
    return None if spans is None else Range(spans, member[0][0] if member else "")


def same_range(answer: Range, gold: Range) -> bool:
    """True where two sets hold the same numbers, and their variables, where both have one, the same name."""
    if answer.name and gold.name and answer.name != gold.name:
        return False
    return len(answer.spans) == len(gold.spans) and all(
        _same_end(one.low, other.low) and _same_end(one.high, other.high)
        for one, other in zip(answer.spans, gold.spans, strict=True)
    )


def _same_end(end: End, other: End) -> bool:
    if end.node is None or other.node is None:
        return end.at == other.at
    return end.is_closed == other.is_closed and same_value(end.node, other.node)


def _is_half_open(text: str) -> bool:
    """True for [a, b) and (a, b], which are no pairs."""
    return len(text) > 2 and text[0] + text[-1] in ("[)", "(]") and len(split(text[1:-1])) == 2


def _from_sets(text: str) -> Spans | None:
    """Intervals, points and the line with the signs of union, section and difference between them, left to right."""
    places = [match for match in _SETS.finditer(text) if not _depth(text, match.start())]
    spans: Spans | None = None
    start, sign = 0, ""
    for match in (*places, None):
        part = text[start : match.start() if match else len(text)]
        one = _one_set(part)
        if one is None:
            return None
        if spans is None:
            spans = one
        elif "cap" in sign:
            spans = _section(spans, one)
        elif "setminus" in sign or "-" in sign:
            spans = _without(spans, one)
        else:
            spans = _union(spans, one)
        if match:
            start, sign = match.end(), match[0]
    return spans


def _depth(text: str, end: int) -> int:
    return sum({"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0) for char in text[:end])


def _one_set(text: str) -> Spans | None:
    text = text.strip()
    if text in (r"\mathbb{R}", "R"):
        return LINE
    if text in (r"\emptyset", r"\{\}"):
        return ()
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return _points(text[2:-2])
    if text[:1] not in ("(", "[") or text[-1:] not in (")", "]"):
        return None
    ends = split(text[1:-1])
    if len(ends) != 2:
        return None
    low, high = _end(ends[0], text[0] == "["), _end(ends[1], text[-1] == "]")
    if low.at > high.at or (low.at == high.at and not (low.is_closed and high.is_closed)):
        return None
    return (Span(low, high),)


def _end(text: str, is_closed: bool) -> End:
    text = text.strip()
    if text.lstrip("+") == r"\infty":
        return _ABOVE
    if text.replace(" ", "") == r"-\infty":
        return _BELOW
    node = parse(text)
    if variables(node):
        raise NoExpressionError("a variable end")
    return End(approximate(node), node, is_closed)


def _points(text: str) -> Spans | None:
    points = []
    for item in split(text):
        signs = ("+", "-") if "\u00b1" in item else ("",)
        points += [_end(item.replace("\u00b1", sign), True) for sign in signs]
    if any(point.node is None for point in points):
        return None
    return _merged([Span(point, point) for point in points])


def _from_inequalities(text: str) -> Range | None:
    """One variable's inequalities: "or" joins them, a comma or "and" between them asks for both."""
    text = _MEMBER.sub("", text) if not _ORDER.search(text.split(r"\in")[0]) else text
    result: Spans = ()
    names: set[str] = set()
    for alternative in _OR.split(text):
        spans: Spans = LINE
        parts = [
            part for part in split(alternative) if not re.fullmatch(r"\s*[a-zA-Z]\s?\\in\s?\\mathbb\{R\}\s*", part)
        ]
        if not parts:
            return None
        for part in parts:
            one = _chain(part.strip(), names)
            if one is None:
                return None
            spans = _section(spans, one)
        result = _union(result, spans)
    if len(names) != 1:
        return None
    if not _OR.search(text) and not result and len(split(text)) == 2:
        # "x < -1, x > 3" can only mean either.
        first, second = (_chain(part.strip(), names) for part in split(text))
        result = () if first is None or second is None else _union(first, second)
    return Range(result, names.pop())


def _chain(text: str, names: set[str]) -> Spans | None:
    """The solutions of "1 < x \u2264 4" in its one variable."""
    signs = _SIGNS.findall(text)
    sides = [_side(side) for side in _SIGNS.split(text)]
    if not 1 <= len(signs) <= 2:
        return None
    spans = LINE
    for left, sign, right in zip(sides, signs, sides[1:], strict=False):
        one = _solution(left, sign, right, names)
        if one is None:
            return None
        spans = _section(spans, one)
    return spans


_INFINITE = {r"\infty": 1, r"+\infty": 1, r"-\infty": -1}


def _side(text: str) -> Node | str:
    """A side of an inequality; as text where it is infinite."""
    bare = text.replace(" ", "")
    return bare if bare in _INFINITE else parse(text.strip())


def _solution(left: Node | str, sign: str, right: Node | str, names: set[str]) -> Spans | None:
    """Where an inequality that is linear in its one variable holds."""
    if isinstance(left, str) or isinstance(right, str):
        signs = [_INFINITE[side] if isinstance(side, str) else 0 for side in (left, right)]
        return LINE if (sign == "<" and signs[0] < signs[1]) or (sign == ">" and signs[0] > signs[1]) else None
    found = variables(left) | variables(right)
    names |= found
    if len(found) != 1:
        return None
    (name,) = found
    difference = Op("+", (left, Op("-", (right,))))
    values = [substituted(difference, {name: Fraction(number)}) for number in range(2)]
    slope = Op("+", (values[1], Op("-", (values[0],))))
    if not same_value(difference, Op("+", (values[0], Op("*", (slope, Var(name)))))):
        return None
    steepness = approximate(slope)
    if steepness == 0:
        return None
    root = _simplest(left, right, name) or Op("/", (Op("-", (values[0],)), slope))
    end = End(approximate(root), root, sign in "\u2264\u2265=")
    if sign == "=":
        return (Span(end, end),)
    if sign == "\u2260":
        return _without(LINE, (Span(_closed(end), _closed(end)),))
    is_below = (sign in "<\u2264") == (steepness > 0)
    return (Span(_BELOW, end),) if is_below else (Span(end, _ABOVE),)


def _simplest(left: Node, right: Node, name: str) -> Node | None:
    """The other side, where one side is the variable itself."""
    if left == Var(name) and not variables(right):
        return right
    return left if right == Var(name) and not variables(left) else None


def _closed(end: End) -> End:
    return End(end.at, end.node, True)


def _merged(spans: list[Span]) -> Spans:
    """Spans in order, with those joined that touch or overlap."""
    result: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.low.at, not span.low.is_closed)):
        last = result[-1] if result else None
        if last and _touches(last.high, span.low):
            result[-1] = Span(last.low, _farther(last.high, span.high))
        else:
            result.append(span)
    return tuple(result)


def _touches(high: End, low: End) -> bool:
    return high.at > low.at or (high.at == low.at and (high.is_closed or low.is_closed))


def _farther(first: End, second: End) -> End:
    if first.at != second.at:
        return first if first.at > second.at else second
    return first if first.is_closed else second


def _union(first: Spans, second: Spans) -> Spans:
    return _merged([*first, *second])


def _section(first: Spans, second: Spans) -> Spans:
    found = []
    for one in first:
        for other in second:
            low = _inner(one.low, other.low, is_low=True)
            high = _inner(one.high, other.high, is_low=False)
            if low.at < high.at or (low.at == high.at and low.is_closed and high.is_closed):
                found.append(Span(low, high))
    return _merged(found)


def _inner(first: End, second: End, *, is_low: bool) -> End:
    if first.at != second.at:
        return first if (first.at > second.at) == is_low else second
    return second if first.is_closed else first


def _without(spans: Spans, taken: Spans) -> Spans:
    return _section(spans, _complement(taken))


def _complement(spans: Spans) -> Spans:
    rest, low = [], _BELOW
    for span in spans:
        high = End(span.low.at, span.low.node, not span.low.is_closed)
        if span.low.node is not None and (low.at < high.at or (low.is_closed and high.is_closed)):
            rest.append(Span(low, high))
        low = End(span.high.at, span.high.node, not span.high.is_closed)
    if low.node is not None or not spans:
        rest.append(Span(low, _ABOVE))
    return tuple(rest)
