"""Expressions evaluated to many digits (mpmath), each value with a bound of its error, and compared by both."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from easyvideor1.rewards.algebra.expression import Node, Num, Op, Var, variables, whole

PRECISION_BITS = 200
"""Precision of every value in bits, beyond what the constants of an expression need."""
SHARED_BITS = 120
"""What two values must have in common at least to be taken for the same."""
MAX_MAGNITUDE_BITS = 1_000_000
MAX_CONSTANT_BITS = 4_000
_ZERO_BITS = -(10**9)
_TRIALS = 12
_BRANCHED = frozenset(["abs", "sqrt", "root", "cbrt", "ln", "log", "!", "floor", "ceil", "binom"])
"""Operations that two expressions may agree on for some signs of their variables and not for others."""


class UndefinedError(ValueError):
    """The expression has no value at a point."""


class TooLargeError(ValueError):
    """The value is too large to be worked with."""


class _Value:
    """A number and the binary exponent of a bound of its error."""

    __slots__ = ("error", "number")

    def __init__(self, number: Any, error: int) -> None:
        self.number, self.error = number, error


_LOCAL = threading.local()


def _context(precision: int) -> Any:
    """mpmath's arithmetic, one per thread because it holds the precision."""
    if not hasattr(_LOCAL, "context"):
        import mpmath  # imported late: it takes a tenth of a second

        _LOCAL.context = mpmath.MPContext()
    _LOCAL.context.prec = precision
    return _LOCAL.context


def agree(answer: Node, gold: Node, *, tolerance: Fraction | None = None) -> bool:
    """True where two expressions have the same value at several points, as far as more than 30 digits can tell.

    Points where one of the two is not real count only where neither is real anywhere, as for complex numbers.

    Args:
        tolerance: relative difference that is allowed; None: none beyond the error of the arithmetic.

    Raises:
        UndefinedError: there is no point where both have a value.
        TooLargeError: a value on the way is too large.
    """
    names = sorted(variables(answer) | variables(gold))
    precision = PRECISION_BITS + 2 * max(_constant_bits(answer), _constant_bits(gold))
    context = _context(precision)
    num_points = 4 if _has_branches(answer) or _has_branches(gold) else 2
    num_real, complex_verdicts = 0, []
    for point in _points(names):
        try:
            value, gold_value = _evaluate(answer, point, context), _evaluate(gold, point, context)
        except UndefinedError:
            continue
        verdict = _is_same(value, gold_value, context, tolerance)
        if _is_real(value, context) and _is_real(gold_value, context):
            if not verdict:
                return False
            num_real += 1
        else:
            complex_verdicts.append(verdict)
        if num_real == num_points or not names:
            break
    if num_real:
        return num_real > 1 or not names
    if not complex_verdicts:
        raise UndefinedError("no value anywhere")
    return all(complex_verdicts)


def approximate(node: Node, point: Mapping[str, Fraction] | None = None) -> float:
    """The real value of an expression as a float, infinities included; UndefinedError where it is not real."""
    context = _context(PRECISION_BITS)
    value = _evaluate(node, point or {}, context)
    if not _is_real(value, context):
        raise UndefinedError("not real")
    number = getattr(value.number, "real", value.number)
    return float(number)


def _points(names: list[str]) -> Iterator[dict[str, Fraction]]:
    """Points with values of both signs and several sizes, the same in every process; one point without variables."""
    if not names:
        yield {}
        return
    for trial in range(_TRIALS):
        low, high = _RANGES[trial % len(_RANGES)]
        yield {name: low + (high - low) * _fraction(name, trial) for name in names}


_RANGES = tuple(
    (Fraction(low), Fraction(high))
    for low, high in ((1, 2), (-2, -1), ("1/10", "9/10"), (2, 5), ("-9/10", "-1/10"), (5, 20), (-20, -5), (20, 300))
)


@functools.lru_cache(maxsize=512)
def _fraction(name: str, trial: int) -> Fraction:
    digest = hashlib.blake2b(f"{name};{trial}".encode(), digest_size=4).digest()
    return Fraction(int.from_bytes(digest, "big"), 2**32)


@functools.lru_cache(maxsize=1024)
def _has_branches(node: Node) -> bool:
    if not isinstance(node, Op):
        return False
    is_root = node.name == "^" and not isinstance(node.args[1], Var) and whole(node.args[1]) is None
    return is_root or node.name in _BRANCHED or any(map(_has_branches, node.args))


def _constant_bits(node: Node) -> int:
    """How far the numbers in a tree are from 1, in bits: 1/2^{300} needs 300 more than 1/2."""
    if isinstance(node, Num):
        size = max(node.value.numerator.bit_length(), node.value.denominator.bit_length())
    elif isinstance(node, Var):
        return 0
    else:
        size = max(map(_constant_bits, node.args))
        if node.name == "^" and isinstance(node.args[1], (Num, Op)):
            size *= 1 + min(_whole_size(node.args[1]), MAX_CONSTANT_BITS)
        elif node.name == "!":
            size = 16 * 2**size if size < 14 else MAX_CONSTANT_BITS
    return min(size, MAX_CONSTANT_BITS)


def _whole_size(node: Node) -> int:
    """The largest number in an exponent."""
    if isinstance(node, Num):
        return abs(node.value.numerator) // node.value.denominator
    return max(map(_whole_size, node.args), default=0) if isinstance(node, Op) else 1


def _is_same(value: _Value, gold: _Value, context: Any, tolerance: Fraction | None) -> bool:
    difference = _magnitude(context, value.number - gold.number)
    larger = max(_magnitude(context, value.number), _magnitude(context, gold.number))
    if tolerance is not None:
        return abs(value.number - gold.number) <= abs(gold.number) * tolerance.numerator / tolerance.denominator
    error = max(value.error, gold.error) + 4
    if difference > error:
        return False
    # Too few digits in common: the arithmetic has lost what it would take to tell.
    return error < larger - SHARED_BITS or (larger <= error and error < -SHARED_BITS // 2)


def _is_real(value: _Value, context: Any) -> bool:
    imaginary = getattr(value.number, "imag", 0)
    return not imaginary or _magnitude(context, imaginary) <= value.error + 4


def _magnitude(context: Any, number: Any) -> int:
    """Binary exponent of a number."""
    if not number:
        return _ZERO_BITS
    magnitude = context.mag(number)
    if not isinstance(magnitude, int):
        raise UndefinedError("infinite")
    return magnitude


def _evaluate(node: Node, point: Mapping[str, Fraction], context: Any) -> _Value:
    if isinstance(node, Num):
        return _from_fraction(node.value, context)
    if isinstance(node, Var):
        return _named(node.name, point, context)
    values = [_evaluate(argument, point, context) for argument in node.args]
    value = _apply(node.name, values, context)
    if not abs(_magnitude(context, value.number)) < MAX_MAGNITUDE_BITS and value.number:
        raise TooLargeError(node.name)
    return value


def _from_fraction(value: Fraction, context: Any) -> _Value:
    number = context.mpf(value.numerator) / value.denominator
    return _Value(number, _magnitude(context, number) - context.prec + 2)


def _named(name: str, point: Mapping[str, Fraction], context: Any) -> _Value:
    if name == "i":
        return _Value(context.mpc(0, 1), _ZERO_BITS)
    if name in ("pi", "e"):
        number = +getattr(context, name)
        return _Value(number, 3 - context.prec)
    return _from_fraction(point[name], context)


def _apply(name: str, values: list[_Value], context: Any) -> _Value:
    if name == "+":
        return functools.reduce(lambda left, right: _add(left, right, context), values)
    if name == "*":
        return functools.reduce(lambda left, right: _multiply(left, right, context), values)
    if name == "-":
        return _Value(-values[0].number, values[0].error)
    if name == "/":
        return _divide(values[0], values[1], context)
    if name == "^":
        return _raise(values[0], values[1], context)
    if name == "root":
        return _root(values[0], values[1], context)
    if name == "cbrt":
        return _root(values[0], _from_fraction(Fraction(3), context), context)
    if name == "log":
        return _divide(_apply("ln", [values[0]], context), _apply("ln", [values[1]], context), context)
    if name == "binom":
        return _binomial(values[0], values[1], context)
    return _function(name, values[0], context)


def _add(left: _Value, right: _Value, context: Any) -> _Value:
    number = left.number + right.number
    return _Value(number, max(left.error, right.error, _magnitude(context, number) - context.prec) + 2)


def _multiply(left: _Value, right: _Value, context: Any) -> _Value:
    number = left.number * right.number
    sizes = _magnitude(context, left.number), _magnitude(context, right.number)
    error = max(sizes[0] + right.error, sizes[1] + left.error, left.error + right.error)
    return _Value(number, max(error, _magnitude(context, number) - context.prec) + 3)


def _divide(top: _Value, bottom: _Value, context: Any) -> _Value:
    size = _magnitude(context, bottom.number)
    if not bottom.number or size <= bottom.error + 2:
        raise UndefinedError("division by zero")
    number = top.number / bottom.number
    result = _magnitude(context, number)
    return _Value(number, max(top.error - size, result + bottom.error - size, result - context.prec) + 4)


def _raise(base: _Value, exponent: _Value, context: Any) -> _Value:
    size, power_size = _magnitude(context, base.number), _magnitude(context, exponent.number)
    if not base.number or size <= base.error + 2:
        if _magnitude(context, exponent.number) > exponent.error and context.re(exponent.number) > 0:
            return _Value(context.mpf(0), base.error + 2)
        raise UndefinedError("zero to the power of zero or less")
    if power_size > 24 and size not in (0, 1):
        raise TooLargeError("a power")
    if power_size > 0 and abs(size) * 2 ** min(power_size, 40) > 4 * MAX_MAGNITUDE_BITS:
        raise TooLargeError("a power")
    number = context.power(base.number, exponent.number)
    # The relative error is that of exponent * log(base).
    log_size = max(1, abs(size)).bit_length() + 1
    relative = max(
        base.error - size + max(power_size, 0), exponent.error + log_size, max(power_size, 0) + log_size - context.prec
    )
    return _Value(number, _magnitude(context, number) + relative + 4)


def _root(value: _Value, index: _Value, context: Any) -> _Value:
    degree = int(context.nint(index.number)) if not getattr(index.number, "imag", 0) else 0
    if degree < 2 or degree > 10_000 or degree != index.number:
        return _raise(value, _divide(_from_fraction(Fraction(1), context), index, context), context)
    inverse = _from_fraction(Fraction(1, degree), context)
    if degree % 2 and _is_real(value, context) and context.re(value.number) < 0:
        positive = _raise(_Value(-value.number, value.error), inverse, context)
        return _Value(-positive.number, positive.error)  # the real root
    return _raise(value, inverse, context)


def _binomial(top: _Value, bottom: _Value, context: Any) -> _Value:
    if max(_magnitude(context, value.number) for value in (top, bottom)) > 14:
        raise TooLargeError("a binomial")
    number = context.binomial(top.number, bottom.number)
    return _Value(number, _magnitude(context, number) + max(top.error, bottom.error, -context.prec) + 20)


def _function(name: str, value: _Value, context: Any) -> _Value:
    number, size = value.number, _magnitude(context, value.number)
    if name in ("sin", "cos", "tan", "cot", "sec", "csc") and size > 4096:
        raise TooLargeError(name)
    if name in ("exp", "sinh", "cosh") and size > 20:
        raise TooLargeError(name)
    if name == "!" and size > 14:
        raise TooLargeError("a factorial")
    if name in _ROUNDERS:
        return _Value(_ROUNDERS[name](context, number), value.error if name == "abs" else _ZERO_BITS)
    try:
        result = _FUNCTIONS[name](context, number)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise UndefinedError(f"{name}: {error}") from None
    return _Value(result, _function_error(name, value, _magnitude(context, result), size, context))


def _function_error(name: str, value: _Value, result: int, size: int, context: Any) -> int:
    """Binary exponent of the error of a function: its slope times that of its argument, and its own rounding."""
    if name in ("sin", "cos", "arctan", "arcsinh", "tanh", "arccot"):
        slope = 0
    elif name in ("exp", "sinh", "cosh"):
        slope = max(result, 0) + 1
    elif name == "ln":
        slope = -size + 1
    elif name == "sqrt":
        if size <= value.error + 2:
            return value.error // 2 + 2
        slope = -result
    elif name == "!":
        slope = result + max(size, 0) + 4
    else:  # poles: tan and its kind, inverse functions at the ends of their range
        slope = 2 * max(result, 0) + 16
    return max(value.error + slope, result - context.prec) + 6


_ROUNDERS: dict[str, Callable[[Any, Any], Any]] = {
    "abs": lambda context, number: abs(number),
    "floor": lambda context, number: context.floor(number),
    "ceil": lambda context, number: context.ceil(number),
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sqrt": lambda context, number: context.sqrt(number),
    "exp": lambda context, number: context.exp(number),
    "ln": lambda context, number: context.ln(number),
    "!": lambda context, number: context.factorial(number),
    "arcsin": lambda context, number: context.asin(number),
    "arccos": lambda context, number: context.acos(number),
    "arctan": lambda context, number: context.atan(number),
    "arccot": lambda context, number: context.acot(number),
    "arcsec": lambda context, number: context.asec(number),
    "arccsc": lambda context, number: context.acsc(number),
    "arcsinh": lambda context, number: context.asinh(number),
    "arccosh": lambda context, number: context.acosh(number),
    "arctanh": lambda context, number: context.atanh(number),
} | {
    name: (lambda context, number, name=name: getattr(context, name)(number))
    for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth")
}
