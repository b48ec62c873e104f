"""Do two expressions have the same value: exact fractions first, then modulo a prime, then many digits.

Nothing is expanded or simplified, so an expression costs about what it takes to write it, whatever its powers are:

- Without variables and roots both sides are fractions, and are compared as such.
- Sums, products, quotients and whole powers are rational functions (of pi and e too, as if they were variables). They
  are evaluated modulo a prime at random points: where the values differ the functions do, where they agree the
  functions are the same but for a chance of about degree / 2^61 (Schwartz 1980).
- Everything else is evaluated to more than 50 digits at several points, with a bound of the error carried along.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction

from easyvideor1.rewards.algebra.digits import TooLargeError, UndefinedError, agree, approximate
from easyvideor1.rewards.algebra.expression import Node, Num, Op, Var, is_polynomial, variables, whole

MAX_BITS = 200_000
"""The longest exact number, in bits."""
MAX_FACTORIAL = 9_999
PRIME = 2**61 - 31
"""The prime of modular evaluation. It has the form 4k + 1, so that -1 has a square root, which stands for i."""
_ROUNDED_DIGITS = 6
_ROUNDING = Fraction(1, 10**6)
"""Relative: 0.333333 answers 1/3, 0.333 does not."""


class InexactError(ValueError):
    """The value is no fraction, or one too long to write down."""


def same_value(answer: Node, gold: Node) -> bool:
    """True where two expressions agree for all values of their variables; what cannot be evaluated agrees with nothing.

    >>> from easyvideor1.rewards.algebra.expression import parse
    >>> same_value(parse("(x+1)^2"), parse("x^2+2x+1")), same_value(parse("1/20!"), parse("1/19!"))
    (True, False)
    """
    if answer == gold:
        return True
    try:
        return _same_value(answer, gold)
    except (TooLargeError, UndefinedError):
        return False


def _same_value(answer: Node, gold: Node) -> bool:
    names = variables(answer) | variables(gold)
    if not names:
        try:
            value, gold_value = exact(answer), exact(gold)
        except InexactError:
            pass
        else:
            return value == gold_value or _is_rounded(answer, value, gold, gold_value)
    if not names and max(_digits(answer), _digits(gold)) >= _ROUNDED_DIGITS:
        return agree(answer, gold, tolerance=_ROUNDING)
    if is_polynomial(answer) and is_polynomial(gold):
        return agree_modulo(answer, gold)
    return agree(answer, gold)


def _unsigned(node: Node) -> Node:
    return node.args[0] if isinstance(node, Op) and node.name == "-" else node


def _is_rounded(answer: Node, value: Fraction, gold: Node, gold_value: Fraction) -> bool:
    """True where one is a decimal of six digits or more and the other a fraction that no decimal could be."""
    for decimal, fraction in ((answer, gold_value), (gold, value)):
        if _digits(decimal) >= _ROUNDED_DIGITS and not _terminates(fraction):
            return abs(value - gold_value) <= _ROUNDING * max(abs(value), abs(gold_value))
    return False


def _digits(node: Node) -> int:
    """Digits of a written decimal, zeros in front not counted; 0 for anything else."""
    number = _unsigned(node)
    if not isinstance(number, Num) or not number.decimals:
        return 0
    return len(str(abs(number.value.numerator * (10**number.decimals // number.value.denominator))))


def _terminates(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


@functools.lru_cache(maxsize=512)
def exact(node: Node) -> Fraction:
    """The fraction that an expression without variables is.

    Raises:
        InexactError: it is irrational, or has more than MAX_BITS.
        UndefinedError: it divides by zero.
    """
    if isinstance(node, Num):
        return node.value
    if isinstance(node, Var):
        raise InexactError(node.name)
    if node.name not in _EXACT:
        raise InexactError(node.name)
    values = [exact(argument) for argument in node.args]
    return _checked(_EXACT[node.name](*values))


def _checked(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise InexactError("too long")
    return value


def _sum(*values: Fraction) -> Fraction:
    return sum(values, Fraction(0))


def _product(*values: Fraction) -> Fraction:
    return functools.reduce(lambda left, right: _checked(left * right), values)


def _quotient(top: Fraction, bottom: Fraction) -> Fraction:
    if not bottom:
        raise UndefinedError("division by zero")
    return top / bottom


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        return _root(_power(base, Fraction(exponent.numerator)), Fraction(exponent.denominator))
    if not base and exponent <= 0:
        raise UndefinedError("zero to the power of zero or less")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and base and bits * abs(exponent) > MAX_BITS:
        raise InexactError("too long")
    if abs(base) == 1:
        return base if exponent.numerator % 2 else abs(base)
    return base**exponent.numerator


def _root(value: Fraction, index: Fraction = Fraction(2)) -> Fraction:
    if index.denominator != 1 or not 2 <= index <= 64 or (value < 0 and index % 2 == 0):
        raise InexactError("a root")
    degree = index.numerator
    roots = [_whole_root(abs(part), degree) for part in (value.numerator, value.denominator)]
    return Fraction(*roots) if value >= 0 else -Fraction(*roots)


def _whole_root(value: int, degree: int) -> int:
    if value.bit_length() > 4096:
        raise InexactError("a root of a long number")
    root = math.isqrt(value) if degree == 2 else _nearest_root(value, degree)
    if root**degree != value:
        raise InexactError("a root that is no fraction")
    return root


def _nearest_root(value: int, degree: int) -> int:
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def _factorial(value: Fraction) -> Fraction:
    if value.denominator != 1 or value < 0:
        raise InexactError("a factorial of no whole number")
    if value > MAX_FACTORIAL:
        raise TooLargeError("a long factorial")
    return Fraction(math.factorial(value.numerator))


def _binomial(top: Fraction, bottom: Fraction) -> Fraction:
    if top.denominator != 1 or bottom.denominator != 1 or not 0 <= bottom <= top:
        raise InexactError("a binomial of no whole numbers")
    if top > MAX_FACTORIAL:
        raise TooLargeError("a long binomial")
    return Fraction(math.comb(top.numerator, bottom.numerator))


_EXACT = {
    "+": _sum, "*": _product, "-": lambda value: -value, "/": _quotient, "^": _power, "!": _factorial,
    "sqrt": _root, "root": _root, "cbrt": lambda value: _root(value, Fraction(3)), "abs": abs, "binom": _binomial,
    "floor": lambda value: Fraction(math.floor(value)), "ceil": lambda value: Fraction(math.ceil(value)),
}  # fmt: skip

_POINTS = 3
_I = next(
    root for root in (pow(base, (PRIME - 1) // 4, PRIME) for base in range(2, 50)) if root * root % PRIME == PRIME - 1
)


def agree_modulo(answer: Node, gold: Node) -> bool:
    """True where two rational functions take the same values modulo PRIME at random points."""
    names = sorted(variables(answer) | variables(gold))
    agreed = 0
    for trial in range(3 * _POINTS):
        point = _point(names, trial)
        try:
            value, gold_value = modulo(answer, point), modulo(gold, point)
        except ZeroDivisionError:
            continue  # a pole, met by chance or everywhere
        if value != gold_value:
            return False
        agreed += 1
        if agreed == _POINTS or not names:
            return True
    raise UndefinedError("division by zero")


def _point(names: list[str], trial: int) -> dict[str, int]:
    point = {name: _residue(name, trial) for name in (*names, "pi", "e")}
    return point | {"i": _I}


@functools.lru_cache(maxsize=512)
def _residue(name: str, trial: int) -> int:
    """A number that looks random, the same in every process."""
    return int.from_bytes(hashlib.blake2b(f"{name}:{trial}".encode(), digest_size=8).digest(), "big") % PRIME


def modulo(node: Node, point: Mapping[str, int]) -> int:
    """The value of a rational function at a point, modulo PRIME; ZeroDivisionError at a pole."""
    if isinstance(node, Num):
        return node.value.numerator * _inverse(node.value.denominator) % PRIME
    if isinstance(node, Var):
        return point[node.name]
    if node.name == "^":
        base, exponent = modulo(node.args[0], point), whole(node.args[1])
        assert exponent is not None, node
        return pow(base if exponent >= 0 else _inverse(base), abs(exponent), PRIME)
    values = [modulo(argument, point) for argument in node.args]
    if node.name == "+":
        return sum(values) % PRIME
    if node.name == "-":
        return -values[0] % PRIME
    if node.name == "/":
        return values[0] * _inverse(values[1]) % PRIME
    return functools.reduce(lambda left, right: left * right % PRIME, values)


def _inverse(value: int) -> int:
    if value == 1:
        return 1
    if value % PRIME == 0:
        raise ZeroDivisionError
    return pow(value, -1, PRIME)


def has_value(node: Node) -> bool:
    """True where an expression can be evaluated: it is not too large, and not undefined everywhere."""
    try:
        if not variables(node):
            try:
                exact(node)
            except InexactError:
                pass
            else:
                return True
        if is_polynomial(node) and variables(node):
            return agree_modulo(node, node)
        return agree(node, node)
    except (TooLargeError, UndefinedError):
        return False


def is_multiple(node: Node, other: Node) -> float | None:
    """The constant that `other` is multiplied by to be `node`, about; None where there is none, or it is 0.

    >>> from easyvideor1.rewards.algebra.expression import parse
    >>> is_multiple(parse("2x-4y"), parse("x-2y")), is_multiple(parse("2x-4"), parse("x-2y"))
    (2.0, None)
    """
    names = sorted(variables(node) | variables(other))
    factor: Node | None = None
    try:
        for at in (Fraction(13, 7), Fraction(31, 11), Fraction(-17, 5)):
            point = {name: at + Fraction(index * 19, 23) for index, name in enumerate(names)}
            bottom = substituted(other, point)
            if not approximate(bottom):
                continue
            factor = Op("/", (substituted(node, point), bottom))
            break
        if factor is None or not approximate(factor):
            return None
        is_same = same_value(node, Op("*", (factor, other)))
        return approximate(factor) if is_same else None
    except (TooLargeError, UndefinedError):
        return None


def substituted(node: Node, point: Mapping[str, Fraction]) -> Node:
    """The tree with numbers in the places of variables."""
    if isinstance(node, Var):
        return Num(point[node.name]) if node.name in point else node
    if isinstance(node, Op):
        return Op(node.name, tuple(substituted(argument, point) for argument in node.args))
    return node
