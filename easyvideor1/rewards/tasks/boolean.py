"""Yes or no, true or false, in English and Chinese; both at once is no answer."""

from __future__ import annotations

import re

from easyvideor1.rewards.parse import plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample

_ENGLISH = {"yes": True, "true": True, "correct": True, "right": True, "yeah": True}
_ENGLISH |= {"no": False, "false": False, "incorrect": False, "wrong": False, "nope": False}
_SYMBOLS = {"1": True, "0": False, "y": True, "n": False, "t": True, "f": False}
_CHINESE = {
    "\u4e0d\u6b63\u786e": False,
    "\u4e0d\u662f\u7684": False,
    "\u4e0d\u662f": False,
    "\u4e0d\u5bf9": False,
    "\u6ca1\u6709": False,
    "\u9519\u8bef": False,
    "\u5426": False,
    "\u9519": False,
    "\u5047": False,
    "\u4e0d": False,
    "\u662f\u7684": True,
    "\u5bf9\u7684": True,
    "\u6b63\u786e": True,
    "\u662f": True,
    "\u5bf9": True,
    "\u771f": True,
    "\u6709": True,
}
"""Longest first, so that "not so" is not read as "so"."""
_NOT = r"(?:is not|isn't|not|n't) "
_WORD = re.compile(rf"(?<![a-z'])({_NOT})?({'|'.join(_ENGLISH)})(?![a-z'])")
_CHINESE_WORD = re.compile("|".join(_CHINESE))
_LEAD = re.compile(r"(?:(?:so |thus )?(?:the |my )?(?:final )?answer(?: is|:)*|\u7b54\u6848(?:\u662f|\u4e3a)?)[\s:]*")
_JOINT = re.compile(r"[\s,;.|\u3002\u3001]*(?:or|and|/|\\|\u6216\u8005|\u6216|\u548c|\u8fd8\u662f)[\s/]*")
_NO_OPINION = re.compile(r"no (?:idea|clue|way|answer|opinion)|not sure|unsure|unclear|maybe|perhaps|unknown|depends")
_MARKS = " \t\n.,;:!?\"'()[]{}|/\u3002\u3001"


def read_boolean(text: str) -> bool | None:
    """True for yes, False for no, None for neither or both.

    >>> read_boolean("No, it is not true."), read_boolean("**Yes**"), read_boolean("yes or no"), read_boolean("I know")
    (False, True, None, None)
    """
    text = plain(text).lower().strip(_MARKS)
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    lead = _LEAD.match(text)
    text = text[lead.end() :].strip(_MARKS) if lead else text
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    if not text or _NO_OPINION.match(text):
        return None
    return _english(text) if _WORD.search(text) else _chinese(text)


def _english(text: str) -> bool | None:
    first = _WORD.match(text)
    if first:
        value = _value(first)
        return None if _is_hedged(text[first.end() :], not value) else value
    values = {_value(match) for match in _WORD.finditer(text)}
    return values.pop() if len(values) == 1 else None


def _value(match: re.Match[str]) -> bool:
    return _ENGLISH[match[2]] != bool(match[1])


def _is_hedged(rest: str, opposite: bool) -> bool:
    """True where the leading word is followed by its opposite as a second answer: "or no", ", no.", "/no"."""
    if _JOINT.match(rest):
        return any(_value(match) == opposite for match in _WORD.finditer(rest))
    body = rest.strip(_MARKS)
    word = _WORD.match(body)
    return word is not None and _value(word) == opposite and not body[word.end() :].strip(_MARKS)


def _chinese(text: str) -> bool | None:
    first = _CHINESE_WORD.match(text)
    if first is None:
        values = {_CHINESE[match[0]] for match in _CHINESE_WORD.finditer(text)}
        return values.pop() if len(values) == 1 else None
    value = _CHINESE[first[0]]
    rest = text[first.end() :]
    joint = _JOINT.match(rest)
    body = rest[joint.end() :] if joint else rest.strip(_MARKS)
    word = _CHINESE_WORD.match(body)
    is_opposed = word is not None and _CHINESE[word[0]] != value
    return None if word and is_opposed and (joint or not body[word.end() :].strip(_MARKS)) else value


def _read_gold(sample: Sample) -> bool:
    value = read_boolean(sample.gold)
    if value is None:
        raise bad_gold(sample, "a boolean answer is Yes or No (or True, False)")
    return value


TASK = Task(
    read_gold=_read_gold,
    read_answer=lambda sample, text: read_boolean(text),
    accuracy=lambda answer, gold: float(answer == gold),
)
