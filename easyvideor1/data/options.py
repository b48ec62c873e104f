"""The options of a question that its text does not list already."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

from easyvideor1.problem_types import option_labels

_BEFORE = {
    letter: re.compile(rf"(?<![A-Za-z]){letter}\s*[)\].:\u3001\u3011]+\s*\Z") for letter in string.ascii_uppercase
}
"""Letter -> what stands before the text of its option where a problem lists it."""
LABEL_CHARS = 8


def unlisted_options(problem: str, options: Sequence[str]) -> dict[str, str]:
    """Letter -> text of the options; none where the problem lists all of them in order under their letters.

    A problem that merely holds the words of the options does not list them: it could not be answered with a letter.

    >>> unlisted_options("Which? A. red (B) blue", ["red", "blue"])
    {}
    >>> unlisted_options("Is the red one left of the blue one?", ["red", "blue"])
    {'A': 'red', 'B': 'blue'}
    """
    labelled = option_labels(options)
    text = _folded(problem) if labelled else ""
    end = 0
    for letter, option in labelled.items():
        end = _end_of(letter, _folded(option), text, end)
        if end < 0:
            return labelled
    return {}


def _end_of(letter: str, option: str, text: str, start: int) -> int:
    """Where the option ends in the text behind a place, under its letter; -1 where it is not listed there."""
    place = text.find(option, start)
    while place >= 0:
        end = place + len(option)
        if not text[end : end + 1].isalnum() and _BEFORE[letter].search(text[max(0, place - LABEL_CHARS) : place]):
            return end
        place = text.find(option, place + 1)
    return -1


def _folded(text: str) -> str:
    """Full-width letters and marks as ASCII ones, runs of white space as one space."""
    return " ".join(unicodedata.normalize("NFKC", text).split())
