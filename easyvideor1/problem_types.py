"""Names of problem types: one canonical spelling each, whatever the data set writes."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

CANONICAL = (
    "multiple choice",
    "multiple select",
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
    "multi select": "multiple select",
    "multiselect": "multiple select",
    "multiple selection": "multiple select",
    "multiple answer": "multiple select",
    "multiple answers": "multiple select",
    "multi answer": "multiple select",
    "multiple response": "multiple select",
    "multiple correct": "multiple select",
    "mcq multiple": "multiple select",
    "mmcq": "multiple select",
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
    "coding": "python code",
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
    r"\s*(?:(?P<word>option|choice|caption|sentence|statement|description|answer|response|candidate|image|video|\u9009\u9879)\s*)?"
    r"[(\[{\u3010]?\s*(?P<letter>[A-Za-z]|\d{1,2})\s*(?:[)\]}\u3011][.:\u3001]?|(?:(?<=[A-Za-z])[.:\u3001]|[.:\u3001](?!\d))|(?(word)\s-\s|(?!)))+\s*",
    re.IGNORECASE,
)
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""Full-width forms of the ASCII characters -> these, place by place."""


def option_labels(options: Sequence[str]) -> dict[str, str]:
    """Letter -> text of the options of a question, in order.

    Options that all carry their own labels in order (A. or (a), 1., "Caption A:", full-width ones) lose them; otherwise
    the position gives the letter, so that a text like "A. Lincoln" is not torn apart.

    >>> option_labels(["A. red", "B. blue"]), option_labels(["red", "A. Lincoln"])
    ({'A': 'red', 'B': 'blue'}, {'A': 'red', 'B': 'A. Lincoln'})
    >>> option_labels(["Caption 1: a cat", "Caption 2: a dog"])
    {'A': 'a cat', 'B': 'a dog'}
    """
    return dict(_labels(tuple(options))[0])


def are_numbered(options: Sequence[str]) -> bool:
    """True where the options carry the numbers 1, 2, .. as labels, so that "2" names the second.

    >>> are_numbered(["1. red", "2. blue"]), are_numbered(["A. red", "B. blue"])
    (True, False)
    """
    return _labels(tuple(options))[1]


@functools.lru_cache(maxsize=8192)
def _labels(options: tuple[str, ...]) -> tuple[dict[str, str], bool]:
    """The labels, and whether the options carry numbers as such."""
    letters = [chr(ord("A") + index) for index in range(len(options))]
    matches = [_LABEL.match(option if option.isascii() else option.translate(_FULL_WIDTH)) for option in options]
    labels = [match["letter"].upper() if match else "" for match in matches]
    is_numbered = bool(options) and labels == [str(number) for number in range(1, len(options) + 1)]
    if options and (is_numbered or labels == letters):
        texts = [option[match.end() :] for option, match in zip(options, matches, strict=True) if match]
    else:
        texts = list(options)
    return {letter: text.strip() for letter, text in zip(letters, texts, strict=True)}, is_numbered


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
