"""What kind of problem a question is, where the data set does not say it: from its options and its gold answer."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from easyvideor1.problem_types import CANONICAL, canonical

_OPTION = re.compile(r"^[ \t]*\(?([A-Z])[).:\uff0e\u3001][ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_LETTER = re.compile(r"\s*\(?([A-Z])\)?(?:[).:\uff0e\u3001]|\s*\Z)")
_LETTERS = re.compile(r"[A-Z](?:\s*[,;]\s*[A-Z])+")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_LATEX = re.compile(r"\\[a-zA-Z]+|\$|\^|_\{")


def options_in(problem: str) -> list[str]:
    """The options that a question lists under A, B, ..; none where it lists fewer than two.

    >>> options_in("What is it?\\nA. a cat\\nB. a dog\\nAnswer with the letter.")
    ['A. a cat', 'B. a dog']
    """
    found = _OPTION.findall(problem)
    letters = [letter for letter, _ in found]
    if len(found) < 2 or letters != [chr(ord("A") + place) for place in range(len(found))]:
        return []
    return [f"{letter}. {text}" for letter, text in found]


def guess_type(gold: str, options: Sequence[str]) -> str:
    """The problem type that a gold answer fits.

    >>> [guess_type(gold, ()) for gold in ("Yes", "3", r"\\frac{1}{2}", '{"time": [1, 2]}', "a red ball")]
    ['boolean', 'numerical', 'math', 'temporal grounding', 'open-ended']
    >>> guess_type("B. a dog", ["A. a cat", "B. a dog"])
    'multiple choice'
    """
    text = gold.strip()
    if options:
        return "multiple select" if _LETTERS.fullmatch(text) else "multiple choice"
    if text.lower().rstrip(".") in ("yes", "no", "true", "false"):
        return "boolean"
    if _NUMBER.fullmatch(text):
        return "numerical"
    if text.startswith("{"):
        return _of_json(text)
    return "math" if _LATEX.search(text) and len(text.split()) < 20 else "open-ended"


def is_letter(gold: str) -> bool:
    """Whether a gold answer names an option by its letter."""
    return _LETTER.match(gold) is not None


def known_type(name: object) -> str:
    """The type that a data set's own word for it means; "" where it is no such word."""
    found = canonical(name) if isinstance(name, str) else ""
    return found if found in CANONICAL else ""


def _of_json(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return "open-ended"
    if "positive_points" in value:
        return "segmentation"
    if "time" in value:
        return "spatial-temporal grounding" if value.get("boxes") else "temporal grounding"
    boxes = value.get("boxes", value.get("bbox_2d"))
    return "tracking" if isinstance(boxes, dict) else "spatial grounding" if boxes else "open-ended"
