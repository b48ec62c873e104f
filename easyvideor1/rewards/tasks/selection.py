"""Multiple select: all the right letters and no other; the order does not count."""

from __future__ import annotations

import re
import string

from easyvideor1.problem_types import are_numbered, option_labels
from easyvideor1.rewards.json_text import read_json
from easyvideor1.rewards.leads import ANSWER_LEAD
from easyvideor1.rewards.parse import plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.rewards.tasks.choice import read_choice
from easyvideor1.types import Sample

Letters = frozenset[str]
_RUN = re.compile(r"[(\[]?\s*([A-Z](?:\s?[A-Z])+)\s*[)\]]?[.\u3002]?")
_SEPARATOR = re.compile(
    r"\s*(?:[,;&+/|\n]|\u3001|\uff0c|\uff1b|(?<![A-Za-z])(?:(?i:and)|as well as)(?![A-Za-z])|[\u548c\u4e0e\u53ca])+\s*"
    r"|(?<=[)\]])\s*(?=[(\[])"
)
_HEADED = re.compile(r"(?:\A|(?<=[\s,;]))[(\[]?([A-Z])(?:[)\]]+[.:]?|[.:\u3001])\s*")
_AROUND = re.compile(
    r"\A(?:(?:the )?(?:correct |right |true )?(?:both|options?|choices?|letters?|answers?|statements?)"
    r"(?:\s?:| are:?)? )+"
    r"|\s+(?:are|is)(?: all)?(?: both)? (?:correct|right|true)\.?\Z",
    re.IGNORECASE,
)


def read_letters(text: str, labels: dict[str, str], *, numbered: bool = False) -> Letters | None:
    """The letters that an answer names, one or more; None where any part of it names no option.

    >>> sorted(read_letters("A and C", {}) or ()), read_letters("A or C", {})
    (['A', 'C'], None)
    """
    one = read_choice(text, labels, numbered=numbered)
    if one is not None:
        return frozenset(one)
    text = plain(text)
    lead = ANSWER_LEAD.match(text)
    if lead and not re.fullmatch(r"[A-Z]", text):
        text = plain(text[lead.end() :])
    text = _AROUND.sub("", text).replace(" AND ", ", ")
    parts = _parts(text, labels)
    letters = [read_choice(part, labels, numbered=numbered) for part in parts]
    if not letters or any(letter is None for letter in letters):
        return None
    return frozenset(letter for letter in letters if letter)


def _parts(text: str, labels: dict[str, str]) -> list[str]:
    """The parts of a list of options: a JSON list, a run of letters, letters with marks, or what commas part."""
    values = read_json(text) if "[" in text or "{" in text else None
    if isinstance(values, dict) and len(values) == 1:
        (values,) = values.values()
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return values
    run = _RUN.fullmatch(text)
    if run:
        letters = "".join(run[1].split())
        allowed = set(labels or string.ascii_uppercase)
        return list(letters) if len(set(letters)) == len(letters) and allowed.issuperset(letters) else []
    heads = list(_HEADED.finditer(text))
    if len(heads) > 1 and not text[: heads[0].start()].strip():
        ends = [head.start() for head in heads[1:]] + [len(text)]
        return [_without_joint(text[head.start() : end]) for head, end in zip(heads, ends, strict=True)]
    return [part for part in _SEPARATOR.split(text) if part.strip()]


def _without_joint(part: str) -> str:
    return re.sub(r"[\s,;]*(?:(?<![A-Za-z])and)?[\s,;]*\Z", "", part)


_LETTERS = re.compile(r"\s*[A-Z](?:\s?,\s?[A-Z])*\s*")


def _read(sample: Sample, text: str) -> Letters | None:
    if _LETTERS.fullmatch(text):  # most answers, whose options need not be looked at
        letters = frozenset(text.replace(",", "").replace(" ", "").strip())
        places = [ord(letter) - ord("A") for letter in letters]
        return None if sample.options and max(places) >= len(sample.options) else letters
    return read_letters(text, option_labels(sample.options), numbered=are_numbered(sample.options))


def _read_gold(sample: Sample) -> Letters:
    letters = _read(sample, sample.gold)
    if letters is None:
        allowed = ", ".join(option_labels(sample.options)) or "A-Z"
        raise bad_gold(sample, f"a multiple-select answer is letters of {allowed}, such as A,C")
    return letters


TASK = Task(
    read_gold=_read_gold,
    read_answer=_read,
    accuracy=lambda answer, gold: float(answer == gold),
    show=lambda letters: ", ".join(sorted(letters)),
)
