"""Values on their way between the process of an answer and that of the tests: plain data by value, the rest by number.

What arrives is made of built-in types only, whatever the sender meant: no `__eq__` of an answer's compares anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

LARGE_INT = 1 << 60


def encoded(value: Any, hold: Callable[[Any], int]) -> Any:
    """A value as JSON: plain data and what is derived from it as plain data, anything else as a number.

    Args:
        hold: keeps an object and gives its number.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < LARGE_INT else ["int", format(value, "x")]
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        return ["dict", [[encoded(key, hold), encoded(item, hold)] for key, item in value.items()]]
    for name, kind in _KINDS.items():
        if isinstance(value, kind):
            return [name, [encoded(item, hold) for item in value]]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", value.hex()]
    if isinstance(value, complex):
        return ["complex", [value.real, value.imag]]
    if isinstance(value, (Decimal, Fraction)):
        return [type(value).__name__, str(value)]
    return ["held", hold(value)]


def decoded(sent: Any, held: Callable[[int], Any]) -> Any:
    """The value that was sent.

    Args:
        held: the object of a number.
    """
    if not isinstance(sent, list):
        return sent
    name, content = sent
    if name in _KINDS:
        return _KINDS[name](decoded(item, held) for item in content)
    if name == "dict":
        return {decoded(key, held): decoded(item, held) for key, item in content}
    return held(content) if name == "held" else _READERS[name](content)


_KINDS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "bytes": bytes.fromhex,
    "complex": lambda parts: complex(*parts),
    "Decimal": Decimal,
    "Fraction": Fraction,
}
