"""Number words in digits: "two hundred and five" -> "205", "minus five" -> "-5", Chinese numerals alike."""

from __future__ import annotations

import re

_UNITS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
SCALES = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "hundred": 100, "dozen": 12,
    "lakh": 10**5, "crore": 10**7, "\u5341": 10, "\u767e": 100, "\u5343": 10**3, "\u4e07": 10**4, "\u4ebf": 10**8,
}  # fmt: skip
"""What may stand behind digits and multiply them."""
_LARGE = ("thousand", "million", "billion", "trillion", "lakh", "crore")
PARTS = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "twelfth": 12, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
PARTS |= {f"{name}s": size for name, size in PARTS.items()} | {"halves": 2}
_WORD = "|".join(sorted([*_UNITS, *_TENS, *_LARGE, "hundred", "dozen"], key=len, reverse=True))
_PART = "|".join(sorted(PARTS, key=len, reverse=True))
_RUN = re.compile(
    rf"(?<![a-z])(?:a )?(?P<words>(?:{_WORD})(?![a-z])(?:(?:[ ]|-|[ ]and[ ])(?:{_WORD})(?![a-z]))*+)"
    rf"(?P<point>(?: point)(?: (?:{'|'.join(_UNITS)})(?![a-z]))++)?"
    rf"(?P<half> and a half(?![a-z]))?(?:[ -](?P<part>{_PART})(?![a-z]))?"
)
_LONE_PART = re.compile(r"(?<![a-z])(?<!and )(?<!and a )(?:a |one )?(half|quarter)(?: of)?(?: an?)?(?![a-z])")
_NAMED_PART = re.compile(
    r"(?<![a-z])(?<!and )an? (third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)(?= of(?![a-z])|\W*\Z)"
)
"""Elsewhere "a third" is one more."""
_BEFORE_SCALE = re.compile(r"(?:[\d.]|half)\s?$")
_MINUS = re.compile(r"(?<![a-z])(?:minus|negative) ?(?=[\d.])")
_OFTEN = {"once": "1 time", "twice": "2 times", "thrice": "3 times"}
_TIMES = re.compile(r"\A[^\d]*(?<![a-z])(once|twice|thrice)\W*\Z")
""""Once" and "twice" are numbers at the end of a text without digits; elsewhere "twice" multiplies and "once" is a
matter of time."""
_SIGNS = frozenset([*_UNITS, *_TENS, *_LARGE, *PARTS, "hundred", "dozen", "minus", "negative", *_OFTEN])
_WORDS = re.compile(r"[a-z]+")


def spell_out(text: str) -> str:
    """Lower-case text with number words replaced by digits.

    >>> spell_out("two hundred and five"), spell_out("minus two point five"), spell_out("one and a half")
    ('205', '-2.5', '1.5')
    """
    if not _SIGNS.isdisjoint(_WORDS.findall(text)):
        often = _TIMES.match(text)
        text = _OFTEN[often[1]] if often else text
        text = _RUN.sub(_digits, text)
        text = _LONE_PART.sub(lambda match: _PART_OF_ONE[match[1]], text)
        text = _NAMED_PART.sub(lambda match: f"1/{PARTS[match[1]]}", text)
        text = _MINUS.sub("-", text)
    return text if text.isascii() else _chinese(text)


_PART_OF_ONE = {"half": "0.5", "quarter": "0.25"}


def _digits(match: re.Match[str]) -> str:
    words = re.findall(r"[a-z]+", match["words"].replace(" and ", " "))
    if SCALES.keys() >= set(words) and _BEFORE_SCALE.search(match.string[max(0, match.start() - 6) : match.start()]):
        return match[0]  # "3 million", "half a million": the digits take the scale themselves
    value = _value(words)
    if value is None:  # "two two": not one number, so leave several
        return " ; ".join(str(_value([word])) for word in words)
    digits = str(value)
    if match["point"]:
        digits += "." + "".join(str(_UNITS[word]) for word in match["point"].split()[1:])
    if match["half"]:
        digits = str(value + SCALES[words[-1]] // 2) if words[-1] in SCALES else f"{value}.5"
    if match["part"]:
        digits = _part(digits, value, match["part"])
    return digits


def _part(digits: str, value: int, part: str) -> str:
    """A fraction ("two thirds"), or else an ordinal ("twenty fifth")."""
    if value == 1 or part.endswith("s") or part == "halves":
        return f"{digits}/{PARTS[part]}"
    return str(value + PARTS[part]) if value % 10 == 0 and 2 < PARTS[part] < 10 else f"{digits} ; 1/{PARTS[part]}"


def _value(words: list[str]) -> int | None:
    """The whole number that number words spell; None where they are several numbers in a row."""
    total, current, last_scale, room = 0, 0, 10**15, 100
    # `room` is what the next word below a hundred must stay under: "twenty" leaves 10, "five" leaves nothing.
    for word in words:
        if word in _UNITS or word in _TENS:
            value = _UNITS.get(word, _TENS.get(word, 0))
            if value >= room or (value == 0 and len(words) > 1):
                return None
            current += value
            room = 10 if word in _TENS else 0
        elif word in ("hundred", "dozen"):
            if current >= 100:
                return None
            current = max(current, 1) * SCALES[word]
            room = 100
        else:
            scale = SCALES[word]
            if scale >= last_scale:
                return None
            total, current, last_scale, room = total + max(current, 1) * scale, 0, scale, 100
    return total + current


_CHINESE_DIGITS = {
    char: value for value, char in enumerate("\u96f6\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d")
}
_CHINESE_DIGITS |= {"\u3007": 0, "\u4e24": 2}
_CHINESE_UNITS = {"\u5341": 10, "\u767e": 100, "\u5343": 1000}
_CHINESE_SCALES = {"\u4e07": 10**4, "\u4ebf": 10**8}
_CHINESE_CHARS = "".join([*_CHINESE_DIGITS, *_CHINESE_UNITS, *_CHINESE_SCALES])
_CHINESE_FIRST = "".join([*_CHINESE_DIGITS, "\u5341"])
_CHINESE_DIGIT_CHARS = "".join(_CHINESE_DIGITS)
_NO_NUMERAL = re.compile("\u4e00(?=[\u5171\u6837\u5b9a\u822c\u76f4\u8d77\u4e9b\u65e6\u5207])|(?<=[\u7edf\u552f])\u4e00")
"""The character for one inside words such as "altogether", "the same", "some", "only"."""
_CHINESE_RUN = re.compile(rf"(\u8d1f)?([{_CHINESE_FIRST}][{_CHINESE_CHARS}]*+)(?:\u70b9([{_CHINESE_DIGIT_CHARS}]++))?")
MAX_CHINESE_CHARS = 40
_CHINESE_HALF = re.compile("\u4e00\u534a")


def _chinese(text: str) -> str:
    text = _CHINESE_HALF.sub("0.5", text)
    text = _CHINESE_RUN.sub(_chinese_digits, _NO_NUMERAL.sub(" ", text))
    text = re.sub(r"\u8d1f(?=\d)", "-", text)
    text = re.sub(r"\u767e\u5206\u4e4b(-?[\d.]++)", r"\1%", text)
    return re.sub(r"(?<!\d)(\d++)/?\u5206\u4e4b(\d++)", r"\2/\1", text)


def _chinese_digits(match: re.Match[str]) -> str:
    if len(match[0]) > MAX_CHINESE_CHARS:
        return match[0]
    value = _chinese_value(match[2])
    digits = "" if match[3] is None else "." + "".join(str(_CHINESE_DIGITS[char]) for char in match[3])
    return ("-" if match[1] else "") + str(value) + digits


def _chinese_value(chars: str) -> int:
    if all(char in _CHINESE_DIGITS for char in chars):  # read out digit by digit
        return int("".join(str(_CHINESE_DIGITS[char]) for char in chars))
    total, section, digit = 0, 0, 0
    for char in chars:
        if char in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[char]
        elif char in _CHINESE_UNITS:
            section += (digit or 1) * _CHINESE_UNITS[char]
            digit = 0
        else:
            total = (total + section + digit) * _CHINESE_SCALES[char]
            section = digit = 0
    return total + section + digit
