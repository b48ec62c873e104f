"""Computer algebra (Math-Verify on SymPy) for golds that nothing else here reads: sums, integrals, sets by a rule."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from types import ModuleType

from easyvideor1.rewards.algebra.size import is_small

_HEAVY_MACROS = re.compile(r"\\(?:sum|prod|int|iint|oint|lim|binom|dbinom|tbinom)(?![a-zA-Z])")
_SPELLINGS = (("\u2264", r"\le "), ("\u2265", r"\ge "), ("\u2260", r"\ne "), ("\u00b1", r"\pm "), ("*", r"\cdot "))


class UnreadableGoldError(ValueError):
    """The gold answer is no expression that anything could be compared with."""


def same_symbols(answer: str, gold: str) -> bool:
    """True where computer algebra finds two expressions equal; raises UnreadableGoldError.

    It may take long and much memory on a hostile answer, so it is for a process that can be killed.
    """
    if not (is_small(answer) and is_small(gold)):
        return False
    if _HEAVY_MACROS.search(answer) and not _HEAVY_MACROS.search(gold):
        return False
    gold_parsed = _parsed(gold)
    if not gold_parsed:
        raise UnreadableGoldError(f"the gold answer {gold!r} is no mathematical expression")
    answer_parsed = _parsed(answer)
    if not answer_parsed:
        return False
    # The gold comes first: the check is not symmetric. No time-out: it works by signals, in a main thread only;
    # the pool's deadline takes its place.
    return bool(math_verify().verify(list(gold_parsed), list(answer_parsed), timeout_seconds=None))


def is_readable(gold: str) -> bool:
    """True where a gold answer is an expression that others can be compared with; for workers, like `same_symbols`."""
    return is_small(gold) and bool(_parsed(gold))


@functools.lru_cache(maxsize=512)
def _parsed(text: str) -> tuple:
    text = re.sub(r"(\d+(?:\.\d+)?)\s?\\text\{degree\}", r"{\\frac{\1\\pi}{180}}", text)
    text = re.sub(r"(?<![\\a-zA-Z])(sin|cos|tan|log|ln|exp|pi)(?![a-zA-Z])", r"\\\1 ", text)
    for sign, macro in _SPELLINGS:
        text = text.replace(sign, macro)
    # Its list of units holds "t", "c", "h" and "ab": with it, 5t would be 5.
    library = math_verify()
    config = library.LatexExtractionConfig()
    config = dataclasses.replace(
        config, normalization_config=dataclasses.replace(config.normalization_config, units=False)
    )
    return tuple(
        library.parse(f"${text}$", extraction_config=[config], fallback_mode="no_fallback", parsing_timeout=None)
    )


@functools.cache
def math_verify() -> ModuleType:
    """Math-Verify, imported late because it brings SymPy; it would warn that its own time-outs are off."""
    import math_verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    return math_verify
