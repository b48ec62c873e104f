"""Multiple choice: one letter of the options, or exactly one option's text; two candidates are no answer."""

from __future__ import annotations

import functools
import re
import string

from easyvideor1.problem_types import are_numbered, option_labels
from easyvideor1.rewards.folding import fold
from easyvideor1.rewards.leads import ANSWER_LEAD, OPTION_WORD
from easyvideor1.rewards.parse import plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample

SHORT_CHARS = 200
_MARKS = " \t\n()[]{}<>-=.,:;*_\"'\u2192\u3001\u3002"
_WRAP = r"[\s(\[{<\"'*_\u201c\u2018\u300a\u300c\u3010\u3014]*"
_UNWRAP = r"[\s)\]}>\"'*_.,:;!?\u201d\u2019\u300b\u300d\u3011\u3015\u3001\u3002]*"
_LONE = re.compile(rf"{_WRAP}([A-Za-z]){_UNWRAP}\Z")
_LABELLED = re.compile(rf"{_WRAP}(?i:{OPTION_WORD})\s*#?{_WRAP}([A-Z]){_UNWRAP}\Z")
_PLACE = re.compile(rf"{_WRAP}(?:(?P<word>{OPTION_WORD})\s*#?\s*)?(?P<number>\d{{1,2}}){_UNWRAP}\Z", re.IGNORECASE)
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "1st": 1, "2nd": 2, "3rd": 3}
_ORDINALS |= {f"{place}th": place for place in range(4, 27)}
_ORDINAL = re.compile(rf"{_WRAP}(?:the )?({'|'.join(_ORDINALS)}) (?:{OPTION_WORD}|one){_UNWRAP}\Z", re.IGNORECASE)
_IN_JSON = re.compile(r"\{\s*[\"']?(?:answer|option|choice|letter)[\"']?\s*:\s*([^{}\[\]]*)\}\Z", re.IGNORECASE)
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
_REFUSED_TEXT = re.compile(
    r"(?:(?<![^\W\d_])(?:not|no|never|than|instead of|unlike|without|nor|neither)|n't)(?: an?| the)? \Z"
)
LONG_EXPLANATION_WORDS = 8
"""In an explanation of this many words or more, a word such as "red" is no longer taken for the option of that name."""


def read_choice(text: str, labels: dict[str, str], *, numbered: bool = False) -> str | None:
    """The letter of the option that an answer names.

    Args:
        labels: letter -> text of the options; empty where the row has none, then every letter is allowed.
        numbered: the options carry the numbers 1, 2, .., so that a bare number names one.

    >>> labels = {"A": "a red kettle", "B": "a blue bicycle", "C": "A dog runs"}
    >>> read_choice("(B) a blue bicycle", labels), read_choice("A dog runs", labels), read_choice("A or B", labels)
    ('B', 'C', None)
    """
    text = plain(text)
    in_json = _IN_JSON.match(text)
    text = in_json[1] if in_json else text
    letter = _read(text, labels, numbered)
    return letter if letter and letter in (labels or string.ascii_uppercase) else None


def _read(text: str, labels: dict[str, str], numbered: bool) -> str | None:
    """The letter, from the plainest forms on; the dear ones, which look at every option, come last."""
    phrase = ANSWER_LEAD.match(text)
    rest = plain(text[phrase.end() :]) if phrase else text
    letter = _lone(text) or (_lone(rest) if phrase else None) or _labelled_text(text, labels)
    if letter is None:
        letter = _option_of(text, labels, numbered)
    place = _PLACE.match(text)
    if letter is None and not (place and place["word"]):
        letter = (_option_of(rest, labels, numbered) if phrase else None) or _beside_text(rest, labels)
        if letter is None and not _DENIED.search(text):
            letter = _explained(rest, labels) or _named(text, labels)
    return letter


def _lone(text: str) -> str | None:
    """The whole text is one decorated letter."""
    lone = _LONE.match(text) or _LABELLED.match(text)
    return lone[1].upper() if lone else None


_LABEL = re.compile(r"[(\[]?([A-Z])(?:[)\]]|[.:](?![A-Za-z0-9]))")


def _labelled_text(text: str, labels: dict[str, str]) -> str | None:
    """A letter with a mark, and its own option's text: "B. a blue bicycle"."""
    label = _LABEL.match(text)
    return label[1] if label and _is_text_of(text[label.end() :], label[1], labels) else None


def _option_of(text: str, labels: dict[str, str], numbered: bool) -> str | None:
    """The whole text is one option's text, or the place of an option."""
    folded = fold(text)
    same = [letter for letter, option in labels.items() if folded and fold(option) == folded]
    return same[0] if len(same) == 1 else None if same else _by_place(text, labels, numbered)


def _by_place(text: str, labels: dict[str, str], numbered: bool) -> str | None:
    """ "Option 2" or "the second one"; not where an option's text is a number that could be meant."""
    ordinal = _ORDINAL.match(text)
    if ordinal:
        return chr(ord("A") + _ORDINALS[ordinal[1].lower()] - 1)
    number = _PLACE.match(text)
    if number is None or not (number["word"] or numbered):
        return None
    is_text = any(fold(option) == number["number"].lstrip("0") for option in labels.values())
    return chr(ord("A") + int(number["number"]) - 1) if int(number["number"]) in range(1, 27) and not is_text else None


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
    names_another = _others(rest, letter, labels) or _other_texts(rest, letter, labels)
    return None if names_another or lone else letter


def _is_text_of(text: str, letter: str, labels: dict[str, str]) -> bool:
    if letter not in labels:
        return False
    wanted = fold(labels[letter])
    return bool(wanted) and wanted in (fold(text), fold(text.strip(_MARKS)))


def _named(text: str, labels: dict[str, str]) -> str | None:
    """One explicit phrase ("I choose B", "the answer is (C)") and no other letter or option's text."""
    found = {match[1].upper() for match in _NAMED.finditer(text) if not _is_word(text, match.start(1))}
    if len(found) != 1:
        return None
    letter = found.pop()
    return None if _others(text, letter, labels) or _other_texts(text, letter, labels) else letter


def _others(text: str, letter: str, labels: dict[str, str]) -> bool:
    """True where the text names a letter of another option."""
    allowed = labels or string.ascii_uppercase
    for match in _STANDALONE.finditer(text):
        other = (match[1] or match[2]).upper()
        if other != letter and other in allowed and (match[2] or not _is_word(text, match.start())):
            return True
    return False


def _other_texts(text: str, letter: str, labels: dict[str, str]) -> bool:
    """True where the text names another option by its text, not only to refuse it."""
    words = f" {fold(text.lstrip(_MARKS))} "
    own = fold(labels.get(letter, ""))
    rest = words.replace(f" {own} ", " ") if own else words
    is_long = rest.count(" ") > LONG_EXPLANATION_WORDS
    for label, option in labels.items():
        other = fold(option)
        if label == letter or not other or other in own or (is_long and " " not in other):
            continue
        place = rest.find(f" {other} ")
        if place >= 0 and not _REFUSED_TEXT.search(rest[: place + 1]):
            return True
    return False


def _is_word(text: str, place: int) -> bool:
    """True for the article "a", the pronoun "I", and small letters that begin a phrase."""
    char = text[place]
    goes_on = bool(_ARTICLE.match(text, place + 1))
    return goes_on and (char in "AaI" or char.islower())


def choice_in_prose(text: str, labels: dict[str, str], *, numbered: bool = False) -> str | None:
    """The letter that free text ends on: a line of its own, one letter in all of it, or one option's text.

    >>> choice_in_prose("It has two wheels.\\n\\n(B)", {"A": "a kettle", "B": "a bicycle"})
    'B'
    >>> choice_in_prose("I can see a bicycle near the door", {"A": "a kettle", "B": "a bicycle"})
    'B'
    """
    text = plain(text)
    lines = [line for line in text.splitlines() if line.strip()]
    letter = read_choice(lines[-1], labels, numbered=numbered) if len(lines) > 1 else None
    if letter is not None:
        return letter
    allowed = labels or string.ascii_uppercase
    letters = {
        (match[1] or match[2]).upper()
        for match in _STANDALONE.finditer(text)
        if match[2] or not _is_word(text, match.start())
    }
    letters &= set(allowed)
    if letters:
        letter = letters.pop()
        return None if letters or _DENIED.search(text) or _other_texts(text, letter, labels) else letter
    words = f" {fold(text)} "
    named = [label for label, option in labels.items() if fold(option) and f" {fold(option)} " in words]
    # An option whose text holds another one's names that one too: the longer one is meant.
    named = [label for label in named if not any(_holds(labels, other, label) for other in named)]
    return named[0] if len(named) == 1 else None


def _holds(labels: dict[str, str], outer: str, inner: str) -> bool:
    return outer != inner and f" {fold(labels[inner])} " in f" {fold(labels[outer])} "


def lone_letter(text: str, num_options: int) -> str | None:
    """The letter that a whole text is, with marks around it or without; None for a text that is more than that.

    >>> lone_letter("(B)", 4), lone_letter("a", 0), lone_letter("E", 4), lone_letter("B or C", 4)
    ('B', 'A', None, None)
    """
    lone = _LONE.match(text)
    if lone is None:
        return None
    letter = lone[1].upper()
    return letter if not num_options or ord(letter) - ord("A") < num_options else None


@functools.lru_cache(maxsize=8192)
def _read_short(text: str, options: tuple[str, ...]) -> str | None:
    """`read_choice` remembered: golds, and most answers, come many times."""
    return read_choice(text, option_labels(options), numbered=are_numbered(options))


def _read_answer(sample: Sample, text: str) -> str | None:
    text = text.strip()
    if len(text) > SHORT_CHARS:
        return read_choice(text, option_labels(sample.options), numbered=are_numbered(sample.options))
    # Most answers are a letter, whose option need not be looked at.
    return lone_letter(text, len(sample.options)) or _read_short(text, sample.options)


def _read_gold(sample: Sample) -> str:
    labels = option_labels(sample.options)
    letter = _read_answer(sample, sample.gold)
    if letter is None:
        allowed = ", ".join(labels) or "A-Z"
        raise bad_gold(
            sample,
            f"a multiple-choice answer is one of the letters {allowed}",
            remedy="write one letter; several right letters are problem_type 'multiple select'",
        )
    return letter


TASK = Task(
    read_gold=_read_gold,
    read_answer=_read_answer,
    read_prose=lambda sample, text: choice_in_prose(
        text, option_labels(sample.options), numbered=are_numbered(sample.options)
    ),
    accuracy=lambda answer, gold: float(answer == gold),
)
