"""Drawings and pages, compared by what they show; programs, compared as text and never run."""

from __future__ import annotations

import ast

import numpy as np

from easyvideor1.rewards.html import Page, page_likeness, read_html
from easyvideor1.rewards.parse import MAX_LONG_CHARS, code_in
from easyvideor1.rewards.raster import likeness, paint
from easyvideor1.rewards.svg import UnreadableSvgError, read_svg
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample


def _gold_picture(sample: Sample) -> np.ndarray:
    try:
        return paint(read_svg(code_in(sample.gold)))
    except UnreadableSvgError as error:
        raise bad_gold(sample, f"an SVG answer is one safe drawing, this is {error}") from None


def _read_picture(sample: Sample, text: str) -> np.ndarray | None:
    try:
        return paint(read_svg(code_in(text)))
    except UnreadableSvgError:
        return None


SVG = Task(
    read_gold=_gold_picture,
    read_answer=_read_picture,
    accuracy=likeness,
    show=lambda picture: f"a drawing, {float(1 - picture.mean()):.2f} dark",
    is_heavy=True,
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
    max_chars=MAX_LONG_CHARS,
)


def read_program(text: str) -> str | None:
    """A Python program in one spelling, without comments; as it stands where it does not parse, None for nothing."""
    text = code_in(text)
    try:
        return ast.unparse(ast.parse(text)) or None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: the parser's word for nesting
        return text.strip() or None


def _gold_program(sample: Sample) -> str:
    program = read_program(sample.gold)
    if program is None:
        raise bad_gold(sample, "a program is not empty")
    return program


PYTHON = Task(
    read_gold=_gold_program,
    read_answer=lambda sample, text: read_program(text),
    accuracy=lambda program, gold: float(program == gold),
    is_heavy=True,
    max_chars=MAX_LONG_CHARS,
)
