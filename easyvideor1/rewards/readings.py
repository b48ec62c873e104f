"""Where the answer stands in a response: in its tags (training), in its conclusion, or in the whole of it (benchmarks).

A reading gives the texts that may hold the answer, the likeliest first; the first that a task can read counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from easyvideor1.errors import UsageError
from easyvideor1.rewards.leads import STATED
from easyvideor1.rewards.parse import MAX_LONG_CHARS, Response, box_places, braced

MAX_STATED = 20
"""Statements looked at, the last ones; a text with more of them is a flood."""


Found = tuple[Sequence[str], str]
"""The texts that may hold the answer, the likeliest first; and why there are none, "" where there are."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A rule for where the answer stands in a response."""

    name: str
    find: Callable[[Response], Found]
    is_prose: bool
    """True where an answer that is in none of the texts may stand somewhere in the last of them."""


def _tagged(response: Response) -> Found:
    if not response.answers:
        return (), "no complete answer block after the thinking"
    if response.is_contradictory:
        return (), "answer blocks contradict each other"
    text = response.answers[-1]
    return ((), "the answer block is empty") if not text or text.isspace() else ((text,), "")


def _concluded(response: Response) -> Found:
    """The last answer block, else the text after the thinking; and in there the last boxed or stated answer, or a
    labelled option that everything else explains."""
    body = (response.answers[-1] if response.answers else response.conclusion)[-MAX_LONG_CHARS:]
    if not body.strip():
        return (), "nothing after the thinking"
    stated = [*stated_answers(body), *opening_answers(body)]
    return ((body, *stated, body) if response.answers else (*stated, body)), ""


def _whole(response: Response) -> Found:
    text = response.conclusion.strip()
    return ((text,), "") if text else ((), "nothing after the thinking")


TAGS = Reading("tags", _tagged, is_prose=False)
"""The one answer block after the thinking, as training asks for it."""
CONCLUSION = Reading("conclusion", _concluded, is_prose=True)
"""The last tagged, boxed or stated answer after the thinking, then what the task finds in the text (a lone letter)."""
WHOLE = Reading("whole", _whole, is_prose=False)
"""Everything after the thinking."""
READINGS = {reading.name: reading for reading in (TAGS, CONCLUSION, WHOLE)}


def reading_of(name: str) -> Reading:
    """The reading of a name; UsageError for an unknown one."""
    if name not in READINGS:
        raise UsageError(f"'{name}' is no reading of answers; known: {', '.join(READINGS)}")
    return READINGS[name]


_LABELLED = re.compile(r"[ \t*_(\[]*[A-Z](?:[.):\]*_]+(?:[ \t].*)?)?[ \t]*")
_LATER_LABEL = re.compile(r"^[ \t*_(\[-]*[A-Z](?:[.):\]]|[ \t*_]*$)", re.MULTILINE)


def opening_answers(text: str) -> list[str]:
    """The first line of a text, if it is a letter or a labelled option and no other line begins with a label.

    >>> opening_answers("B. A dog runs.\\nA is wrong, as no man is seen."), opening_answers("A. no man\\nB. a dog")
    (['B. A dog runs.'], [])
    """
    first, _, rest = text.strip().partition("\n")
    is_answer = rest.strip() and _LABELLED.fullmatch(first) and not _LATER_LABEL.search(rest)
    return [first.strip()] if is_answer else []


_SENTENCE_END = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f\n]")
_SUPPOSED = re.compile(r"(?:(?<![a-z])(?:if|whether|not|never)|n't)\s+(?:\w+\s+){0,3}\Z", re.IGNORECASE)


def stated_answers(text: str) -> list[str]:
    """The last boxed or stated answer of a text: its line first, then its first sentence; empty where there is none.

    >>> stated_answers("Perhaps C. The answer is B. Note that A is near it.")
    ['B. Note that A is near it.', 'B']
    """
    stated = [(match.end(), False) for match in STATED.finditer(text) if not _is_supposed(text, match.start())]
    boxes = [(place, True) for place in box_places(text)]
    for place, is_box in sorted(stated[-MAX_STATED:] + boxes[-MAX_STATED:], reverse=True):
        if is_box:
            content, end = braced(text, place)
            if end:
                return [content.strip()]
            continue
        line = text[place:].lstrip().split("\n", 1)[0].strip(" \t*_")
        if line:
            sentence_end = _SENTENCE_END.search(line)
            return [line, line[: sentence_end.start()]] if sentence_end else [line]
    return []


def _is_supposed(text: str, start: int) -> bool:
    """True after "if the", "not the" and the like."""
    return _SUPPOSED.search(text, max(0, start - 40), start) is not None
