"""One value with or without a unit, as mathematical answers end: "12 cm", "50%", "2\\sqrt{3} \\text{ hours}"."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

from easyvideor1.rewards.algebra.digits import TooLargeError, UndefinedError
from easyvideor1.rewards.algebra.evaluate import InexactError, exact, same_value
from easyvideor1.rewards.algebra.expression import Node, NoExpressionError, Num, Op, Var, has_function, parse, variables
from easyvideor1.rewards.numbers.quantity import read_number
from easyvideor1.rewards.numbers.units import BARE, Unit, factor, known, read_unit
from easyvideor1.rewards.numbers.words import SCALES


@dataclass(frozen=True, slots=True)
class Single:
    """An expression and what it counts."""

    node: Node
    unit: Unit = BARE
    is_percent: bool = False

    @property
    def is_number(self) -> bool:
        return not variables(self.node)


_TEXT_UNIT = re.compile(r"\s?\\text\s?\{([^{}]*)\}(?:\s?\^\s?\{?(-?\d)\}?)?\Z")
_ATTACHED = re.compile(r"(?<=[\d)}])(cm|mm|km|kg|mg|min|ft|mL|ml|kph|mph)(?:\s?\^\s?\{?(\d)\}?)?\Z")
_SPACED = re.compile(
    r"(?<=[\w)}.])\s((?:(?:square|cubic|sq)\s)?[^\W\d_]+(?:[\s/*]+[^\W\d_]+){0,3}(?:\s?\^\s?\{?-?\d\}?)?)\Z"
)
_CHINESE = re.compile("(?<=[\\d)}])\\s?([\u4e00-\u9fff]{1,4})\\Z")
_DEGREES = r"\text{degree}"
_LETTERS_AS_UNITS = frozenset("mgshL")
"""Single letters that are units after a space; all others are variables."""


@functools.lru_cache(maxsize=1024)
def read_single(text: str) -> Single | None:
    """The expression, with or without a unit, that a whole text is; None for anything else.

    >>> read_single("12 meters") == Single(parse("12"), read_unit("m")), read_single("5t") == Single(parse("5t"))
    (True, True)
    """
    if text.endswith("%"):
        return _percent(text[:-1])
    if text.endswith(_DEGREES):
        angle = _parsed(text.removesuffix(_DEGREES))
        if angle is not None and not has_function(angle):  # in "\\sin 30 degrees" they are part of the expression
            return Single(angle, read_unit("degree"))
    node = _parsed(text)
    if node is not None and not _ends_like_a_unit(text):
        return Single(node)
    for pattern in (_TEXT_UNIT, _ATTACHED, _SPACED, _CHINESE):
        match = pattern.search(text)
        if match is None:
            continue
        power = match[2] if pattern in (_TEXT_UNIT, _ATTACHED) and match[2] else ""
        with_unit = _with_unit(text[: match.start()], match[1].strip() + (f"^{power}" if power else ""))
        if with_unit is not None:
            return with_unit
    return None if node is None else Single(node)


def _ends_like_a_unit(text: str) -> bool:
    match = _SPACED.search(text)
    return (match is not None and (match[1] in _LETTERS_AS_UNITS or len(match[1]) > 1 or "^" in match[1])) or bool(
        _ATTACHED.search(text)
    )


def _percent(text: str) -> Single | None:
    node = _parsed(text)
    return None if node is None else Single(Op("/", (node, Num(Fraction(100)))), is_percent=True)


def _with_unit(text: str, unit: str) -> Single | None:
    node = _parsed(text)
    if node is None:
        return None
    first, _, rest = unit.partition(" ")
    scale = SCALES.get(first.lower().removesuffix("s")) or SCALES.get(first.lower())
    if scale:
        node, unit = Op("*", (node, Num(Fraction(scale)))), rest.strip()
    if unit.lower() in ("percent", "per cent"):
        return Single(Op("/", (node, Num(Fraction(100)))), is_percent=True)
    if not unit:
        return Single(node)
    letters = re.sub(r"[^a-zA-Z]", "", unit)
    if len(letters) == 1 and letters not in _LETTERS_AS_UNITS:
        return None
    if not variables(node) or known(unit) is not None:
        return None if _is_no_unit(unit) else Single(node, read_unit(unit))
    meaning = read_unit(unit)
    return Single(node, meaning) if known(letters) or unit.split()[0] in ("square", "cubic", "sq") else None


_NO_UNIT = frozenset(
    [
        "squared",
        "cubed",
        "factorial",
        "over",
        "or",
        "and",
        "to",
        "from",
        "not",
        "is",
        "are",
        "was",
        "if",
        "of",
        "than",
        "times",
        "plus",
        "minus",
        "divided",
        "by",
        "more",
        "less",
        "fewer",
        "only",
    ]
)


def _is_no_unit(words: str) -> bool:
    return not _NO_UNIT.isdisjoint(re.findall(r"[a-z]+", words.lower()))


def _parsed(text: str) -> Node | None:
    try:
        return parse(text.strip())
    except NoExpressionError:
        return None


@functools.lru_cache(maxsize=1024)
def read_sentence(text: str) -> Single | None:
    """The one number that a text in words names, as numerical answers are read; None for none or several."""
    if "_" in text or "^" in text:
        return None
    number = read_number(text)
    if number is None:
        return None
    node = Num(Fraction(number.num, number.den), number.decimals)
    return Single(node, number.unit, number.is_percent)


def same_single(answer: Single, gold: Single) -> bool:
    """True where two values with their units are the same answer; one without a unit agrees with any unit.

    >>> one, two = read_single("500 cm"), read_single("5 m")
    >>> one is not None and two is not None and same_single(one, two)
    True
    """
    scale = factor(answer.unit, gold.unit)
    if scale is None:
        return False
    degrees = read_unit("degree")
    if {answer.unit, gold.unit} == {degrees, BARE}:
        return _same_angle(answer, gold, degrees)
    node, gold_node = answer.node, gold.node
    if scale != 1:
        node = Op("*", (node, Num(scale)))
    if same_value(node, gold_node):
        return True
    if answer.is_percent != gold.is_percent and _has_large(gold if answer.is_percent else answer):
        # "12%" answers 12 as well as 0.12 where a percentage was asked for.
        if answer.is_percent:
            node = Op("*", (node, Num(Fraction(100))))
        else:
            gold_node = Op("*", (gold_node, Num(Fraction(100))))
        return same_value(node, gold_node)
    return False


def _same_angle(answer: Single, gold: Single, degrees: Unit) -> bool:
    """True for an angle in degrees and a bare number of degrees, or of radians, which is what a multiple of pi is."""
    in_radians = Op("/", (Var("pi"), Num(Fraction(180))))
    in_degrees, bare = (answer, gold) if answer.unit == degrees else (gold, answer)
    if not _holds_pi(bare.node) and same_value(answer.node, gold.node):
        return True
    return same_value(Op("*", (in_degrees.node, in_radians)), bare.node)


def _holds_pi(node: Node) -> bool:
    return node == Var("pi") or (isinstance(node, Op) and any(map(_holds_pi, node.args)))


def _has_large(single: Single) -> bool:
    try:
        return abs(exact(single.node)) > 1
    except (InexactError, TooLargeError, UndefinedError):
        return False
