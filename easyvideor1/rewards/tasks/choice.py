"""Multiple choice: one letter of the options, or exactly one option's text; two candidates are no answer."""

from __future__ import annotations

import functools
import re
import string

from easyvideor1.problem_types import option_labels
from easyvideor1.rewards.parse import fold, plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample

SHORT_CHARS = 200
_WRAP = r"[\s(\[{<\"'*_]*"
_UNWRAP = r"[\s)\]}>\"'*_.,:;!]*"
_LONE = re.compile(rf"{_WRAP}([A-Za-z]){_UNWRAP}\Z")
_LEAD_PHRASE = re.compile(
    r"(?:so,? |therefore,? |thus,? |hence,? )?(?:the |my )?(?:(?:final |correct |right |best )*+"
    r"(?:answer|option|choice)(?: is| would be| should be|:| -)*"
    r"|\u56e0\u6b64|\u6240\u4ee5|(?:\u6b63\u786e|\u6700\u7ec8)?(?:\u7b54\u6848|\u9009\u9879)(?:\u662f|\u4e3a|\u5e94\u4e3a)?"
    r"|\u6211?\u9009\u62e9?)[\s:=]*",
    re.IGNORECASE,
)
_LEAD_LETTER = re.compile(r"[(\[]?([A-Za-z])[)\]]?[.:)\]]+\s*|[(\[]([A-Za-z])[)\]]\s*")
_LEAD_LINE = re.compile(r"([A-Z])\s*(?:\n|[,;-]\s|\s(?=is|because|since|as\b))")
_NAMED = re.compile(
    r"(?:answer|option|choice|choose|pick|select|go with|it is|it's|\u7b54\u6848|\u9009\u9879|\u9009\u62e9|\u9009)"
    r"(?:\s*(?:is|would be|should be|must be|option|:|=|\u662f|\u4e3a|\u5e94\u4e3a))*"
    r"\s*[(\[\"'*]*([A-Za-z])(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_STANDALONE = re.compile(r"(?<![A-Za-z0-9'])([A-Z])(?![A-Za-z0-9'])")
_ARTICLE = re.compile(r"\s+(?!because|since|as\b|is\b|or\b|and\b)[a-z]", re.IGNORECASE)


def read_choice(text: str, labels: dict[str, str]) -> str | None:
    """The letter of the option that an answer names.

    Args:
        labels: letter -> text of the options; empty where the row has none, then every letter is allowed.

    >>> labels = {"A": "a red kettle", "B": "a blue bicycle", "C": "A dog runs"}
    >>> read_choice("(B) a blue bicycle", labels), read_choice("A dog runs", labels), read_choice("A or B", labels)
    ('B', 'C', None)
    """
    text = plain(text)
    letter = _whole(text, labels)
    if letter is None:
        phrase = _LEAD_PHRASE.match(text)
        rest = plain(text[phrase.end() :]) if phrase else text
        letter = _whole(rest, labels) or _leading(rest, labels) or _named(text, labels)
    return letter if letter and letter in (labels or string.ascii_uppercase) else None


def _whole(text: str, labels: dict[str, str]) -> str | None:
    """The whole text is one decorated letter or one option's text."""
    lone = _LONE.match(text)
    if lone:
        return lone[1].upper()
    folded = fold(text)
    same = [letter for letter, option in labels.items() if folded and fold(option) == folded]
    return same[0] if len(same) == 1 else None


def _leading(text: str, labels: dict[str, str]) -> str | None:
    """A letter, its mark, and its own option's text or an explanation that names no other option."""
    match = _LEAD_LETTER.match(text) or _LEAD_LINE.match(text)
    if match is None:
        # "B a blue bicycle": no mark, but nothing else than the option's own text.
        letter = text[:1].upper()
        return letter if text[1:2] == " " and _is_text_of(text[2:], letter, labels) else None
    letter = (match[1] or (match[2] if match.re is _LEAD_LETTER else "")).upper()
    rest = text[match.end() :]
    if _is_text_of(rest, letter, labels):
        return letter
    folded = fold(rest)
    names_another = any(fold(option) == folded for option in labels.values()) or _others(rest, letter, labels)
    return None if names_another else letter


def _is_text_of(text: str, letter: str, labels: dict[str, str]) -> bool:
    return letter in labels and bool(fold(text)) and fold(text) == fold(labels[letter])


def _named(text: str, labels: dict[str, str]) -> str | None:
    """One explicit phrase ("I choose B", "the answer is (C)") and no other letter in the text."""
    found = {match[1].upper() for match in _NAMED.finditer(text) if not _is_word(text, match.start(1))}
    if len(found) != 1:
        return None
    letter = found.pop()
    return None if _others(text, letter, labels) else letter


def _others(text: str, letter: str, labels: dict[str, str]) -> bool:
    """True where the text names a letter of another option."""
    allowed = labels or string.ascii_uppercase
    return any(
        match[1] != letter and match[1] in allowed and not _is_word(text, match.start(1))
        for match in _STANDALONE.finditer(text)
    )


def _is_word(text: str, place: int) -> bool:
    """True for the article "a", the pronoun "I", and small letters that begin a phrase."""
    char = text[place]
    goes_on = bool(_ARTICLE.match(text, place + 1))
    return goes_on and (char in "AaI" or char.islower())


@functools.lru_cache(maxsize=8192)
def _read_short(text: str, options: tuple[str, ...]) -> str | None:
    """`read_choice` remembered: golds, and most answers, come many times."""
    return read_choice(text, option_labels(options))


def _read_answer(sample: Sample, text: str) -> str | None:
    text = text.strip()
    if len(text) <= SHORT_CHARS:
        return _read_short(text, sample.options)
    return read_choice(text, option_labels(sample.options))


def _read_gold(sample: Sample) -> str:
    labels = option_labels(sample.options)
    letter = _read_answer(sample, sample.answer)
    if letter is None:
        allowed = ", ".join(labels) or "A-Z"
        raise bad_gold(sample, f"a multiple-choice answer is one of the letters {allowed}")
    return letter


TASK = Task(
    read_gold=_read_gold,
    read_answer=_read_answer,
    accuracy=lambda answer, gold: float(answer == gold),
)
