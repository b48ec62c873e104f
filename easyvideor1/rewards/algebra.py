"""Are two mathematical answers the same: words, numbers with units, lists, intervals, equations, and symbols.

What has a structure is taken apart here (a list must match item by item, an assignment loses its variable), because a
symbolic checker that sees the whole text accepts the last number of a list or a subset of the answers. Only single
expressions reach Math-Verify, and only where they are small: computer algebra evaluates `9^{9^9}` if it is asked to.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType

from easyvideor1.rewards.parse import braced, fold, plain
from easyvideor1.rewards.quantities import read_quantity, same_quantity, without_unit
from easyvideor1.rewards.tasks.choice import read_choice

MAX_CHARS = 300
MAX_DEPTH = 10
"""Of brackets: the LaTeX parser takes seconds from twenty on."""
MAX_DIGITS = 100
MAX_EXPONENT = 10_000
MAX_POWER_DIGITS = 20_000
MAX_SUM_EXPONENT = 50
"""Of a bracket with variables in it, which expands to that many terms and more."""
MAX_FACTORIAL_DIGITS = 4


class UnreadableGoldError(ValueError):
    """The gold answer is no expression that anything could be compared with."""


_REWRITES = (
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\(?:left|right|displaystyle|limits|big|Big|bigl|bigr)(?![a-zA-Z])\.?"), ""),
    (re.compile(r"(?<!\\)\\!"), ""),
    (re.compile(r"(?<!\\)\\[,;: ]|~|\\q?quad"), " "),
    (re.compile("\\\\varnothing|\u2205"), r"\\emptyset "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\^\s?\{?\s?\\circ\s?\}?|\\degree|\u00b0"), r" \\text{degree}"),
    (re.compile(r"\\le(?:q|qslant)?(?![a-zA-Z])|\u2264|<="), r"\\le "),
    (re.compile(r"\\ge(?:q|qslant)?(?![a-zA-Z])|\u2265|>="), r"\\ge "),
    (re.compile(r"\\ne(?:q)?(?![a-zA-Z])|\u2260|!="), r"\\ne "),
    (re.compile(r"\\lt(?![a-zA-Z])"), "<"),
    (re.compile(r"\\lg(?![a-zA-Z])"), r"\\log_{10}"),
    (re.compile(r"\\gt(?![a-zA-Z])"), ">"),
    (re.compile("\u03c0"), r"\\pi "),
    (re.compile("\u221e|(?<![a-zA-Z\\\\])(?:inf|infinity|oo)(?![a-zA-Z])"), r"\\infty "),
    (re.compile("\u221a\\s?\\(([^()]*)\\)|(?<![a-zA-Z\\\\])sqrt\\s?\\(([^()]*)\\)"), r"\\sqrt{\1\2}"),
    (re.compile("\u221a\\s?(\\w+)"), r"\\sqrt{\1}"),
    (re.compile(r"\u00d7|\\times(?![a-zA-Z])"), r"\\cdot "),
    (re.compile(r"\u00b7|\u22c5"), r"\\cdot "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\\(?:pm|mp)(?![a-zA-Z])|\u00b1|\+/-"), r"\\pm "),
    (re.compile(r"\\(?:mathrm|textrm|textbf|mathbf|mbox|textit|operatorname|rm)\s?\{"), r"\\text{"),
    (re.compile(r"\\?[\u20ac\u00a3\u00a5]|\\\$"), ""),
    (re.compile(r"\\%"), "%"),
)
_LEAD = re.compile(
    r"(?:so |therefore,? |thus,? |hence,? )?(?:the |my )?(?:final |correct )?(?:answer|result|value|solution)"
    r"\s*(?:is|equals|:)[\s:]*|(?:\u56de?\u7b54\u6848?|\u7ed3\u679c)\s*(?:\u662f|\u4e3a|:)[\s:]*",
    re.IGNORECASE,
)


_REPEATING = re.compile(r"(?<![\d.])(\d{1,9})\.(\d{0,9})\\(?:overline|bar|dot)\s?\{?(\d{1,9})\}?(?!\d)")
"""0.1\\overline{6}: whole part, digits before the period of repetition, the period."""


def _as_fraction(match: re.Match[str]) -> str:
    """A repeating decimal as the fraction that it is."""
    whole, once, period = match.groups()
    value = Fraction(int(whole + once), 10 ** len(once))
    value += Fraction(int(period), 10 ** len(once) * (10 ** len(period) - 1))
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def read_expression(text: str) -> str | None:
    """The expression in an answer, in one spelling; None for no text or for two boxes.

    >>> read_expression("The answer is $x = \\\\dfrac{1}{2}$."), read_expression(r"so \\boxed{4}")
    ('x = \\\\frac{1}{2}', '4')
    """
    text = plain(text).replace(r"\$", "")
    if text.count(r"\boxed") > 1:
        return None
    box = text.find(r"\boxed{")
    if box >= 0:
        text = braced(text, box + len(r"\boxed"))[0]
    lead = _LEAD.match(text)
    text = text[lead.end() :] if lead else text
    if text.count("$") == 2 and not re.search(r"\d", text[: text.find("$")] + text[text.rfind("$") + 1 :]):
        text = text[text.find("$") + 1 : text.rfind("$")]
    text = _REPEATING.sub(_as_fraction, text.replace("$", ""))
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return " ".join(text.split()).rstrip(" .;\u3002") or None


def same_math(answer: str, gold: str) -> bool:
    """True where two expressions from `read_expression` say the same; raises UnreadableGoldError."""
    if _tight(answer) == _tight(gold):
        return True
    if re.fullmatch(r"[\s(\[]*[A-J][\s)\].:]*", gold):
        return read_choice(answer, {}) == read_choice(gold, {})
    if len(answer) > MAX_CHARS:
        return False
    gold_row, row = _row(gold), _row(answer)
    if gold_row is None and row is None:
        return _same_single(answer, gold)
    return gold_row is not None and row is not None and _same_rows(row, gold_row)


def _tight(text: str) -> str:
    return re.sub(r"\s|\\text(?=\{)|[{}]", "", text) if "frac" not in text else text.replace(" ", "")


@dataclass(frozen=True, slots=True)
class _Row:
    """Several expressions in one answer."""

    items: tuple[str, ...]
    brackets: str
    """ "()", "[)" .. for pairs and intervals, where the order counts; "" for lists and sets, where it does not."""


_OPENING = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_CLOSING_OF = {"(": ")]", "[": ")]", "{": "}"}


_NAMED_TUPLE = re.compile(r"\A\(\s?[a-zA-Z](?:\s?,\s?[a-zA-Z])+\s?\)\s?=\s?(?=\()")
"""The left side of "(x, y) = (3, 4)"."""


def _row(text: str) -> _Row | None:
    """The items of a pair, an interval, a set or a list; None for a single expression."""
    if read_quantity(text) is not None:
        return None
    inner = text.replace(r"\{", "{").replace(r"\}", "}").strip()
    for name in ("x", "y", "z", "S"):  # "x = 1, 2" and "S = \{1, 2\}" lose their name
        inner = re.sub(rf"\A{name}\s?(?:=|\\in)\s?(?=.*[,{{])", "", inner)
    inner = _NAMED_TUPLE.sub("", inner)
    brackets = ""
    if inner and inner[0] in _CLOSING_OF and inner[-1] in _CLOSING_OF[inner[0]] and _closes_at_end(inner):
        brackets = "" if inner[0] == "{" else inner[0] + inner[-1]
        items = _split(inner[1:-1])
        is_row = len(items) > 1 or inner[0] == "{"
    else:
        items = _split(inner)
        is_row = len(items) > 1
    if not brackets and any(r"\pm" in item for item in items):
        items = [item.replace(r"\pm", sign) for item in items for sign in ("+", "-")]
        is_row = True
    return _Row(tuple(item.strip() for item in items), brackets) if is_row else None


def _closes_at_end(text: str) -> bool:
    depth = 0
    for place, char in enumerate(text):
        depth += _OPENING.get(char, 0)
        if depth == 0:
            return place == len(text) - 1
    return False


def _split(text: str) -> list[str]:
    """Parts between the commas, semicolons and "or"s outside all brackets."""
    text = re.sub(
        r"\\text\{\s*(?:or|and)\s*\}|(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])|[;\uff1b\u3001\u6216\u548c]", ",", text
    )
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += _OPENING.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _same_rows(row: _Row, gold: _Row) -> bool:
    if len(row.items) != len(gold.items) or row.brackets != gold.brackets or not all(row.items):
        return False
    if gold.brackets:
        return all(same_math(item, other) for item, other in zip(row.items, gold.items, strict=True))
    left = list(row.items)
    for other in gold.items:
        match = next((item for item in left if same_math(item, other)), None)
        if match is None:
            return False
        left.remove(match)
    return True


_SIDES = re.compile(r"(?<![<>=!])=(?!=)")
_VARIABLE = re.compile(r"(?:[a-zA-Z]|\\[a-z]+|[a-zA-Z]\s?\(\s?[a-zA-Z]\s?\))(?:_\{?\w+\}?)?'?")


def _same_single(answer: str, gold: str) -> bool:
    """Two single expressions; an assignment to one variable counts as its right side."""
    name, value = _assigned(answer)
    gold_name, gold_value = _assigned(gold)
    if name and gold_name and name != gold_name:
        return False
    sides, gold_sides = _SIDES.split(value), _SIDES.split(gold_value)
    if len(sides) > 1 and len(gold_sides) == 1:
        # "2 + 3 = 5" says 5 only if both sides do; "3 = 5" does not.
        return all(side.strip() and _same_value(side.strip(), gold_value) for side in sides[:4])
    return _same_value(value, gold_value)


def _assigned(text: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if equals and _VARIABLE.fullmatch(left.strip()) and right.strip():
        # f(x) = .. and y = .. name the same thing
        return "y" if "(" in left else re.sub(r"[\s{}]", "", left), right.strip()
    return "", text


def _same_value(answer: str, gold: str) -> bool:
    if _tight(answer) == _tight(gold):
        return True
    gold_words = _words(gold)
    if gold_words is not None:
        return fold(_untexted(answer)) == gold_words
    number, gold_number = read_quantity(answer), read_quantity(gold)
    if number is not None and gold_number is not None:
        return same_quantity(number, gold_number)
    (answer, unit), (gold, gold_unit) = without_unit(answer), without_unit(gold)
    return not (unit and gold_unit and unit != gold_unit) and _same_symbols(answer, gold)


def _untexted(text: str) -> str:
    return re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)


_FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "sqrt", "arcsin", "arccos", "arctan", "sinh", "cosh",
}  # fmt: skip


def _words(text: str) -> str | None:
    """Folded text of an answer in words ("no solution"); None for anything with symbols."""
    bare = _untexted(text)
    runs = re.findall(r"[^\W\d_]{2,}", bare)
    is_text = r"\text" in text or any(len(run) > 2 and run not in _FUNCTIONS for run in runs)
    return fold(bare) if is_text and runs and not re.search(r"[\d\\^=<>+*/]", bare) else None


_HEAVY_MACROS = re.compile(r"\\(?:sum|prod|int|iint|oint|lim|binom|dbinom|tbinom)(?![a-zA-Z])")
_VARIABLES = re.compile(r"(?<![a-zA-Z\\])[a-df-hj-zA-Z](?![a-zA-Z])")
"""Single letters that are no constants (e, i)."""
_EXPONENT = re.compile(r"\^\s?")
_NUMERIC = re.compile(r"(?:\\frac|\\cdot|\\sqrt|[\d\s.,+\-*/^!(){}])*\Z")


_NESTED_FUNCTIONS = re.compile(r"(?:\\(?:arc)?(?:sin|cos|tan|cot|sec|csc|exp|ln|log)h?[\s({]*){3}")
"""Three functions inside each other are evaluated digit by digit, for whether they are rational."""


def is_small(text: str) -> bool:
    """True where computer algebra can be expected to finish with an expression at once.

    >>> is_small("x^2 + 2^{10}"), is_small("9^{9^{9}}"), is_small("(10^9)!"), is_small("2^{999999}")
    (True, False, False, False)
    """
    if len(text) > MAX_CHARS or re.search(rf"\d{{{MAX_DIGITS + 1}}}", text) or _depth(text) > MAX_DEPTH:
        return False
    product = 1
    for match in _EXPONENT.finditer(text):
        exponent = _operand(text, match.end())
        if not _NUMERIC.match(exponent):
            continue
        if "^" in exponent or "!" in exponent:
            return False
        size = 10 ** min(9, max(0, len(re.sub(r"\D", "", exponent)) - 5)) * int(re.sub(r"\D", "", exponent)[:5] or 0)
        if not re.search(r"[a-zA-Z]\s?\Z", text[: match.start()]):
            product *= max(1, size)
        is_sum = bool(re.search(r"[)}]\s?\Z", text[: match.start()]) and _VARIABLES.search(text))
        base = re.search(r"\d+\s?\Z", text[: match.start()])
        if base and len(base[0]) * size > MAX_POWER_DIGITS:
            return False
        if max(product, size) > (MAX_SUM_EXPONENT if is_sum else MAX_EXPONENT):
            return False
    return not _NESTED_FUNCTIONS.search(text) and _has_small_factorials(text)


def _has_small_factorials(text: str) -> bool:
    if "!" not in text:
        return True
    is_of_group = re.search(r"[)}\]]\s?!", text) is not None
    if "!!" in text or (is_of_group and re.search(r"[!^]", text[: text.rfind("!")])):
        return False
    if re.search(rf"\d{{{MAX_FACTORIAL_DIGITS + 1},}}\s?\)*\s?!", text) or len(re.sub(r"\D", "", text)) > 20:
        return False
    # A factorial under a power would be as long as the product of both.
    return not re.search(r"!\s?\)*\s?\^", text)


def _operand(text: str, start: int) -> str:
    """What a power at `start` takes as its exponent."""
    if text[start : start + 1] == "{":
        return braced(text, start)[0] or text[start:]
    if text[start : start + 1] == "(":
        depth = 0
        for place in range(start, len(text)):
            depth += _OPENING.get(text[place], 0)
            if depth == 0:
                return text[start : place + 1]
        return text[start:]
    match = re.compile(r"-?\d+(?:\^.*)?|\\?[a-zA-Z]+|.").match(text, start)
    return match[0] if match else ""


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += _OPENING.get(char, 0)
        deepest = max(deepest, depth)
    return deepest


def _same_symbols(answer: str, gold: str) -> bool:
    if not (is_small(answer) and is_small(gold)):
        return False
    if _HEAVY_MACROS.search(answer) and not _HEAVY_MACROS.search(gold):
        return False
    if read_quantity(gold) and _VARIABLES.search(answer):
        return False
    gold_parsed = _parsed(gold)
    if not gold_parsed:
        raise UnreadableGoldError(f"the gold answer {gold!r} is no mathematical expression")
    answer_parsed = _parsed(answer)
    if not answer_parsed:
        return False
    # The gold comes first: the check is not symmetric. No time-out: it works by signals, in a main thread only;
    # the pool's deadline takes its place.
    return bool(_math_verify().verify(list(gold_parsed), list(answer_parsed), timeout_seconds=None))


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple:
    math_verify = _math_verify()
    text = re.sub(r"(\d+(?:\.\d+)?)\s?\\text\{degree\}", r"{\\frac{\1\\pi}{180}}", text)
    text = re.sub(r"(?<![\\a-zA-Z])(sin|cos|tan|log|ln|exp|pi)(?![a-zA-Z])", r"\\\1 ", text).replace("*", r"\cdot ")
    # Its list of units holds "t", "c", "h" and "ab": with it, 5t would be 5.
    config = math_verify.LatexExtractionConfig()
    config = dataclasses.replace(
        config, normalization_config=dataclasses.replace(config.normalization_config, units=False)
    )
    return tuple(
        math_verify.parse(f"${text}$", extraction_config=[config], fallback_mode="no_fallback", parsing_timeout=None)
    )


@functools.cache
def _math_verify() -> ModuleType:
    """Math-Verify, imported late because it brings SymPy; it would warn that its own time-outs are off."""
    import math_verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    return math_verify
