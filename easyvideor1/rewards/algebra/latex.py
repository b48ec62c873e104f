"""The mathematical text of an answer in one spelling: LaTeX, plain text and Unicode signs of the same meaning alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from easyvideor1.rewards.algebra.names import FUNCTIONS
from easyvideor1.rewards.leads import ANSWER_LEAD
from easyvideor1.rewards.parse import box_places, braced, plain, takes_back


def _in_one_line(match: re.Match[str]) -> str:
    """The equations of a system with commas between them; other lines, such as those of a function, as they are."""
    lines = [line.replace("&", "").strip(" ,") for line in match[2].split(r"\\") if line.strip()]
    is_system = all(line.count("=") == 1 and not re.search("[<>\u2264\u2265\u2260]", line) for line in lines)
    return ", ".join(lines) if is_system else match[0]


_MACROS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(r"\\(?:left|right|displaystyle|limits|big|Big|bigg|bigl|bigr|Bigl|Bigr|mathstrut)(?![a-zA-Z])\.?"), ""),
    (re.compile(r"(?<!\\)\\!"), ""),
    (re.compile(r"(?<=\d)\\[,;]\s?(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\(?:text|mathrm|mathbf)\s?\{\s?(\d[\d.,]*)\s?\}"), r"\1"),
    (re.compile(r"\\(?:mathrm|mathbf|operatorname)\s?\{\s?([ei])\s?\}"), r"\1 "),
    (re.compile(rf"\\(?:mathrm|operatorname)\s?\*?\s?\{{\s?({'|'.join(FUNCTIONS)})\s?\}}"), r"\1 "),
    (re.compile(r"(?<!\\)\\[,;: ]|\\q?quad(?![a-zA-Z])"), " "),
    (re.compile(r"\\varnothing"), r"\\emptyset"),
    (re.compile(r"\^\s?\{?\s?\\circ\s?\}?|\\degree(?![a-zA-Z])"), r" \\text{degree}"),
    (re.compile(r"\\le(?:q|qslant)?(?![a-zA-Z])"), "\u2264"),
    (re.compile(r"\\ge(?:q|qslant)?(?![a-zA-Z])"), "\u2265"),
    (re.compile(r"\\(?:ne(?:q)?|not\s?=)(?![a-zA-Z])"), "\u2260"),
    (re.compile(r"\\lt(?![a-zA-Z])"), "<"),
    (re.compile(r"\\gt(?![a-zA-Z])"), ">"),
    (re.compile(r"\\lg(?![a-zA-Z])"), r"\\log_{10}"),
    (re.compile(r"\\(?:times|cdot|ast)(?![a-zA-Z])"), "*"),
    (re.compile(r"\\div(?![a-zA-Z])"), "/"),
    (re.compile(r"\\(?:pm|mp)(?![a-zA-Z])"), "\u00b1"),
    (re.compile(r"\\(?:mathrm|textrm|textbf|textit|mathbf|mathit|mathsf|mbox|operatorname|rm)\s?\*?\s?\{"), r"\\text{"),
    (re.compile(r"\\(?:lbrace)(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\langle\s?"), "("),
    (re.compile(r"\s?\\rangle"), ")"),
    (re.compile(r"\\(?:vert|lvert|rvert|mid)(?![a-zA-Z])"), "|"),
    (re.compile(r"\\(?:setminus|backslash)(?![a-zA-Z])"), r"\\setminus "),
    (re.compile(r"\\\$"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\(?:mathbb|Bbb)\s?\{?\s?([RZQNC])\s?\}?"), r"\\mathbb{\1}"),
    (re.compile(r"\{([^{}]*)\\over(?![a-z])([^{}]*)\}"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\begin\{(cases|aligned|gathered)\}(.*?)\\end\{\1\}", re.DOTALL), _in_one_line),
)
_SIGNS = (
    (re.compile("\u2205"), r"\\emptyset "),
    (re.compile("\u00b0"), r" \\text{degree}"),
    (re.compile("[\u00d7\u00b7\u22c5\u2217\u2062]"), "*"),
    (re.compile("\u00f7"), "/"),
    (re.compile("\u03c0"), r"\\pi "),
    (re.compile("\u221e"), r"\\infty "),
    (re.compile("\u221a\\s?\\(([^()]*)\\)"), r"\\sqrt{\1}"),
    (re.compile("\u221a\\s?(\\w+)"), r"\\sqrt{\1}"),
    (re.compile("[\u20ac\u00a3\u00a5]"), ""),
    (re.compile("\u222a"), r"\\cup "),
    (re.compile("\u2229"), r"\\cap "),
    (re.compile("\u2208"), r"\\in "),
    (re.compile("\u2216"), r"\\setminus "),
    (re.compile("\u27e8|\u2329"), "("),
    (re.compile("\u27e9|\u232a"), ")"),
)
_DOUBLE_STRUCK = re.compile("[\u211d\u2124\u211a\u2115\u2102]")
_DOUBLE_STRUCK_LETTERS = {"\u211d": "R", "\u2124": "Z", "\u211a": "Q", "\u2115": "N", "\u2102": "C"}
_PLAIN = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"<="), "\u2264"),
    (re.compile(r">="), "\u2265"),
    (re.compile(r"!=(?!=)|/="), "\u2260"),
    (re.compile(r"\+/-|\+-"), "\u00b1"),
    (re.compile(r"~"), " "),
    (re.compile(r"(?<![a-zA-Z\\])(?:inf|infty|infinity|oo)(?![a-zA-Z])"), r"\\infty "),
)
_PLAIN_MARKS = re.compile(r"[{*<>!/+~]|in|oo")
MAX_BOXES = 8
_REPEATING = re.compile(r"(?<![\d.])(\d{1,9})\.(\d{0,9})\\(?:overline|bar|dot)\s?\{?(\d{1,9})\}?(?!\d)")
"""0.1\\overline{6}: whole part, digits before the period of repetition, the period."""
_LABEL = re.compile(r"\A(?:\\text\{[^{}]*\}|([A-Za-z]{3,})(?: [A-Za-z]+){0,4})\s?=\s?(?=[^=]+\Z)")
"""The words of "Area = 5"."""
_FIRST_EQUALS = re.compile(r"\A\s*(?:=|\\implies|\\Rightarrow|=>|\\therefore|####?)\s*")


def _as_fraction(match: re.Match[str]) -> str:
    """A repeating decimal as the fraction that it is."""
    whole, once, period = match.groups()
    value = Fraction(int(whole + once), 10 ** len(once))
    value += Fraction(int(period), 10 ** len(once) * (10 ** len(period) - 1))
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def read_expression(text: str) -> str | None:
    """The expression in an answer, in one spelling; None for no text or for boxes that differ.

    >>> read_expression("The answer is $x = \\\\dfrac{1}{2}$."), read_expression(r"so \\boxed{4}")
    ('x = \\\\frac{1}{2}', '4')
    """
    if not text.isascii():
        text = _DOUBLE_STRUCK.sub(lambda match: rf"\mathbb{{{_DOUBLE_STRUCK_LETTERS[match[0]]}}}", text)
    text = plain(text)
    if "box" in text:
        places = box_places(text)
        inside = [braced(text, place) for place in places[: MAX_BOXES + 1]]
        if len(inside) > MAX_BOXES or len({content for content, _ in inside}) > 1:
            return None
        if inside:
            if takes_back(text[: places[0]] + text[inside[-1][1] :]):
                return None
            text = inside[0][0]
    if len(text) > 2 and not text[0].isdigit():
        lead = ANSWER_LEAD.match(text)
        text = text[lead.end() :] if lead else text
    if "$" in text:
        text = _without_dollars(text.replace(r"\$", ""))
    text = _FIRST_EQUALS.sub("", text)
    return _one_spelling(text) or None


def _without_dollars(text: str) -> str:
    if text.count("$") == 2:
        start, end = text.find("$"), text.rfind("$")
        outside = text[:start] + text[end + 1 :]
        if not re.search(r"\d", outside) and not takes_back(outside):
            return text[start + 1 : end]
    return text.replace("$", "")


def _one_spelling(text: str) -> str:
    if "\\" in text:
        text = _REPEATING.sub(_as_fraction, text)
        for pattern, replacement in _MACROS:
            text = pattern.sub(replacement, text)
    if not text.isascii():
        for pattern, replacement in _SIGNS:
            text = pattern.sub(replacement, text)
    if _PLAIN_MARKS.search(text):
        for pattern, replacement in _PLAIN:
            text = pattern.sub(replacement, text)
    text = " ".join(text.split()).rstrip(" .,;\u3002")
    label = _LABEL.match(text)
    return text[label.end() :] if label and label[1] not in FUNCTIONS else text
