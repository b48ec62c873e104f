"""Text of an expression -> a tree of numbers, variables and operations; nothing is evaluated or simplified here."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

from easyvideor1.rewards.algebra.names import FUNCTIONS, GREEK, WORDS

MAX_CHARS = 1000
MAX_DEPTH = 40
MAX_DIGITS = 100


class NoExpressionError(ValueError):
    """The text is no expression that this grammar knows."""


@dataclass(frozen=True, slots=True)
class Num:
    """A number as it was written."""

    value: Fraction
    decimals: int = 0
    """Digits behind the decimal point; 0 for whole numbers."""


@dataclass(frozen=True, slots=True)
class Var:
    """A variable, or a constant such as \\pi, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operation: + * - (negative) / ^, or a function by its name."""

    name: str
    args: tuple[Node, ...]


Node = Num | Var | Op

_SAME = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_SAME |= {f"{short}{name}": f"arc{name}" for name in ("sinh", "cosh", "tanh") for short in ("a", "ar")}
_INVERSE = {name: f"arc{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")}
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+")
_POWER_OF_TEN = re.compile(r"[eE]([+-]?\d{1,4})(?![\d.])")
_MIXED = re.compile(r" (\d{1,6}) ?/ ?(\d{1,6})(?![\d.])")
_LETTERS = re.compile(r"[A-Za-z]+")
_MACRO = re.compile(r"\\([A-Za-z]+)")
_TEXT = re.compile(r"\\text\s?\{([^{}]*)\}")
_SUBSCRIPT = re.compile(r"\s?_\s?(?:\{([^{}]{1,20})\}|(\w))")
_GREEK_SIGNS = re.compile("[\u03b1-\u03c9\u0391-\u03a9]")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Node:
    """The tree of an expression in the spelling of `latex.read_expression`; raises NoExpressionError.

    Two letters beside each other are a product, a number before a fraction of digits is a mixed number, and a function
    without brackets takes the product that follows it.
    """
    if len(text) > MAX_CHARS:
        raise NoExpressionError("too long")
    parser = _Parser(text)
    node = parser.sum_()
    parser.space()
    if parser.place != len(text):
        raise NoExpressionError(f"unexpected {text[parser.place : parser.place + 10]!r}")
    return node


class _Parser:
    """Recursive descent over the characters; each method reads what it is named for and moves on."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self._depth, self._open_bars = text, 0, 0, 0

    def space(self) -> None:
        match = _SPACE.match(self.text, self.place)
        assert match is not None
        self.place = match.end()

    def peek(self) -> str:
        self.space()
        return self.text[self.place : self.place + 1]

    def take(self, char: str) -> bool:
        if self.peek() == char:
            self.place += 1
            return True
        return False

    def need(self, char: str) -> None:
        if not self.take(char):
            raise NoExpressionError(f"{char!r} is missing")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.place)
        if match:
            self.place = match.end()
        return match

    def sum_(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NoExpressionError("nested too deep")
        terms = [self.product()]
        while self.peek() in ("+", "-") and self.peek():
            is_minus = self.text[self.place] == "-"
            self.place += 1
            term = self.product()
            terms.append(Op("-", (term,)) if is_minus else term)
        self._depth -= 1
        return terms[0] if len(terms) == 1 else Op("+", tuple(terms))

    def product(self) -> Node:
        node = self.signed()
        while True:
            char = self.peek()
            if char == "*":
                self.place += 1
                node = _times(node, self.signed())
            elif char == "/":
                self.place += 1
                node = Op("/", (node, self.signed()))
            elif self._starts_factor(char):
                node = _times(node, self.power())
            else:
                return node

    def _starts_factor(self, char: str) -> bool:
        """True where another factor follows without a sign; a number does not follow anything like that."""
        if char == "|":
            return self._open_bars == 0
        if not char or char in "+-*/^_!,;:=<>)]}'%.\u2264\u2265\u2260\u00b1":
            return False
        if char.isdigit():
            return self.text[self.place - 1] == "!"  # 2!3!
        return not (char == "\\" and self.text.startswith((r"\}", r"\\", r"\rfloor", r"\rceil"), self.place))

    def signed(self) -> Node:
        if self.take("-"):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise NoExpressionError("nested too deep")
            node = Op("-", (self.signed(),))
            self._depth -= 1
            return node
        self.take("+")
        return self.power()

    def power(self) -> Node:
        base = self.postfix()
        if not self.take("^"):
            return base
        exponent = self.exponent()
        return Op("^", (base, exponent))

    def exponent(self) -> Node:
        char = self.peek()
        if char == "-":
            self.place += 1
            return Op("-", (self.exponent(),))
        node = self.group("{") if char == "{" else self.postfix()
        if self.peek() == "^":  # 2^3^4 is 2^(3^4)
            self.place += 1
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise NoExpressionError("nested too deep")
            node = Op("^", (node, self.exponent()))
            self._depth -= 1
        return node

    def postfix(self) -> Node:
        node = self.atom()
        while self.peek() in ("!", "%") and self.peek():
            mark = self.text[self.place]
            self.place += 1
            node = Op("!", (node,)) if mark == "!" else Op("/", (node, Num(Fraction(100))))
        degree = _TEXT.match(self.text, self.place)
        if degree and degree[1].strip() == "degree":
            self.place = degree.end()
            node = Op("/", (_times(node, Var("pi")), Num(Fraction(180))))
        return node

    def atom(self) -> Node:
        char = self.peek()
        if char.isdigit() or char == ".":
            return self.number()
        if char in ("(", "[", "{") and char:
            return self.group(char)
        if char == "|":
            self.place += 1
            self._open_bars += 1
            inner = self.sum_()
            self.need("|")
            self._open_bars -= 1
            return Op("abs", (inner,))
        if char == "\\":
            return self.macro()
        if char.isascii() and char.isalpha():
            return self.letters()
        sign = self.match(_GREEK_SIGNS)
        if sign:
            return self.named(sign[0])
        raise NoExpressionError(f"unexpected {char!r}")

    def group(self, opening: str) -> Node:
        self.need(opening)
        node = self.sum_()
        self.need(_CLOSING[opening])
        return node

    def number(self) -> Node:
        match = self.match(_NUMBER)
        if match is None or len(match[0]) > MAX_DIGITS:
            raise NoExpressionError("a number")
        digits = match[0].replace(",", "")
        whole, _, decimals = digits.partition(".")
        value = Fraction(int(whole + decimals), 10 ** len(decimals)) if decimals else Fraction(int(whole))
        power = self.match(_POWER_OF_TEN)
        if power:
            return Num(value * Fraction(10) ** int(power[1]), len(decimals))
        mixed = self.match(_MIXED) if not decimals else None
        if mixed and int(mixed[2]):
            return Num(value + Fraction(int(mixed[1]), int(mixed[2])))
        if not decimals and self.text.startswith(r"\frac", self.place):
            return self._mixed(value)
        return Num(value, len(decimals))

    def _mixed(self, whole: Fraction) -> Node:
        """A whole number before a fraction: 2\\frac{1}{4} is 2.25 where both parts are digits, else a product."""
        fraction = self.macro()
        parts = fraction.args if isinstance(fraction, Op) and fraction.name == "/" else ()
        if all(isinstance(part, Num) and not part.decimals for part in parts) and self.peek() != "^":
            return Op("+", (Num(whole), fraction))
        node: Node = fraction
        if self.take("^"):
            node = Op("^", (fraction, self.exponent()))
        return _times(Num(whole), node)

    def letters(self) -> Node:
        match = _LETTERS.match(self.text, self.place)
        assert match is not None
        run = match[0]
        if run == "pi":
            self.place = match.end()
            return Var("pi")
        if run in FUNCTIONS:
            self.place = match.end()
            return self.function(_SAME.get(run, run))
        if run in WORDS or len(run) > 3:
            name = next(
                (name for name in ("sin", "cos", "tan", "log", "ln", "exp", "sqrt", "pi") if run.endswith(name)), ""
            )
            if not name or len(run) - len(name) > 2:
                raise NoExpressionError(f"the word {run!r}")
        self.place += 1
        return self.named(run[0])

    def named(self, name: str) -> Node:
        subscript = self.match(_SUBSCRIPT)
        if subscript:
            name += "_" + (subscript[1] or subscript[2]).strip()
        while self.text.startswith("'", self.place):
            self.place += 1
            name += "'"
        return Var(name)

    def macro(self) -> Node:
        match = self.match(_MACRO)
        if match is None:
            raise NoExpressionError("a backslash")
        name = match[1]
        if name == "frac":
            return Op("/", (self.argument(), self.argument()))
        if name in ("binom", "dbinom", "tbinom"):
            return Op("binom", (self.argument(), self.argument()))
        if name in ("lfloor", "lceil"):
            inner = self.sum_()
            self.space()
            closing = self.match(_MACRO)
            if closing is None or closing[1] != ("rfloor" if name == "lfloor" else "rceil"):
                raise NoExpressionError("a rounding bracket is missing")
            return Op(name[1:], (inner,))
        if name in FUNCTIONS:
            return self.function(name)
        if name in GREEK:
            return self.named(name)
        raise NoExpressionError(f"the macro \\{name}")

    def argument(self) -> Node:
        """What a macro takes: a group, or the next character."""
        char = self.peek()
        if char == "{":
            return self.group("{")
        if char.isdigit():
            self.place += 1
            return Num(Fraction(int(char)))
        if char.isascii() and char.isalpha():
            self.place += 1
            return Var(char)
        return self.macro()

    def function(self, name: str) -> Node:
        if name == "sqrt":
            return self.root()
        if name in ("max", "min"):
            raise NoExpressionError(name)
        base = self.match(_SUBSCRIPT) if name == "log" else None
        power = self.exponent() if self.take("^") else None
        if name == "log" and base is None:
            base = self.match(_SUBSCRIPT)
        argument = self.function_argument()
        if power == Op("-", (Num(Fraction(1)),)) and name in _INVERSE:
            return Op(_INVERSE[name], (argument,))
        node = (
            Op("log", (argument, parse((base[1] or base[2]).strip())))
            if base
            else Op("ln" if name == "log" else name, (argument,))
        )
        return Op("^", (node, power)) if power else node

    def function_argument(self) -> Node:
        char = self.peek()
        if char in ("(", "{", "[") and char:
            return self.group(char)
        if char == "-":
            self.place += 1
            return Op("-", (self.function_argument(),))
        node = self.power()
        while self._starts_factor(self.peek()) and not self._starts_function():
            node = _times(node, self.power())
        return node

    def _starts_function(self) -> bool:
        match = _MACRO.match(self.text, self.place) or _LETTERS.match(self.text, self.place)
        return match is not None and match[0].removeprefix("\\") in FUNCTIONS

    def root(self) -> Node:
        index: Node | None = None
        if self.peek() == "[":
            index = self.group("[")
        char = self.peek()
        if char in ("{", "(") and char:
            radicand = self.group(char)
        elif char.isdigit():
            radicand = self.number()
        else:
            radicand = self.argument()
        return Op("root", (radicand, index)) if index else Op("sqrt", (radicand,))


def _times(left: Node, right: Node) -> Node:
    return Op("*", (*left.args, right) if isinstance(left, Op) and left.name == "*" else (left, right))


@functools.lru_cache(maxsize=1024)
def variables(node: Node) -> frozenset[str]:
    """The names in a tree that are no constants (pi, e, i)."""
    if isinstance(node, Var):
        return frozenset() if node.name in ("pi", "e", "i") else frozenset({node.name})
    if isinstance(node, Op):
        return frozenset().union(*map(variables, node.args))
    return frozenset()


def has_function(node: Node) -> bool:
    """True where a sine, a logarithm or the like stands in a tree."""
    return isinstance(node, Op) and (node.name in FUNCTIONS - {"sqrt", "abs"} or any(map(has_function, node.args)))


def is_polynomial(node: Node) -> bool:
    """True for a tree of numbers, names, sums, products, quotients and whole powers alone."""
    if isinstance(node, (Num, Var)):
        return True
    if node.name == "^":
        base, exponent = node.args
        return is_polynomial(base) and whole(exponent) is not None
    return node.name in ("+", "*", "-", "/") and all(map(is_polynomial, node.args))


def whole(node: Node) -> int | None:
    """The whole number a tree stands for where it is written as one, with or without a sign; None else."""
    if isinstance(node, Op) and node.name == "-":
        value = whole(node.args[0])
        return None if value is None else -value
    if isinstance(node, Num) and node.value.denominator == 1:
        return node.value.numerator
    return None
