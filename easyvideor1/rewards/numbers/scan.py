"""The numbers in a text, each with its exact value and its place: digits, fractions, powers, scales and percents."""

from __future__ import annotations

import re
from typing import NamedTuple

from easyvideor1.rewards.numbers.words import PARTS, SCALES, spell_out
from easyvideor1.rewards.parse import plain

MAX_DIGITS = 100
"""Most digits of a written number."""
MAX_EXPONENT = 400
"""Largest power of ten that is read."""
MAX_FLOAT_BITS = 1023
"""Largest power of two: no float beyond it is finite."""


class Numeral(NamedTuple):
    """A number as it stands in a text."""

    num: int
    den: int
    """The value is exactly num / den; den > 0, not reduced. A percent is its ratio."""
    start: int
    end: int
    """The place of the numeral in the text, sign included."""
    is_whole: bool
    """True for a number that was written without a decimal point or fraction bar."""
    is_percent: bool
    decimals: int
    """Digits behind the decimal point where it was written as a decimal; 0 else."""


class TornNumberError(ValueError):
    """Digits that are part of a date, a clock time, a version, or of a number that is not finite."""


_UNSIGNED = r"(?:\d{1,3}(?:(?:,\d{3}){1,30}+|(?:[ ]\d{3}){1,9}+(?![ ]?/))(?!\d)(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)"
_SCALE = "|".join(sorted((name for name in SCALES if name != "\u5341"), key=len, reverse=True))
_PART = "|".join(sorted((name for name in PARTS if name.endswith("s")), key=len, reverse=True))
_TOKEN = re.compile(
    rf"""(?P<number>{_UNSIGNED})
    (?: [ ]?[*x][ ]?10[ ]?(?:\^|\*\*)[ ]?\{{?(?P<ten_power>[+-]?\d{{1,4}})\}}?
      | e(?P<e_power>[+-]?\d{{1,5}})(?![a-z])
      | (?:\^|\*\*)\{{?(?P<power>[+-]?\d{{1,4}})\}}?
      | [ ](?P<mixed_top>\d{{1,6}})[ ]?/[ ]?(?P<mixed_bottom>\d{{1,6}})
      | [ ]?/[ ]?(?P<bottom>{_UNSIGNED})
      | [ -](?P<part>{_PART})(?![a-z]) )?
    (?P<scales>(?:[ ]?(?:{_SCALE})s?(?![a-z]))*)
    (?P<half>[ ]and[ ]a[ ]half)?
    (?P<percent>[ ]?%)?""",
    re.VERBOSE,
)
_SCALE_NAME = re.compile(_SCALE)
_LETTER_SCALES = (
    # "300 K" is a temperature, small "m" is metres.
    (re.compile(r"(?<=\d)(?:K|[ ]?k)(?![A-Za-z0-9/])"), " thousand"),
    (re.compile(r"(?<=\d)[ ]?(?:MM|M|[Mm]n|mln|mio)(?![A-Za-z0-9/])"), " million"),
    (re.compile(r"(?<=\d)[ ]?(?:B|[Bb]n|bln)(?![A-Za-z0-9/])"), " billion"),
    (re.compile(r"(?<=\d)(?:T|[Tt]n|trn)(?![A-Za-z0-9/])"), " trillion"),
)
_SCALE_LETTER = re.compile(r"\d[ ]?[KkMmBbTt]")
_LATEX_FRACTION = re.compile(r"\\[dtc]?frac\s?(?:\{\s?([\d.,]{1,20})\s?\}\s?\{\s?([\d.,]{1,20})\s?\}|(\d)\s?(\d))")
_LATEX = (
    (re.compile(r"\\(?:left|right|displaystyle|boldsymbol|mathbf)(?![a-z])"), ""),
    (re.compile(r"\\times(?![a-z])|\\cdot(?![a-z])"), "*"),
    (re.compile(r"\\[,;:! ]|\\q?quad(?![a-z])"), " "),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\le(?:q|qslant)?(?![a-z])"), "<="),
    (re.compile(r"\\ge(?:q|qslant)?(?![a-z])"), ">="),
    (re.compile(r"\\lt(?![a-z])"), "<"),
    (re.compile(r"\\gt(?![a-z])"), ">"),
    (re.compile(r"\^\s?\{?\s?\\circ\s?\}?|\\degree(?![a-z])"), " degrees "),
    (re.compile(r"\\(?:approx|simeq|sim)(?![a-z])"), " "),
    (re.compile(r"\\(?:text|textbf|textit|mathrm|mbox)\s?\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\\$"), "$"),
)
_ITALICS = re.compile(r"(?<!\w)_(?=\S)|(?<=\S)_(?!\w)")
_PERCENT_WORD = re.compile(r"(?<=[\d ])(?:percent|per cent|pct)(?![a-z])")


def normalized(text: str) -> str:
    """Lower-case text with number words, scale letters and LaTeX of numbers in the one spelling that is scanned.

    >>> normalized("about **1.5M**"), normalized("\\\\dfrac{1}{2}"), normalized("ten percent")
    ('about 1.5 million', '1/2', '10 %')
    """
    text = plain(text)
    if _SCALE_LETTER.search(text):
        for pattern, word in _LETTER_SCALES:
            text = pattern.sub(word, text)
    text = text.lower()
    if "_" in text:
        text = _ITALICS.sub("", text)
    if "\\" in text:
        text = text.replace("{,}", ",")
        text = _LATEX_FRACTION.sub(lambda m: f" {m[1] or m[3]}/{m[2] or m[4]}", text)
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    if not text.isascii():
        text = text.replace("\u00d7", "*").replace("\u00b7", "*").replace("\u00b0", " degree")
    text = spell_out(text)
    if "per" in text or "pct" in text:
        text = _PERCENT_WORD.sub("%", text)
    return " ".join(text.split())


_NOT_FINITE = re.compile(r"(?<![a-z])(?:nan|inf|infinity|infinite)(?![a-z])|\u221e|\\infty|\u65e0\u7a77")


def numerals(text: str) -> list[Numeral]:
    """Every number of a text from `normalized`, in order; raises TornNumberError.

    >>> [(numeral.num, numeral.den) for numeral in numerals("1 1/2 or 3%")]
    [(3, 2), (3, 100)]
    """
    if ("inf" in text or "nan" in text or not text.isascii()) and _NOT_FINITE.search(text):
        raise TornNumberError
    return [_numeral(text, match) for match in _TOKEN.finditer(text) if not _is_inside_word(text, match.start())]


_WORD_BEFORE = re.compile(r"[a-z_]\Z|\^\{?[+-]?\Z")
_DIGIT_LETTER = re.compile(r"\d[a-z]\Z")
_TORN_BEFORE = re.compile(r"[\d.][.:/]?\Z|/\Z|\d[a-z]\Z")
_TORN_BEHIND = re.compile(r"[/:.]\d|/(?![a-z])|[.,]?\d")


def _is_inside_word(text: str, start: int) -> bool:
    """True for digits that belong to a name or a unit: H2O, x_1, m^2, s^{-1}."""
    if start == 0:
        return False
    before = text[max(0, start - 3) : start]
    return bool(_WORD_BEFORE.search(before)) and not _DIGIT_LETTER.search(before)


def _numeral(text: str, match: re.Match[str]) -> Numeral:
    start, end = match.span()
    if (start and _TORN_BEFORE.search(text, max(0, start - 2), start)) or _TORN_BEHIND.match(text, end):
        raise TornNumberError  # part of a date, a clock time, a version, a chain of fractions
    if end - start > MAX_DIGITS:
        raise TornNumberError
    num, den, decimals = ratio(match["number"])
    is_whole = decimals == 0
    if end > match.end("number"):
        num, den, is_whole = _modified(match, num, den, is_whole)
        if num.bit_length() - den.bit_length() > MAX_FLOAT_BITS:
            raise TornNumberError
    if start and _is_negative(text, start):
        num, start = -num, text.rfind("-", 0, start)
    return Numeral(num, den, start, end, is_whole, bool(match["percent"]), decimals)


def _modified(match: re.Match[str], num: int, den: int, is_whole: bool) -> tuple[int, int, bool]:
    """The value with everything that stands behind the digits."""
    power = match["ten_power"] or match["e_power"]
    if power:
        num, den = _times_power(num, den, 10, int(power))
    elif match["power"]:
        num, den = _power(num, den, int(match["power"]))
    elif match["mixed_bottom"]:
        bottom = int(match["mixed_bottom"])
        num, den, is_whole = num * bottom + den * int(match["mixed_top"]), den * bottom, False
    elif match["bottom"]:
        top, bottom, _ = ratio(match["bottom"])
        num, den, is_whole = num * bottom, den * top, False
    elif match["part"]:
        den, is_whole = den * PARTS[match["part"]], False
    if match["half"]:  # "two and a half", "a dozen and a half"
        num, den, is_whole = 2 * num + den, 2 * den, False
    for scale in _SCALE_NAME.findall(match["scales"]):
        num *= SCALES[scale]
    if match["percent"]:
        den *= 100
    if den == 0:
        raise TornNumberError
    return num, den, is_whole


def ratio(digits: str) -> tuple[int, int, int]:
    """Numerator, denominator and decimals of digits with or without thousands marks.

    >>> ratio("1,234.50"), ratio(".5")
    ((123450, 100, 2), (5, 10, 1))
    """
    if len(digits) > MAX_DIGITS:
        raise TornNumberError
    whole, _, decimals = digits.partition(".")
    return int(whole.replace(",", "").replace(" ", "") + decimals), 10 ** len(decimals), len(decimals)


def _times_power(num: int, den: int, base: int, power: int) -> tuple[int, int]:
    if abs(power) > MAX_EXPONENT:
        raise TornNumberError
    return (num * base**power, den) if power >= 0 else (num, den * base**-power)


def _power(num: int, den: int, power: int) -> tuple[int, int]:
    if abs(power) * max(num.bit_length(), den.bit_length()) > 4 * MAX_EXPONENT or (num == 0 and power <= 0):
        raise TornNumberError
    return (num**power, den**power) if power >= 0 else (den**-power, num**-power)


def _is_negative(text: str, start: int) -> bool:
    if text[:start] == "- ":
        return True
    sign = start - 1
    if text[sign] in "$\u20ac\u00a3\u00a5\u20b9" and sign > 0:
        sign -= 1
    return text[sign] == "-" and not (sign > 0 and re.match(r"[\w%)\]}]", text[sign - 1]))
