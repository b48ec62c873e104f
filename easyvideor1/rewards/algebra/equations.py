"""Equations: the value of a name, or two sides that may be multiplied through."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from easyvideor1.rewards.algebra.evaluate import is_multiple
from easyvideor1.rewards.algebra.expression import Node, NoExpressionError, Op, parse, variables
from easyvideor1.rewards.algebra.rows import assigned
from easyvideor1.rewards.algebra.single import Single, read_single, same_single

ORDER = {"<": "<", "\u2264": "<=", ">": ">", "\u2265": ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides and the sign between them."""

    sign: str
    """=, <, <=, > or >=."""
    difference: Node | None
    """Left side minus right side; None where a side holds a unit."""
    name: str = ""
    """What the left side names, where it is one name; "" else."""
    value: Single | None = None
    """The right side then."""


@functools.lru_cache(maxsize=512)
def read_equation(text: str) -> Equation | None:
    """The equation or inequality of two sides that a text is; None for anything else.

    >>> equation = read_equation("y = 3x - 1")
    >>> equation.name if equation else None, read_equation("3x - 1"), read_equation("1 < x < 2")
    ('y', None, None)
    """
    signs = [char for char in text if char in "=<>\u2264\u2265"]
    if len(signs) != 1 or "\u2260" in text:
        return None
    left, right = (side.strip() for side in text.split(signs[0]))
    name, value = assigned(text) if signs[0] == "=" else ("", "")
    single = read_single(value) if value and name else None
    try:
        difference = Op("+", (parse(left), Op("-", (parse(right),))))
    except NoExpressionError:
        difference = None
    if difference is None and single is None:
        return None
    return Equation(ORDER.get(signs[0], "="), difference, name if single else "", single)


def same_equation(answer: Equation, gold: Equation) -> bool:
    """True where two equations have the same solutions because one is a multiple of the other.

    Values by name want the same name; for inequalities the multiple is positive, or the sign is turned.
    """
    if answer.name and gold.name and answer.value and gold.value:
        if answer.name == gold.name:
            return same_single(answer.value, gold.value)
        if not (variables(answer.value.node) or variables(gold.value.node)):
            return False
    if answer.difference is None or gold.difference is None or (answer.sign == "=") != (gold.sign == "="):
        return False
    factor = is_multiple(answer.difference, gold.difference)
    if factor is None:
        return False
    if gold.sign == "=":
        return True
    return answer.sign == (gold.sign if factor > 0 else _TURNED[gold.sign])
