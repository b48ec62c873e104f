"""Whether the words around a number deny it, bound it or compute with it, so that it is no answer.

All texts here are in lower case, as `scan.normalized` gives them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from easyvideor1.rewards.numbers.scan import Numeral


def _alone(words: str) -> str:
    """The pattern of whole words."""
    return rf"(?<![a-z])(?:{words})(?![a-z])"


_TRIGGER = re.compile(
    r"[<>\u2264\u2265\u221a\u221b\u2211\u03c0\u00b1!+*/^?\\]|n't|"
    + _alone(
        r"not|never|no|none|cannot|neither|nor|without|except|excluding|excludes?|besides|unlike|wrong|incorrect|false"
        r"|mistaken"
        r"|impossible|rather|instead|other|different|but|than|at|up|over|under|above|below|beyond|exceed\w*|upwards?"
        r"|minimum|maximum|min|max|within|past|surpass\w*|as|less|more|fewer|greater|roots?|sqrt|squares?|cubes?"
        r"|squared"
        r"|cubed|half|twice|double|triple|thrice|quadruple|log|logarithm|power|ln|lg|sin|cos|tan|exp|factorial"
        r"|reciprocal"
        r"|inverse|opposite|absolute|plus|minus|times|divided|multiplied|doubled|halved|tripled|to the|or|and|tops|pi"
        r"|mod"
    )
    + "|[\u4e0d\u975e\u9519\u5927\u5c0f\u8d85\u591a\u5c11\u81f3\u6700\u4ee5\u4f59\u51e0\u6765"
    "\u4f4e\u9ad8\u6839\u534a\u7684\u9664]"
)
"""Words and signs of which one stands in every text that a rule below applies to."""

_CLAUSE_END = re.compile(
    r"[;!?:\n]|(?<!min)(?<!max)[.,](?=\s)|(?<![a-z])(?<!all )(?<!anything )(?<!nothing )but(?![a-z])"
    r"|[\uff0c\u3002\uff1b]"
)
_FILLER = (
    r"(?:\s*(?:or equal to|equal to|the|a|an|about|around|approximately|roughly|total of|some|that of|of|only"
    r"|[$\u20ac\u00a3({\[]))*\s*\Z"
)
_DENIED_BEFORE = re.compile(
    _alone(
        r"not|never|no longer|none|cannot|neither|nor|without|except|excluding|excludes?|besides|unlike|wrong|incorrect"
        r"|false"
        r"|impossible|rather than|instead of|other than|different from|all but|anything but"
    )
    + "|n't(?![a-z])|\u4e0d\u662f|\u4e0d\u7b49\u4e8e|\u5e76\u975e|\u975e"
)
_BOUND_BEFORE = re.compile(
    r"(?:(?<![a-z])(?:(?:more|less|other|[a-z]+er) than|at(?: the(?: very)?)? (?:least|most)|up to|over|under|above"
    r"|below"
    r"|beyond|exceed(?:s|ing|ed)?|surpass(?:es|ing|ed)?|upwards? of|as (?:many|few|much|little) as"
    r"|(?:minimum|maximum|min\.?|max\.?)(?: of)?|within|past|less|greater|fewer|more)"
    "|(?<![-=])[<>]=?|[\u2264\u2265]|\u5927\u4e8e|\u5c0f\u4e8e|\u591a\u4e8e|\u5c11\u4e8e|\u8d85\u8fc7|\u4f4e\u4e8e"
    "|\u9ad8\u4e8e"
    "|\u4e0d\u8db3|\u4e0d\u5230|\u81f3\u5c11|\u81f3\u591a|\u6700\u591a|\u6700\u5c11)" + _FILLER
)
_COMPUTED_BEFORE = re.compile(
    r"(?:(?<![a-z])(?:(?:roots?|squares?|cubes?|factorial|reciprocal|inverse|opposite|absolute value|logarithm"
    r"|power)(?: of)?"
    r"|half(?: of)?|twice|double|triple|thrice|quadruple|times|plus|minus|divided by|multiplied by|mod"
    r"|(?:sqrt|log|ln|lg|sin|cos|tan|exp|pi))"
    "|[\u221a\u221b\u2211\u03c0\u00b1]|\\+/?-|\u6839\u53f7|(?<=[a-z)])\\s?[*+/^]|\\\\[a-z]+)[\\s({\\[]*(?:the |a )?\\Z"
)
_DENIED_BEHIND = re.compile(
    r"[^.;!\n]{0,80}?(?:"
    + _alone("wrong|incorrect|false|mistaken|impossible")
    + r"|(?:(?<![a-z])not|n't)\s(?:be\s)?(?:the\s)?"
    + _alone("correct|right|true|answer|it|possible|valid|what|so")
    + "|\u662f?\u9519|\u4e0d\u5bf9|\u4e0d\u6b63\u786e|\u4e0d\u662f)"
    r"|[\s?,]*(?:(?:is|are|was|were)\s?)?(?:n't|not?|nope)\W*\Z|\s?\?\s*(?:no|not|nope)(?![a-z])"
)
_MORE_OR_LESS = (
    "more|less|fewer|above|below|higher|lower|greater|over|under|older|younger|up|beyond|longer|shorter|upwards?|so on"
)
_BOUND_BEHIND = re.compile(
    r"\s?\+(?!\s?\d)|(?:\s?[a-z%$/^.]{1,20}){0,3}?\s?[(,]?\s?(?:(?<!more )(?:or|and) (?:even )?"
    rf"(?:{_MORE_OR_LESS})(?![a-z])|(?<![a-z])(?:at (?:least|most)|minimum|maximum|min|max|tops)(?![a-z])|plus\W*\Z)"
    "|\\s?[\u591a\u4f59\u51e0\u6765]|[^\\s\\d]{0,4}?\u4ee5[\u4e0a\u4e0b\u5185]"
)
_COMPUTED_BEHIND = re.compile(
    r"\s?!|\s?(?:squared|cubed|factorial|doubled|halved|tripled)(?![a-z])"
    r"|\s?to the (?:power|nth|second|third|fourth|fifth|\w+ power)"
    r"|\s?(?:times|plus|minus|over|divided by|multiplied by|mod)\s[b-z](?![a-z])|\s?[*/^+]\s?[({\\]"
    r"|\s?[*^+]\s?[a-z](?![a-z])|/\s?[bdeopqruxyz](?![a-z])"
    r"|\s?(?:pi(?![a-z])|[\u03c0\u221a]|\\[a-z]+)"
    "|\u7684(?:\u5e73\u65b9|\u7acb\u65b9|\u9636\u4e58|\u4e00\u534a|\u4e24\u500d|[\\d.]+\u500d)|\u7684?\\s?0\\.5"
    "|\\s?\u9664\u4ee5"
)
_VARIABLE_BEHIND = re.compile(r"\s?[bdeopqruxyz](?![a-z0-9'.])|[ai](?![a-z0-9'.])")
"""7x, 7i: algebra. The other letters are units."""
_REACH_CHARS = 160


def is_silent(text: str) -> bool:
    """True where no word of a text could do anything to a number, so that `stands` need not be asked."""
    return _TRIGGER.search(text) is None


def is_term(text: str, end: int) -> bool:
    """True where a letter behind the number makes it a term of algebra, such as 7x."""
    return _VARIABLE_BEHIND.match(text, end) is not None


def stands(text: str, start: int, end: int) -> bool:
    """True where the number at a place is what the text says: not denied, bounded or computed with.

    >>> [stands(text, text.index("7"), text.index("7") + 1) for text in ("it is 7.", "not 7", "7 or more", "7!")]
    [True, False, False, False]
    """
    before = _clause_before(text, start)
    return not (
        _DENIED_BEFORE.search(before)
        or _BOUND_BEFORE.search(before)
        or _COMPUTED_BEFORE.search(before)
        or _DENIED_BEHIND.match(text, end)
        or _BOUND_BEHIND.match(text, end)
        or _COMPUTED_BEHIND.match(text, end)
    )


_CONCLUDED = re.compile(
    r"(?<![a-z])(?:is|are|was|were|equals?|be)(?: about| approximately| exactly| just| only| equal to| then)* ?[$(]?\Z"
)
_COMPUTATION = re.compile(
    r"\(?-?[\d.,]+\)?(?:\s?(?:[-+*/^x]|times|plus|minus|divided by)\s?\(?-?[\d.,]+\)?)+\s?=\s?[$]?\Z"
)
_OPERATOR = re.compile(r"\s?(?:[-+*/^x]|times|plus|minus|divided by|mod)\s?")


def is_computation(text: str, found: Sequence[Numeral]) -> bool:
    """True where a sign of arithmetic stands between two numbers: "4 + 4" is no 4."""
    return any(_OPERATOR.fullmatch(text, one.end, other.start) for one, other in itertools.pairwise(found))


_OPEN = re.compile(_alone("or|either|maybe|perhaps|could|might|if"))


def is_concluded(text: str, start: int) -> bool:
    """True where a text with several numbers ends by saying that what it is about is the one at a place.

    >>> text = "the number of residents who own all 4 is 73."
    >>> is_concluded(text, text.index("73")), is_concluded("room 4 has 6", 11)
    (True, False)
    """
    return _CONCLUDED.search(text, max(0, start - _REACH_CHARS), start) is not None and not _OPEN.search(text)


def is_result(text: str, first: int, last: Numeral) -> bool:
    """True where the last number is what an equals sign makes of all the others: "3 * 4 = 12".

    Args:
        first: place of the first number of the text.
    """
    if text.count("=") != 1 or text[last.end :].strip(" .)$]"):
        return False
    match = _COMPUTATION.search(text, max(0, first - 1), last.start)
    return match is not None and match.start() <= first


def is_denied(text: str, start: int) -> bool:
    """True where the clause before a place says that what follows is not so."""
    return _DENIED_BEFORE.search(_clause_before(text, start)) is not None


def _clause_before(text: str, start: int) -> str:
    before = text[max(0, start - _REACH_CHARS) : start]
    clause_at = max((clause_end.end() for clause_end in _CLAUSE_END.finditer(before)), default=0)
    return before[clause_at:]
