"""Reading the one number in an answer: digits, fractions, powers, percents, units, English and Chinese words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from easyvideor1.rewards.number_words import spell_out
from easyvideor1.rewards.parse import plain

MAX_DIGITS = 100


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number as it was written."""

    value: float
    is_whole: bool
    """Written without a decimal point or fraction bar."""

    def __str__(self) -> str:
        return f"{self.value:.15g}"  # for people: 0.1 as 0.1, 200 as 200


_UNSIGNED = r"(?:\d{1,3}(?:(?:,\d{3}){1,30}+|(?:[ ]\d{3}){1,9}+(?![ ]?/))(?!\d)(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)"
_TOKEN = re.compile(
    rf"""(?P<number>{_UNSIGNED})
    (?: [ ]?[*x][ ]?10[ ]?(?:\^|\*\*)[ ]?\{{?(?P<ten_power>[+-]?\d{{1,4}})\}}?
      | e(?P<e_power>[+-]?\d{{1,5}})(?![a-z])
      | (?:\^|\*\*)\{{?(?P<power>[+-]?\d{{1,4}})\}}?
      | [ ](?P<mixed_top>\d{{1,6}})[ ]?/[ ]?(?P<mixed_bottom>\d{{1,6}})
      | [ ]?/[ ]?(?P<bottom>{_UNSIGNED}) )?
    (?:[ ]?(?P<scale>thousand|million|billion|trillion|hundred|dozen|\u5343|\u767e|\u4e07|\u4ebf)s?(?![a-z]))?
    (?P<half>[ ]and[ ]a[ ]half)?
    (?P<percent>[ ]?%)?""",
    re.VERBOSE,
)
_SCALES = {
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "hundred": 1e2,
    "dozen": 12.0,
    "\u5343": 1e3,
    "\u767e": 1e2,
    "\u4e07": 1e4,
    "\u4ebf": 1e8,
}
_NOT_FINITE = re.compile(r"(?<![a-z])(?:nan|inf|infinity|infinite)(?![a-z])|\u221e|\\infty|\u65e0\u7a77")
_KILO = re.compile(r"(?<=\d)k(?![A-Za-z])")
"""Directly behind the digits and small: "300 K" is a temperature."""
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s?(?:\{\s?([\d.]{1,20})\s?\}\s?\{\s?([\d.]{1,20})\s?\}|(\d)\s?(\d))")
_REWRITES = (
    (re.compile(r"\\times|\\cdot|\u00d7"), "*"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;! ]"), " "),
    (re.compile(r"\\%|\u2030(?!.)|(?<=[\d ])(?:percent|per cent)"), "%"),
    (re.compile(r"\\?[$\u20ac\u00a3\u00a5\u20b9]"), ""),
    (re.compile(r"\\(?:text|mathrm|mathbf)\s?\{|\\approx|\\sim"), " "),
    (re.compile(r"\s++"), " "),
)


def read_number(text: str) -> Number | None:
    """The number an answer names; None where it names none, several different ones, or something not finite.

    A percent is its ratio: "50%" is 0.5.

    >>> read_number("about 1,234 people"), read_number("1 1/2").value, read_number("7 or 8")
    (Number(value=1234.0, is_whole=True), 1.5, None)
    """
    text = _normalized(text)
    if _NOT_FINITE.search(text):
        return None
    found: Number | None = None
    for match in _TOKEN.finditer(text):
        if _is_inside_word(text, match.start()):
            continue
        number = _number(text, match)
        if number is None or (found and not math.isclose(number.value, found.value, rel_tol=1e-9)):
            return None
        found = found or number
    return found


def _normalized(text: str) -> str:
    text = _KILO.sub(" thousand", plain(text)).lower()
    text = _LATEX_FRACTION.sub(lambda m: f" {m[1] or m[3]}/{m[2] or m[4]}", text)
    text = spell_out(text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip()


def _is_inside_word(text: str, start: int) -> bool:
    """True for digits that belong to a name or a unit: H2O, x_1, m^2, s^{-1}."""
    before = text[max(0, start - 3) : start]
    return bool(re.search(r"[a-z_]$|\^\{?[+-]?$", before)) and not re.search(r"\d[a-z]$", before)


def _number(text: str, match: re.Match[str]) -> Number | None:
    start, end = match.span()
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    is_torn = re.search(r"[\d.][.:/]?$|/$|\d[a-z]$", before) or re.match(r"[/:.]\d|/|[.,]?\d", after)
    if is_torn or match.end() - match.start() > MAX_DIGITS:
        return None  # part of a date, a clock time, a version, a chain of fractions
    try:
        value = _magnitude(match)
    except (OverflowError, ZeroDivisionError):
        return None
    value = -value if _is_negative(text, start) else value
    if not math.isfinite(value):
        return None
    is_whole = "." not in match["number"] and not match["bottom"] and not match["mixed_bottom"] and not match["half"]
    return Number(value, is_whole)


def _magnitude(match: re.Match[str]) -> float:
    value = _float(match["number"])
    if match["ten_power"]:
        value *= 10.0 ** int(match["ten_power"])
    elif match["e_power"]:
        value = float(f"{re.sub('[ ,]', '', match['number'])}e{match['e_power']}")
    elif match["power"]:
        value **= int(match["power"])
    elif match["mixed_bottom"]:
        value += int(match["mixed_top"]) / int(match["mixed_bottom"])
    elif match["bottom"]:
        value /= _float(match["bottom"])
    if match["scale"]:
        value *= _SCALES[match["scale"]]
    if match["half"]:
        value += 0.5
    return value / 100 if match["percent"] else value


def _is_negative(text: str, start: int) -> bool:
    if start <= 2 and text[:start] in ("- ", "-"):
        return True
    before = text[max(0, start - 2) : start]
    return before.endswith("-") and not re.match(r"[\w%)\]}]", before)


def _float(digits: str) -> float:
    return float(digits.replace(",", "").replace(" ", ""))
