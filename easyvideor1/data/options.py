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
    """Letter -> text of the options; none where the problem lists all of them under their letters.

    A problem that merely holds the words of the options does not list them: nobody could answer with a letter.

    >>> unlisted_options("Which? A. red (B) blue", ["red", "blue"])
    {}
    >>> unlisted_options("Is the red one left of the blue one?", ["red", "blue"])
    {'A': 'red', 'B': 'blue'}
    """
    labelled = option_labels(options)
    text = _folded(problem) if labelled else ""
    are_listed = all(_is_listed(letter, _folded(option), text) for letter, option in labelled.items())
    return {} if are_listed else labelled


def _is_listed(letter: str, option: str, text: str) -> bool:
    place = text.find(option)
    while place >= 0:
        if _BEFORE[letter].search(text[max(0, place - LABEL_CHARS) : place]):
            return True
        place = text.find(option, place + 1)
    return False


def _folded(text: str) -> str:
    """Full-width letters and marks as ASCII ones, runs of white space as one space."""
    return " ".join(unicodedata.normalize("NFKC", text).split())
