"""Are two mathematical answers the same: each kind of gold has its own comparison.

The kinds are tried in order: words, a clock time or ratio, a value with or without a unit, a set of real numbers, a
matrix, several items (pairs, sets, lists, systems), an equation. What is none of these is for computer algebra.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from easyvideor1.rewards.algebra import ranges
from easyvideor1.rewards.algebra.equations import Equation, read_equation, same_equation
from easyvideor1.rewards.algebra.names import FUNCTIONS
from easyvideor1.rewards.algebra.rows import Row, assigned, read_row
from easyvideor1.rewards.algebra.single import Single, read_sentence, read_single, same_single
from easyvideor1.rewards.folding import fold
from easyvideor1.rewards.tasks.choice import read_choice

MAX_CHARS = 1000
Algebra = Callable[[str, str], bool]
"""Answer and gold, neither read by anything here -> whether they are the same."""


class OpenError(Exception):
    """Only computer algebra can tell."""


def leave_open(answer: str, gold: str) -> bool:
    """The algebra of those who have none: raises OpenError."""
    raise OpenError


def same_math(answer: str, gold: str, *, algebra: Algebra) -> bool:
    """True where two expressions in the spelling of `latex.read_expression` say the same."""
    if _tight(answer) == _tight(gold):
        return True
    if re.fullmatch(r"[\s(\[]*[A-J][\s)\].:]*", gold):
        return read_choice(answer, {}) == read_choice(gold, {})
    return len(answer) <= MAX_CHARS and _same(answer, gold, algebra)


def kind_of(gold: str) -> str:
    """How a gold answer is compared, in one word; "algebra" for what is left to it, "" for what nothing could read."""
    if re.fullmatch(r"[\s(\[]*[A-J][\s)\].:]*", gold):
        return "letter"
    if words(gold) is not None:
        return "words"
    if _CLOCK.fullmatch(gold):
        return "clock"
    if gold in _DOTS:
        return "text"
    single = read_single(gold)
    if single is not None:
        return "value" if _has_value(single) else ""
    if ranges.read_range(gold) is not None:
        return "range"
    if _matrix(gold) is not None:
        return "matrix"
    row = read_row(gold)
    if row is not None:
        return "row" if all(map(kind_of, row.items)) else ""
    return "equation" if read_equation(gold) is not None else "text" if is_prose(gold) else "algebra"


def open_parts(gold: str) -> list[str]:
    """The parts of a gold answer that only computer algebra reads; they are sure to be compared by it."""
    kind = kind_of(gold)
    if kind == "algebra":
        return [gold]
    row = read_row(gold) if kind == "row" else None
    return [] if row is None else [part for item in row.items for part in open_parts(item)]


def _has_value(single: Single) -> bool:
    """True where the value can be worked out, so that other expressions can be compared with it."""
    from easyvideor1.rewards.algebra.evaluate import has_value

    return has_value(single.node)


def _tight(text: str) -> str:
    """The text without spaces that have no meaning; a space between digits keeps two numbers apart."""
    return _IDLE_SPACE.sub("", text)


_IDLE_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")


_DOTS = frozenset({r"\ldots", r"\cdots", r"\dots", "...", "\u2026"})
"""An item of "1, 2, .., n"; a list as text."""


def _same(answer: str, gold: str, algebra: Algebra) -> bool:
    if gold in _DOTS:
        return answer in _DOTS
    gold_words = words(gold)
    if gold_words is not None:
        return fold(_untexted(answer)) == gold_words
    if _CLOCK.fullmatch(gold):
        return _same_clock(answer, gold)
    single = read_single(gold)
    if single is not None:
        return _names(answer, single)
    gold_range = ranges.read_range(gold)
    if gold_range is not None:
        answered = ranges.read_range(answer) or ranges.read_interval(answer)
        return answered is not None and ranges.same_range(answered, gold_range)
    matrix = _matrix(gold)
    if matrix is not None:
        return _same_matrix(_matrix(answer), matrix, algebra)
    row = read_row(gold)
    if row is not None:
        return _same_rows(answer, row, gold, algebra)
    equation = read_equation(gold)
    if equation is not None:
        return _same_equations(answer, equation)
    if is_prose(gold) or is_prose(answer):
        return fold(_untexted(answer)) == fold(_untexted(gold))
    return algebra(answer, gold)


_NAMED_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")
_APPROXIMATELY = re.compile(r"\\approx(?![a-zA-Z])|\u2248|\\simeq(?![a-zA-Z])")
MAX_SIDES = 6


def _names(answer: str, gold: Single) -> bool:
    """True where an answer names the one value of a gold: alone, as a name's value, at the end of sums, in words."""
    single = read_single(answer)
    if single is not None:
        return same_single(single, gold)
    ratio = _ratio(answer)
    if ratio is not None:
        return same_single(ratio, gold)
    sides = _NAMED_EQUALS.split(_APPROXIMATELY.sub("=", answer))
    if len(sides) > 1:
        return len(sides) <= MAX_SIDES and _all_name(sides, gold)
    row = read_row(answer)
    if row is not None and len(set(row.items)) == 1 and not row.brackets:
        return _names(row.items[0], gold)
    if gold.is_number and is_prose(answer):
        sentence = read_sentence(answer)
        return sentence is not None and same_single(sentence, gold)
    return False


def _all_name(sides: list[str], gold: Single) -> bool:
    """ "x = 5" names 5; "2 + 3 = 5" does because both sides do; "3 = 5" does not."""
    name, _ = assigned(f"{sides[0]}=1")
    is_named = bool(name) or _is_label(sides[0])
    values = [read_single(side.strip()) for side in sides[is_named:]]
    if is_named and not variables_allow(name, gold):
        return False
    return bool(values) and all(value is not None and same_single(value, gold) for value in values)


def _is_label(text: str) -> bool:
    """True for the words before an equals sign: "Total area ="."""
    bare = _untexted(text).strip()
    return bool(re.fullmatch(r"[^\W\d_]{2,}(?:[ -][^\W\d_]+){0,6}|[A-Z]", bare))


def variables_allow(name: str, gold: Single) -> bool:
    """A name that the gold itself is made of is no name for its value: x = x + 1 is an equation."""
    from easyvideor1.rewards.algebra.expression import variables

    return name not in variables(gold.node) or name == "y"


_CLOCK = re.compile(
    r"(\d{1,6}(?:\.\d+)?)\s?:\s?(\d{1,6}(?:\.\d+)?)(?:\s?:\s?(\d{1,6}(?:\.\d+)?))?(?:\s?([ap])\.?\s?m\.?)?",
    re.IGNORECASE,
)


def _same_clock(answer: str, gold: str) -> bool:
    """Clock times part by part; ratios, which are not written with two digits throughout, also by their quotient."""
    match, gold_match = _CLOCK.fullmatch(answer), _CLOCK.fullmatch(gold)
    if match is None or gold_match is None:
        ratio, single = _ratio(gold), read_single(answer)
        return ratio is not None and single is not None and same_single(single, ratio)
    half, gold_half = (match[4] or "").lower(), (gold_match[4] or "").lower()
    parts, gold_parts = ([float(part) for part in found.groups()[:3] if part] for found in (match, gold_match))
    if parts == gold_parts:
        return half == gold_half or not half or not gold_half
    is_clock = half or gold_half or len(gold_match[2]) == 2 or len(match[2]) == 2 or len(parts) != len(gold_parts)
    return not is_clock and _proportional(parts, gold_parts)


def _ratio(text: str) -> Single | None:
    """The quotient that "3:2" stands for; None for clock times, whose minutes have two digits, and other texts."""
    match = _CLOCK.fullmatch(text)
    is_ratio = match is not None and not (match[3] or match[4] or len(match[2]) == 2)
    return read_single(f"{match[1]}/{match[2]}") if match and is_ratio else None


def _proportional(parts: list[float], gold: list[float]) -> bool:
    return all(one * gold[0] == other * parts[0] for one, other in zip(parts, gold, strict=True)) and parts[0] != 0


_MATRIX = re.compile(r"\\begin\{([bpv]?matrix|array)\}(?:\{[clr| ]*\})?(.*?)\\end\{\1\}", re.DOTALL)


def _matrix(text: str) -> tuple[tuple[str, ...], ...] | None:
    """The entries of a matrix by rows; None for anything else, a determinant for one."""
    match = _MATRIX.fullmatch(text.strip().lstrip("([").rstrip(")]").strip())
    if match is None or match[1] == "vmatrix":
        return None
    rows = [row for row in match[2].replace(r"\cr", r"\\").split(r"\\") if row.strip()]
    return tuple(tuple(entry.strip() for entry in row.split("&")) for row in rows)


def _same_matrix(
    answer: tuple[tuple[str, ...], ...] | None, gold: tuple[tuple[str, ...], ...], algebra: Algebra
) -> bool:
    if answer is None or [len(row) for row in answer] != [len(row) for row in gold]:
        return False
    return all(
        same_math(entry, other, algebra=algebra)
        for row, gold_row in zip(answer, gold, strict=True)
        for entry, other in zip(row, gold_row, strict=True)
    )


def _same_rows(answer: str, gold: Row, gold_text: str, algebra: Algebra) -> bool:
    row = read_row(answer)
    if row is None:
        # An inequality may answer the interval (1, 2), which looks like a pair.
        answered, interval = ranges.read_range(answer), ranges.read_interval(gold_text)
        return answered is not None and interval is not None and ranges.same_range(answered, interval)
    if len(row.items) != len(gold.items):
        return False
    if row.names and gold.names:
        values, wanted = (dict(zip(one.names, one.items, strict=True)) for one in (row, gold))
        return values.keys() == wanted.keys() and all(
            same_math(values[name], wanted[name], algebra=algebra) for name in wanted
        )
    if any("=" in item for item in row.items) != any("=" in item for item in gold.items):
        return False  # a choice of equations, and bare values
    if row.names or gold.names:
        return _same_values(row, gold, gold_text if row.names else answer, algebra)
    if row.brackets != gold.brackets:
        return False
    if gold.brackets:
        return _same_in_order(row.items, gold.items, algebra)
    return _same_in_any_order(row.items, gold.items, algebra)


def _same_values(row: Row, gold: Row, text: str, algebra: Algebra) -> bool:
    """True where a text without names, one of the two, gives the values of the other one's system.

    A pair gives them by the alphabet, or in the order of "(y, x) = .."; a set only those of x_1 and x_2, which are the
    roots of an equation.
    """
    system = row if row.names else gold
    if not text.startswith("("):
        if len({name.partition("_")[0] for name in system.names}) == 1:
            return _same_in_any_order(row.items, gold.items, algebra)
        is_plain = not text.startswith(("[", "{", r"\{"))
        return is_plain and not row.names and _same_in_order(row.items, gold.items, algebra)
    if row.names or not gold.brackets:
        items = tuple(item for _, item in sorted(zip(system.names, system.items, strict=True)))
        return _same_in_order(items if row.names else row.items, gold.items if row.names else items, algebra)
    return _same_in_order(row.items, gold.items, algebra)


def _same_in_order(items: tuple[str, ...], gold: tuple[str, ...], algebra: Algebra) -> bool:
    return all(same_math(item, other, algebra=algebra) for item, other in zip(items, gold, strict=True))


def _same_in_any_order(items: tuple[str, ...], gold: tuple[str, ...], algebra: Algebra) -> bool:
    left = list(items)
    for other in gold:
        match = next((item for item in left if same_math(item, other, algebra=algebra)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_equations(answer: str, gold: Equation) -> bool:
    equation = read_equation(answer)
    if equation is not None:
        return same_equation(equation, gold)
    # x = 5 is answered by 5, y = 3x - 1 by 3x - 1.
    single = read_single(answer)
    if gold.name and single is None and is_prose(answer):
        single = read_sentence(answer)
    return bool(gold.name) and single is not None and gold.value is not None and same_single(single, gold.value)


_RUN = re.compile(r"[^\W\d_]{2,}")
_MACROS = re.compile(r"\\(?!text(?![a-zA-Z]))[a-zA-Z]+|_\{[^{}]*\}")


def is_prose(text: str) -> bool:
    """True for a text with words in it that are no functions."""
    return any(len(run) > 2 and run.lower() not in FUNCTIONS for run in _RUN.findall(_MACROS.sub(" ", _untexted(text))))


def words(text: str) -> str | None:
    """Folded text of an answer in words ("no solution"); None for anything with symbols."""
    bare = _untexted(text)
    runs = _RUN.findall(bare)
    is_text = r"\text" in text or any(len(run) > 2 and run not in FUNCTIONS for run in runs)
    return fold(bare) if is_text and runs and not re.search(r"[\d\\^=<>+*/\u2264\u2265]", bare) else None


def _untexted(text: str) -> str:
    return re.sub(r"\\text\s?\{([^{}]*)\}", r" \1 ", text)
