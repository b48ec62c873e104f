"""Is an expression small enough for computer algebra, which evaluates `9^{9^9}` if it is asked to."""

from __future__ import annotations

import math
import re

from easyvideor1.rewards.algebra.rows import OPENING
from easyvideor1.rewards.parse import braced

MAX_CHARS = 300
MAX_DEPTH = 10
"""Greatest depth of brackets: the LaTeX parser takes seconds from twenty on."""
MAX_DIGITS = 100
MAX_EXPONENT = 10_000
MAX_POWER_DIGITS = 20_000
MAX_BRACKET_EXPONENT = 50
"""Greatest exponent of a bracket, which is multiplied out."""
MAX_TERMS = 500
"""Most terms of a power of a sum, multiplied out."""
MAX_FACTORIAL_DIGITS = 4

_LONG_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_VARIABLES = re.compile(r"(?<![a-zA-Z\\])[a-df-hj-zA-Z](?![a-zA-Z])")
"""Single letters that are no constants (e, i)."""
_EXPONENT = re.compile(r"\^\s?")
_NUMERIC = re.compile(r"(?:\\frac|\\cdot|\\sqrt|[\d\s.,+\-*/^!(){}])*\Z")
_NESTED_FUNCTIONS = re.compile(r"(?:\\(?:arc)?(?:sin|cos|tan|cot|sec|csc|exp|ln|log)h?[\s({]*){3}")
"""Three functions inside each other are evaluated digit by digit, for whether they are rational."""
_OPERAND = re.compile(r"-?\d+(?:\^.*)?|\\?[a-zA-Z]+|.")


def is_small(text: str) -> bool:
    """True where computer algebra can be expected to finish with an expression at once.

    >>> is_small("x^2 + 2^{10}"), is_small("9^{9^{9}}"), is_small("(10^9)!"), is_small("(a+b+c+d)^{50}")
    (True, False, False, False)
    """
    if len(text) > MAX_CHARS or _LONG_DIGITS.search(text) or _depth(text) > MAX_DEPTH:
        return False
    product = 1
    for match in _EXPONENT.finditer(text):
        exponent = _operand(text, match.end())
        if not _NUMERIC.match(exponent):
            continue
        if "^" in exponent or "!" in exponent:
            return False
        before = text[: match.start()]
        size = 10 ** min(9, max(0, len(re.sub(r"\D", "", exponent)) - 5)) * int(re.sub(r"\D", "", exponent)[:5] or 0)
        if not re.search(r"[a-zA-Z]\s?\Z", before):
            product *= max(1, size)
        base = re.search(r"\d+\s?\Z", before)
        if base and len(base[0]) * size > MAX_POWER_DIGITS:
            return False
        if max(product, size) > MAX_EXPONENT:
            return False
        is_bracket = re.search(r"[)}]\s?\Z", before) is not None
        if is_bracket and not _is_small_power(before, max(product, size) if _VARIABLES.search(before) else size):
            return False
    return not _NESTED_FUNCTIONS.search(text) and _has_small_factorials(text)


def _is_small_power(base: str, exponent: int) -> bool:
    """A power of a bracket: few terms when it is multiplied out."""
    if exponent > MAX_BRACKET_EXPONENT:
        return False
    num_variables = len(set(_VARIABLES.findall(base)))
    return math.comb(exponent + num_variables, num_variables) <= MAX_TERMS


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
            depth += OPENING.get(text[place], 0)
            if depth == 0:
                return text[start : place + 1]
        return text[start:]
    match = _OPERAND.match(text, start)
    return match[0] if match else ""


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += OPENING.get(char, 0)
        deepest = max(deepest, depth)
    return deepest
