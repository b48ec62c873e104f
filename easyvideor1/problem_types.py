"""Names of problem types: one canonical spelling each, whatever the data set writes."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

CANONICAL = (
    "multiple choice",
    "numerical",
    "regression",
    "temporal grounding",
    "spatial grounding",
    "tracking",
    "spatial-temporal grounding",
    "segmentation",
    "open-ended",
    "math",
    "ocr",
    "boolean",
    "svg code",
    "html code",
    "python code",
    "preference",
)
"""Every type that has a reward of its own."""

ALIASES = {
    "multi choice": "multiple choice",
    "multichoice": "multiple choice",
    "mcq": "multiple choice",
    "mc": "multiple choice",
    "number": "numerical",
    "numeric": "numerical",
    "counting": "numerical",
    "rec": "numerical",
    "grounding temporal": "temporal grounding",
    "temporal localization": "temporal grounding",
    "moment retrieval": "temporal grounding",
    "grounding": "spatial grounding",
    "visual grounding": "spatial grounding",
    "object detection": "spatial grounding",
    "object tracking": "tracking",
    "spatio temporal grounding": "spatial-temporal grounding",
    "spatiotemporal grounding": "spatial-temporal grounding",
    "stg": "spatial-temporal grounding",
    "video segmentation": "segmentation",
    "image segmentation": "segmentation",
    "open ended qa": "open-ended",
    "openended": "open-ended",
    "free form": "open-ended",
    "freeform": "open-ended",
    "video qa": "open-ended",
    "videoqa": "open-ended",
    "image qa": "open-ended",
    "video description": "open-ended",
    "image description": "open-ended",
    "description": "open-ended",
    "video caption": "open-ended",
    "caption": "open-ended",
    "captioning": "open-ended",
    "mathematics": "math",
    "geometry": "math",
    "text recognition": "ocr",
    "binary": "boolean",
    "bool": "boolean",
    "binary classification": "boolean",
    "yes no": "boolean",
    "yes/no": "boolean",
    "true false": "boolean",
    "judgement": "boolean",
    "ssr": "boolean",
    "crr": "boolean",
    "svg": "svg code",
    "html": "html code",
    "python": "python code",
    "code": "python code",
    "llava": "preference",
    "critic": "preference",
    "preference pair": "preference",
}
"""Folded spelling (spaces for `_` and `-`) of public data sets -> canonical name."""

_BY_KEY = {name.replace("-", " "): name for name in CANONICAL} | ALIASES


@functools.lru_cache(maxsize=1024)
def canonical(name: str) -> str:
    """The one spelling of a problem type; an unknown name comes back folded (lower case, single spaces).

    >>> canonical(" Multiple_Choice "), canonical("OCR"), canonical("spatio-temporal grounding"), canonical("My_Type")
    ('multiple choice', 'ocr', 'spatial-temporal grounding', 'my type')
    """
    folded = " ".join(name.replace("_", " ").lower().split())
    return _BY_KEY.get(" ".join(folded.replace("-", " ").split()), folded)


_LABEL = re.compile(
    r"\s*(?:(?:option|choice|caption|sentence)\s+(?=[A-Za-z\d]+:))?[(\[]?([A-Za-z]|\d+(?=:))[)\].:]+\s*", re.I
)


def option_labels(options: Sequence[str]) -> dict[str, str]:
    """Letter -> text of the options of a question, in order.

    Options that all carry their own letters (in order from A) or named labels ("Option 1:", "Caption A:") lose them;
    otherwise the position gives the letter, so that a text like "A. Lincoln" is not torn apart.

    >>> option_labels(["A. red", "B. blue"]), option_labels(["red", "A. Lincoln"])
    ({'A': 'red', 'B': 'blue'}, {'A': 'red', 'B': 'A. Lincoln'})
    >>> option_labels(["Option 1: a cat", "Option 2: a dog"])
    {'A': 'a cat', 'B': 'a dog'}
    """
    return dict(_labels(tuple(options)))


@functools.lru_cache(maxsize=8192)
def _labels(options: tuple[str, ...]) -> dict[str, str]:
    letters = [chr(ord("A") + index) for index in range(len(options))]
    matches = [_LABEL.match(option) for option in options]
    labels = [match[1].upper() if match else "" for match in matches]
    if options and labels in (letters, [str(number) for number in range(1, len(options) + 1)]):
        texts = [option[match.end() :] for option, match in zip(options, matches, strict=True) if match]
    else:
        texts = list(options)
    return {letter: text.strip() for letter, text in zip(letters, texts, strict=True)}


def lists_options(problem: str, options: Sequence[str]) -> bool:
    """True where a problem already lists all options with their labels, in order.

    A text that merely occurs in the question ("To the left or right?") is no list: it has no label to answer with.

    >>> lists_options("Which?\\n(A) left\\n(B) right", ["left", "right"]), lists_options("left or right?", ["left"])
    (True, False)
    """
    place = 0
    for given, (letter, text) in zip(options, option_labels(options).items(), strict=True):
        forms = [rf"[(\[]?{letter}[)\].:]+[ \t]*{re.escape(text)}"]
        if given.strip() != text:  # as it is given, with a label of its own
            forms.append(re.escape(given.strip()))
        found = re.compile(rf"(?:^|[\s;,])(?:{'|'.join(forms)})(?![^\W_])", re.MULTILINE).search(problem, place)
        if found is None:
            return False
        place = found.end()
    return bool(options)


def option_named_by_text(answer: str, options: Sequence[str]) -> str | None:
    """The letter of the one option whose text an answer equals; None where none or several do.

    >>> option_named_by_text("e", ["n", "v", "e"]), option_named_by_text("B", ["A. red", "B. blue"])
    ('C', None)
    """
    labels = option_labels(options)
    for equal in (lambda text: text == answer.strip(), lambda text: text.casefold() == answer.strip().casefold()):
        same = [letter for letter, text in labels.items() if text and equal(text)]
        if same:
            return same[0] if len(same) == 1 else None
    return None
