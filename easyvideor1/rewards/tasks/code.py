"""Drawings and pages, compared by what they show; programs, compared as text and never run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from easyvideor1.rewards.html import Page, page_likeness, read_html
from easyvideor1.rewards.parse import MAX_LONG_CHARS, code_in
from easyvideor1.rewards.picture import Picture, likeness, paint
from easyvideor1.rewards.svg import UnreadableSvgError, read_svg
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample

QUICK_PAGE_CHARS, QUICK_PAGE_TAGS = 16_384, 500
QUICK_PROGRAM_CHARS, QUICK_PROGRAM_BRACKETS = 4096, 100
"""What is shorter is read in a millisecond or two, whatever it is."""
TAME_DRAWING_CHARS, TAME_DRAWING_TAGS = 8192, 100
"""What is shorter, and multiplies nothing, is drawn in a tenth of a second at most."""


def _gold_picture(sample: Sample) -> Picture:
    try:
        return paint(read_svg(code_in(sample.gold)))
    except UnreadableSvgError as error:
        raise bad_gold(sample, f"an SVG answer is one safe drawing, this is {error}") from None


def _read_picture(sample: Sample, text: str) -> Picture | None:
    try:
        return paint(read_svg(code_in(text)))
    except UnreadableSvgError:
        return None


_WILD = re.compile(r"<(?:\w+:)?(?:use|filter|mask|pattern|marker|image|style|clipPath)|dasharray|url\(")


def _is_tame_drawing(text: str) -> bool:
    return len(text) <= TAME_DRAWING_CHARS and text.count("<") <= TAME_DRAWING_TAGS and not _WILD.search(text)


SVG = Task(
    read_gold=_gold_picture,
    read_answer=_read_picture,
    accuracy=likeness,
    show=lambda picture: f"a drawing, {picture.dark_frac:.2f} dark",
    is_heavy=True,
    is_quick=lambda text: False,
    is_compiled=True,
    is_tame=_is_tame_drawing,
    max_chars=MAX_LONG_CHARS,
)


def _gold_page(sample: Sample) -> Page:
    page = read_html(code_in(sample.gold))
    if page is None:
        raise bad_gold(sample, "an HTML answer has elements")
    return page


HTML = Task(
    read_gold=_gold_page,
    read_answer=lambda sample, text: read_html(code_in(text)),
    accuracy=page_likeness,
    show=lambda page: f"a page of {len(page.tags)} tags and {len(page.words)} words",
    is_heavy=True,
    is_quick=lambda text: len(text) <= QUICK_PAGE_CHARS and text.count("<") <= QUICK_PAGE_TAGS,
    max_chars=MAX_LONG_CHARS,
)


@dataclass(frozen=True, slots=True)
class Program:
    """A Python program."""

    source: str
    tree: ast.AST | None
    """The syntax tree of the program; None where it does not parse."""


def read_program(text: str) -> Program | None:
    """The program in a text; None for nothing."""
    source = code_in(text).strip()
    try:
        tree = ast.parse(source)
        return Program(source, tree) if tree.body else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: the parser's word for nesting
        return Program(source, None) if source else None


def same_program(program: Program, gold: Program) -> bool:
    """True for the same syntax, whatever the comments and spaces; what does not parse is compared as text.

    >>> one, other = read_program("x=1  # one"), read_program("x = 1")
    >>> one is not None and other is not None and same_program(one, other)
    True
    """
    if program.tree is None or gold.tree is None or program.source == gold.source:
        return program.source == gold.source
    left: list[tuple[object, object]] = [(program.tree, gold.tree)]
    while left:  # not by recursion: long sums are nested deep
        one, other = left.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, ast.AST):
            left += [(getattr(one, name, None), getattr(other, name, None)) for name in one._fields]
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            left += zip(one, other, strict=True)
        elif one != other and one == one:
            return False
    return True


def _gold_program(sample: Sample) -> Program:
    program = read_program(sample.gold)
    if program is None:
        raise bad_gold(sample, "a program is not empty")
    return program


def _is_quick_program(text: str) -> bool:
    return len(text) <= QUICK_PROGRAM_CHARS and sum(map(text.count, "([{-~")) <= QUICK_PROGRAM_BRACKETS


PYTHON = Task(
    read_gold=_gold_program,
    read_answer=lambda sample, text: read_program(text),
    accuracy=lambda program, gold: float(same_program(program, gold)),
    show=lambda program: program.source,
    is_heavy=True,
    is_quick=_is_quick_program,
    max_chars=MAX_LONG_CHARS,
)
