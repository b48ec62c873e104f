"""A number with or without a unit, as mathematical answers end: "12 cm", "50%", "2.5 \\text{ hours}"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from easyvideor1.rewards.number_words import spell_out
from easyvideor1.rewards.numbers import read_number

_EXACT_FLOAT = 2.0**53
_TOLERANCE = 1e-6
"""Relative: 0.333333 answers 1/3, 0.333 does not."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit."""

    value: float
    unit: str
    """Normalized; "" for none, "%" for percents."""


_DECIMAL = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_CORE = (
    rf"[+-]?\s?(?:{_DECIMAL}\s?/\s?{_DECIMAL}|\d+\s\d+\s?/\s?\d+|\d*\s?\\frac\s?\{{\s?{_DECIMAL}\s?\}}\s?\{{\s?{_DECIMAL}\s?\}}"
    rf"|\d*\s?\\frac\s?\d\s?\d|{_DECIMAL}\s?(?:\\cdot|\*|x)\s?10\s?\^\s?\{{?\s?-?\d{{1,3}}\s?\}}?"
    rf"|\d+\s?\^\s?(?:\{{-?\d{{1,3}}\}}|\d)|{_DECIMAL}[eE][+-]?\d{{1,4}}|{_DECIMAL})"
)
_CHINESE_SCALES = "\u5341\u767e\u5343\u4e07\u4ebf"
_QUANTITY = re.compile(
    rf"({_CORE})\s?(?:(%|percent)|\\text\s?\{{([^{{}}]*)\}}(?:\^\{{?(\d)\}}?)?"
    rf"|(?<=[\s\d])((?:cm|mm|km|kg|mg|min|ft|in|mL|(?<=\s)[mgshL])(?![a-zA-Z])"
    rf"|(?<=\s)[a-zA-Z]{{2,}}(?:[\s/]+[a-zA-Z]+)*|(?![{_CHINESE_SCALES}])[\u4e00-\u9fff]{{1,4}})"
    rf"(?:\^\{{?(\d)\}}?)?)?"
)
_UNIT_NAMES = {
    "degrees": "degree", "deg": "degree", "percent": "%", "metre": "m", "meter": "m", "metres": "m", "meters": "m",
    "centimeters": "cm", "centimetres": "cm", "centimeter": "cm", "kilometers": "km", "kilometres": "km",
    "seconds": "s", "second": "s", "sec": "s", "minutes": "min", "minute": "min", "hours": "h", "hour": "h",
    "inches": "in", "inch": "in", "feet": "ft", "foot": "ft", "grams": "g", "gram": "g", "kilograms": "kg",
    "kilogram": "kg", "dollars": "", "dollar": "", "units": "", "unit": "", "\u7c73": "m", "\u5398\u7c73": "cm",
    "\u6beb\u7c73": "mm", "\u516c\u91cc": "km", "\u514b": "g", "\u516c\u65a4": "kg", "\u79d2": "s",
    "\u5206\u949f": "min",
    "\u5c0f\u65f6": "h", "\u5ea6": "degree", "\u4e2a": "", "\u5143": "",
}  # fmt: skip
_POWERS = {"square": "2", "sq": "2", "cubic": "3"}


def read_quantity(text: str) -> Quantity | None:
    """The number, with or without a unit, that a whole text is; None for anything else.

    >>> read_quantity("12 meters"), read_quantity("twelve"), read_quantity("5t")
    (Quantity(value=12.0, unit='m'), Quantity(value=12.0, unit=''), None)
    """
    if re.fullmatch(r"[a-zA-Z -]+", text):
        text = spell_out(text.lower())
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    number = read_number(match[1].replace(r"\cdot", "*"))
    if number is None or abs(number.value) > _EXACT_FLOAT:
        return None
    return Quantity(number.value, _unit(match))


def _unit(match: re.Match[str]) -> str:
    if match[2]:
        return "%"
    return _unit_name(match[3] or match[5] or "") + (match[4] or match[6] or "")


def _unit_name(text: str) -> str:
    """One spelling of a unit: "square meters" and "m2" are the same, and "units" says nothing."""
    first, _, others = text.strip().lower().partition(" ")
    power = _POWERS.get(first, "") if others else ""
    name = others if power else f"{first} {others}".strip()
    name = _UNIT_NAMES.get(name, name.removesuffix("s") if len(name) > 3 else name)
    return name and name + power


_UNIT_WORDS = "|".join([*_UNIT_NAMES, "miles", "mile", "cm", "mm", "km", "kg", "mg", "mL"])
_UNIT_BEHIND = re.compile(
    r"\s?(?:\\text\s?\{(?!degree)([^{}]*)\}"
    rf"|(?<=[\w}})])\s((?:(?:square|cubic|sq)\s)?(?:{_UNIT_WORDS})))(?:\^\{{?([23])\}}?)?\Z"
)


def without_unit(text: str) -> tuple[str, str]:
    """An expression such as "2\\sqrt{3} cm" as expression and unit; "" where it has none.

    >>> without_unit("2\\\\sqrt{3} square meters"), without_unit("\\\\pi xyz")
    (('2\\\\sqrt{3}', 'm2'), ('\\\\pi xyz', ''))
    """
    match = _UNIT_BEHIND.search(text)
    if match is None or not text[: match.start()].strip():
        return text, ""
    return text[: match.start()], _unit_name(match[1] or match[2]) + (match[3] or "")


def same_quantity(answer: Quantity, gold: Quantity) -> bool:
    """True where two quantities are the same answer; one without a unit agrees with any unit.

    >>> same_quantity(Quantity(5.0, "cm"), Quantity(5.0, "")), same_quantity(Quantity(5.0, "cm"), Quantity(5.0, "km"))
    (True, False)
    """
    if answer.unit and gold.unit and answer.unit != gold.unit:
        return False
    if _close(answer.value, gold.value):
        return True
    # "12%" answers 0.12 as well as "12" where a percentage was asked for.
    has_percent = (answer.unit == "%") != (gold.unit == "%")
    scales = (answer.value / 100, gold.value) if answer.unit == "%" else (answer.value, gold.value / 100)
    return has_percent and _close(*scales)


def _close(value: float, gold: float) -> bool:
    return abs(value - gold) <= _TOLERANCE * abs(gold)
