"""The one number an answer names, with its unit, and when two of them are the same answer."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from easyvideor1.rewards.numbers import rest
from easyvideor1.rewards.numbers.scan import Numeral, TornNumberError, normalized, numerals, ratio
from easyvideor1.rewards.numbers.units import BARE, CURRENCY_SIGNS, Unit, factor, known, read_unit

MAX_NUMERALS = 50
"""A text that holds more numbers than this has no single answer."""


class Number(NamedTuple):
    """A finite number as it was written; a percent is its ratio."""

    num: int
    den: int
    """The value is exactly num / den; den > 0, not reduced."""
    is_whole: bool
    """True for a number that was written without a decimal point or fraction bar."""
    is_percent: bool = False
    decimals: int = 0
    """Digits behind the decimal point where it was written as a decimal."""
    unit: Unit = BARE

    @property
    def value(self) -> float:
        return self.num / self.den

    def __str__(self) -> str:
        return f"{self.value:.15g}"  # for people: 0.1 as 0.1, 200 as 200


_SIMPLE = re.compile(r"\s*+(-?)(\d{1,15}(?:\.\d{1,15})?|\d{1,3}(?:,\d{3}){1,4})\s*+")


_MEASURED = re.compile(r"\s*+(-?)(\d{1,15}(?:\.\d{1,15})?)\s?([a-z]+)\s*+")


def read_number(text: str) -> Number | None:
    """The number an answer names; None where it names none, several different ones, or something not finite.

    What denies, bounds or computes with the number leaves no answer: "not 7", "more than 7", "7!", "7 squared".

    >>> str(read_number("about 1,234 people")), str(read_number("1 1/2")), str(read_number("50%"))
    ('1234', '1.5', '0.5')
    >>> read_number("7 or 8"), read_number("more than 7")
    (None, None)
    """
    simple = _SIMPLE.fullmatch(text)
    if simple:  # most answers, and nearly all golds
        num, den, decimals = ratio(simple[2])
        return Number(-num if simple[1] else num, den, decimals == 0, decimals=decimals)
    measured = _MEASURED.fullmatch(text)
    unit = known(measured[3]) if measured else None
    if measured and unit:
        num, den, decimals = ratio(measured[2])
        return Number(-num if measured[1] else num, den, decimals == 0, decimals=decimals, unit=unit)
    return _read(normalized(text))


def _read(text: str) -> Number | None:
    try:
        found = numerals(text)
    except TornNumberError:
        return None
    if not found or len(found) > MAX_NUMERALS:
        return None
    first = found[0]
    if any(numeral.num * first.den != first.num * numeral.den for numeral in found[1:]):
        last = found[-1]
        if not (rest.is_concluded(text, last.start) or rest.is_result(text, first.start, last)):
            return None
        first, found = last, [last]
    elif len(found) > 1 and rest.is_computation(text, found):
        return None
    is_silent = rest.is_silent(text)
    if any(
        rest.is_term(text, numeral.end) or not (is_silent or rest.stands(text, numeral.start, numeral.end))
        for numeral in found
    ):
        return None
    unit = next((unit for unit in (_unit_at(text, numeral) for numeral in found) if unit.dimension), BARE)
    return Number(first.num, first.den, first.is_whole, first.is_percent, first.decimals, unit)


_UNIT_WORDS = re.compile(
    r"[ (]{0,2}((?:[$\u00a2\u20ac\u00a3\u00a5\u2103\u2109]|[^\W\d_]+\.?)(?:\s?\^\s?\{?-?\d\}?|[23](?![\d.]))?"
    r"(?:\s?[/*\u00b7]\s?[^\W\d_]+(?:\s?\^\s?\{?-?\d\}?|[23](?![\d.]))?)*(?: [^\W\d_]+){0,3})"
)
_STOP = re.compile(
    r"(?<![^\W\d_])(?:in|on|at|is|are|was|were|and|or|that|which|who|visible|shown|with|from|to|for|by|as|than|so|because|since"
    r"|here|there|the|a|i|can|will|have|has|do|does|be|it|this|if|when|while|left|right|away|long|tall|high|wide|deep|old|only|but)"
    r"(?![^\W\d_])"
)


def _unit_at(text: str, numeral: Numeral) -> Unit:
    """The unit directly behind a number, up to the next small word, or the currency before it."""
    before = text[numeral.start - 1 : numeral.start] if numeral.start else ""
    sign = before if before in CURRENCY_SIGNS else text[numeral.start : numeral.start + 2].lstrip("-")[:1]
    if sign and sign in CURRENCY_SIGNS:
        return read_unit(sign)
    match = _UNIT_WORDS.match(text, numeral.end)
    if match is None:
        return BARE
    words = match[1]
    stop = _STOP.search(words)
    if stop and not (stop[0] == "in" and stop.end() == len(words)):  # "9 in" is in inches
        words = words[: stop.start()]
    return read_unit(words.strip(" .")) if words.strip(" .") else BARE


def comparable(answer: Number, gold: Number) -> tuple[Fraction, Fraction] | None:
    """Both values in the gold's unit and as the gold counts percents; None where the units say different things.

    "50%" answers 0.5 as well as 50; only for golds up to 1 a percent is always the ratio.
    """
    scale = factor(answer.unit, gold.unit)
    if scale is None:
        return None
    values = [Fraction(answer.num, answer.den) * scale, Fraction(gold.num, gold.den)]
    if answer.is_percent != gold.is_percent:
        bare = 1 if answer.is_percent else 0
        if abs(values[bare]) > 1:
            values[1 - bare] *= 100
    return values[0], values[1]


RELATIVE_TOLERANCE = Fraction(1, 1000)
"""Allowed relative difference for golds written with decimals or as fractions: 3.142 answers 3.14, 1/3 answers 0.333
and the reverse."""
_ROUNDING = Fraction(1, 10**9)


def same_number(answer: Number, gold: Number) -> bool:
    """True where two numbers are the same numerical answer: exactly for whole golds, to 0.1 % for others.

    >>> same_number(Number(31416, 10000, False), Number(314, 100, False))
    True
    >>> same_number(Number(13, 1, True), Number(12, 1, True))
    False
    """
    is_bare = not (answer.unit.dimension and gold.unit.dimension)
    if is_bare and not (answer.is_percent or gold.is_percent):
        left, right = answer.num * gold.den, gold.num * answer.den
        if left == right:
            return True
        if gold.is_whole and answer.is_whole:
            return False
        difference, larger = abs(left - right), max(abs(left), abs(right))
        limit = _ROUNDING if gold.is_whole else RELATIVE_TOLERANCE + _ROUNDING
        return difference * limit.denominator <= larger * limit.numerator
    values = comparable(answer, gold)
    if values is None:
        return False
    limit = _ROUNDING if gold.is_whole else RELATIVE_TOLERANCE + _ROUNDING
    if abs(values[0] - values[1]) <= limit * max(map(abs, values)):
        return True
    # 250% is 2.5 too, whatever a bare 2.5 may stand for.
    return answer.is_percent and not gold.is_percent and answer.num * gold.den == gold.num * answer.den
