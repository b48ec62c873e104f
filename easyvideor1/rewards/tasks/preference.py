"""Which of two responses is better: the label of one, or a tie; two labels are no answer."""

from __future__ import annotations

import re

from easyvideor1.rewards.parse import plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample

_LABELS = {"1": "1", "a": "1", "one": "1", "first": "1", "2": "2", "b": "2", "two": "2", "second": "2"}
_LABELS |= {"\u4e00": "1", "\u4e8c": "2"}
_LONE = re.compile(r"[\W_]*(1|2|a|b|one|two|first|second)(?:st|nd)?[\W_]*\Z")
_NAMED = re.compile(
    r"(?<![a-z])(?:response|answer|assistant|candidate|model|option|output|reply|text|caption)s?"
    r"[\s_:#(\[\"']*(?:is |number |no\. ?)?[\s:#(\[\"']*(\d+|[a-z]|one|two)(?![a-z0-9])"
    r"|(?<![a-z])(?:the )?(first|second|1st|2nd)(?![a-z])"
    r"|(?:\u56de\u7b54|\u56de\u590d|\u7b54\u6848|\u54cd\u5e94|\u7b2c)\s*([12abAB\u4e00\u4e8c])"
)
_TIE = re.compile(
    r"(?<![a-z])(?:tie|tied|draw|equal|equally|equivalent|same|both)(?![a-z])|\u5e73\u5c40|\u5e73\u624b|\u4e00\u6837|\u76f8\u5f53"
)
_OPEN = re.compile(r"(?<![a-z])neither(?![a-z])")
_REFUSED = re.compile(r"(?<![a-z])(?:not|no|never|cannot)(?![a-z])|n't(?![a-z])|\u4e0d")
_WORSE = re.compile(
    r"(?<![a-z])(?:worse|worst|inferior|weaker|weakest|loses|lost|poorer|less \w+|least|wrong|incorrect|bad)(?![a-z])"
)
_CLAUSE_END = re.compile(r"[.,;:!?\n]|(?<![a-z])(?:because|since|as|but|while|which|who|and)(?![a-z])")


def read_preference(text: str) -> str | None:
    """ "1", "2" or "tie"; None for no label or several.

    >>> read_preference("Response A"), read_preference("It is a tie."), read_preference("Response 1 or Response 2")
    ('1', 'tie', None)
    """
    text = plain(text).lower()
    lone = _LONE.match(text)
    if lone:
        return _LABELS[lone[1]]
    found: set[str] = set()
    for match in _NAMED.finditer(text):
        label = next(group for group in match.groups() if group)
        if label == "a" and match[0].endswith("is a") and text[match.end() : match.end() + 1] == " ":
            continue  # "the answer is a tie"
        found.add(_LABELS.get(label.removesuffix("st").removesuffix("nd") if label[0].isdigit() else label, "other"))
    if _TIE.search(text):
        # "Both responses" is a tie, "both Response 1 and Response 2" names two labels.
        found.add("tie")
    if len(found) != 1 or _OPEN.search(text) or _is_turned(text):
        return None
    label = found.pop()
    return None if label == "other" else label


def _is_turned(text: str) -> bool:
    """True where the clause that names the label denies it, or says that it is the worse one."""
    names = [*_NAMED.finditer(text), *_TIE.finditer(text)]
    for start, end in map(re.Match.span, names):
        before = _CLAUSE_END.split(text[:start])[-1]
        behind = _CLAUSE_END.split(text[end:], maxsplit=1)[0]
        if _REFUSED.search(before) or _REFUSED.search(behind) or _WORSE.search(behind) or _WORSE.search(before):
            return True
    return False


def _read_gold(sample: Sample) -> str:
    label = read_preference(sample.gold)
    if label is None:
        raise bad_gold(sample, "a preference is Response 1, Response 2 or Tie")
    return label


TASK = Task(
    read_gold=_read_gold,
    read_answer=lambda sample, text: read_preference(text),
    accuracy=lambda answer, gold: float(answer == gold),
)
