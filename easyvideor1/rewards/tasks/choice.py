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
_MARKS = " \t\n()[]{}<>-=.,:;*_\"'\u2192\u3001\u3002"
_WRAP = r"[\s(\[{<\"'*_\u201c\u2018\u300a\u300c\u3010\u3014]*"
_UNWRAP = r"[\s)\]}>\"'*_.,:;!?\u201d\u2019\u300b\u300d\u3011\u3015\u3001\u3002]*"
_LONE = re.compile(rf"{_WRAP}([A-Za-z]){_UNWRAP}\Z")
_NAMED_LABEL = re.compile(rf"{_WRAP}(?:option|choice|caption|sentence) (?:([A-Z])|(\d{{1,2}})){_UNWRAP}", re.IGNORECASE)
_IN_JSON = re.compile(r"\{\s*[\"']?(?:answer|option|choice|letter)[\"']?\s*:\s*([^{}\[\]]*)\}\Z", re.IGNORECASE)
_LEAD_PHRASE = re.compile(
    r"(?:(?:so|therefore|thus|hence|definitely|i think|i'd say|i would say)[,:]? )?(?:the |my )?"
    r"(?:(?:final |correct |right |best )*+(?:answer|ans|option|choice|letter|result)"
    r"(?: is| would be| should be| must be|:|=| ?->| -)*"
    r"|(?:it is|it's|it should be|it must be)(?= )"
    r"|\u56e0\u6b64|\u6240\u4ee5|\u3010?(?:\u6b63\u786e|\u6700\u7ec8)?(?:\u7684)?(?:\u56de?\u7b54\u6848?|\u9009\u9879)"
    r"(?:\u662f|\u4e3a|\u5e94\u4e3a|\u5e94\u8be5\u662f)?\u3011?"
    r"|\u6b63\u786e\u7684\u662f|\u6211?\u9009\u62e9?)?[\s:=,]*",
    re.IGNORECASE,
)
_HEAD = re.compile(r"[(\[]*([A-Za-z])(?![A-Za-z0-9'])")
_MARKED = re.compile(r"[)\]]+|\s?[:\u3001]|\.(?![a-z])")
"""After a letter of either case, before an explanation."""
_EXPLAINED = re.compile(
    r"\s*\n|\s*[,;\u3002]|\s+-\s|\s*->|\s(?:is|because|since|as)\b"
    r"|\s?(?:\u9009\u9879|\u9879|\u662f|\u4e3a|\u6b63\u786e|\u56e0\u4e3a)"
)
"""After a capital letter."""
_TAIL = re.compile(r"[\s,;:(\[-](?:option )?([A-Za-z])[)\].]*\Z", re.IGNORECASE)
_TAIL_CHARS = 40
_NAMED = re.compile(
    r"(?:answer|option|choice|choose|pick|select|letter|go with|it is|it's"
    r"|\u7b54\u6848?|\u9009\u9879|\u9009\u62e9|\u9009)"
    r"(?:\s*(?:is|would be|should be|must be|thus|therefore|option|letter|:|=|->"
    r"|\u662f|\u4e3a|\u5e94\u4e3a|\u5e94\u8be5\u662f|\u9009))*"
    r"\s*[(\[\"'*]*([A-Za-z])(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_STANDALONE = re.compile(r"(?<![A-Za-z0-9'])([A-Z])(?![A-Za-z0-9'])|[(\[]([a-z])[)\]]")
_ARTICLE = re.compile(r"\s+(?!because|since|as\b|is\b|or\b|and\b)[a-z]", re.IGNORECASE)
_DENIED = re.compile(
    r"(?:(?<![a-z])not|n't|(?<![a-z])but|except|\u4e0d\u9009|\u4e0d\u662f|\u9664\u4e86|\u6392\u9664)"
    r"(?:\s*(?:for|option|choice|\u9009\u9879))*\s*[(\[]*[A-Z](?![A-Za-z])"
    r"|(?<![A-Za-z])[A-Z][)\].:]*\s*(?:isn't|is\s+(?:not|wrong|incorrect|false)(?![a-z])"
    r"|\u662f?\u9519|\u4e0d\u5bf9|\u4e0d\u6b63\u786e|\u4e0d\u662f)"
)
"""A letter that is named to be refused."""


def read_choice(text: str, labels: dict[str, str]) -> str | None:
    """The letter of the option that an answer names.

    Args:
        labels: letter -> text of the options; empty where the row has none, then every letter is allowed.

    >>> labels = {"A": "a red kettle", "B": "a blue bicycle", "C": "A dog runs"}
    >>> read_choice("(B) a blue bicycle", labels), read_choice("A dog runs", labels), read_choice("A or B", labels)
    ('B', 'C', None)
    """
    text = plain(text)
    in_json = _IN_JSON.match(text)
    text = in_json[1] if in_json else text
    letter = _whole(text, labels)
    if letter is None:
        phrase = _LEAD_PHRASE.match(text)
        rest = plain(text[phrase.end() :]) if phrase else text
        letter = _whole(rest, labels) or _beside_text(rest, labels)
        if letter is None and not _DENIED.search(text):
            letter = _explained(rest, labels) or _named(text, labels)
    return letter if letter and letter in (labels or string.ascii_uppercase) else None


def _whole(text: str, labels: dict[str, str]) -> str | None:
    """The whole text is one decorated letter or one option's text."""
    lone = _LONE.match(text)
    if lone:
        return lone[1].upper()
    named = _NAMED_LABEL.match(text)
    if named:
        letter = (named[1] or chr(ord("A") - 1 + min(int(named[2]), 26))).upper()
        if named.end() == len(text) or _is_text_of(text[named.end() :], letter, labels):
            return letter
    folded = fold(text)
    same = [letter for letter, option in labels.items() if folded and fold(option) == folded]
    return same[0] if len(same) == 1 else None


def _beside_text(text: str, labels: dict[str, str]) -> str | None:
    """A letter before or after its own option's text, whatever marks stand between: "B) a bicycle", "a bicycle (B)"."""
    head, tail = _HEAD.match(text), _TAIL.search(text, max(0, len(text) - _TAIL_CHARS))
    if head and _is_text_of(text[head.end() :], head[1].upper(), labels):
        return head[1].upper()
    return tail[1].upper() if tail and _is_text_of(text[: tail.start()], tail[1].upper(), labels) else None


def _explained(text: str, labels: dict[str, str]) -> str | None:
    """A letter at the start, a mark, and an explanation that names no other option."""
    head = _HEAD.match(text)
    if head is None:
        return None
    rest = text[head.end() :]
    if not (_MARKED.match(rest) or (head[1].isupper() and _EXPLAINED.match(rest))):
        return None
    letter, lone = head[1].upper(), _LONE.match(rest.lstrip(_MARKS))
    folded = fold(rest.lstrip(_MARKS))
    names_another = any(fold(option) == folded for option in labels.values()) or _others(rest, letter, labels)
    return None if names_another or lone else letter


def _is_text_of(text: str, letter: str, labels: dict[str, str]) -> bool:
    if letter not in labels:
        return False
    wanted = fold(labels[letter])
    return bool(wanted) and wanted in (fold(text), fold(text.strip(_MARKS)))


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
    for match in _STANDALONE.finditer(text):
        other = (match[1] or match[2]).upper()
        if other != letter and other in allowed and (match[2] or not _is_word(text, match.start())):
            return True
    return False


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
    letter = _read_answer(sample, sample.gold)
    if letter is None:
        allowed = ", ".join(labels) or "A-Z"
        raise bad_gold(sample, f"a multiple-choice answer is one of the letters {allowed}")
    return letter


TASK = Task(
    read_gold=_read_gold,
    read_answer=_read_answer,
    accuracy=lambda answer, gold: float(answer == gold),
)
