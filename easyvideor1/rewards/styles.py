"""The part of style sheets that a comparison of pages needs: declarations by tags, classes, ids and what holds them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from PIL import ImageColor

MAX_RULES = 500
MAX_STEPS, MAX_DEPTH = 8, 100
"""Most parts of a selector, and most elements around an element, that are looked at."""
MAX_DECLARATIONS = 50
"""Most declarations of one rule or element."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AT_BLOCK = re.compile(r"@[^{};]*+(?:;|\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\})")
_RULE = re.compile(r"([^{}]{1,500})\{([^{}]{0,5000})\}")
_SELECTOR = re.compile(r"(?P<tag>[\w-]+|\*)?(?:[.#][\w-]+)*\Z")
_PART = re.compile(r"[.#]?[\w-]+|\*")
MAX_VALUE_CHARS = 300
_WORD = re.compile(r"[\w-]+\([^()]*\)|[^\s()]+|[()]")
_ZERO_LENGTH = re.compile(r"[+-]?0*\.?0*(?:px|em|rem|pt|vh|vw)")
_ZERO = re.compile(r"0*(?:\.0+)?(?:px|em|rem|%|pt)?")
_FAR = re.compile(r"-\d{4,}(?:px|em|rem)?")
_NOUGHT = r"\s?0*(?:\.0+)?%?\s?"
_TRANSPARENT = re.compile(
    rf"transparent|(?:rgb|hsl)a?\((?:[^(),/]*,[^(),/]*,[^(),/]*,|[^(),/]*/){_NOUGHT}\)|#[0-9a-f]{{3}}0|#[0-9a-f]{{6}}00"
)
_SCALED_AWAY = re.compile(r"scale[xy3d]*\((?:[^()]*,)?\s?0*(?:\.0+)?\s?(?:,[^()]*)?\)")
_CLIPPED_AWAY = re.compile(r"inset\(\s?(?:[5-9]\d|100)%.*|circle\(\s?0.*|rect\((?:\s?[01](?:px)?[\s,]?){4}\)")
_SIZES = ("width", "height", "max-width", "max-height")
_SHOWN_OVER = frozenset({"visible", "auto", "scroll", ""})

Declarations = Mapping[str, str]
Names = frozenset[str]
"""What a selector may call an element: its tag, `.class` of each of its classes, `#id`, and `*`."""


def names_of(tag: str, attributes: Mapping[str, str]) -> Names:
    """The names of an element."""
    names = {tag, "*"} | {f".{name}" for name in attributes.get("class", "").lower().split()}
    if attributes.get("id"):
        names.add(f"#{attributes['id'].lower()}")
    return frozenset(names)


class Sheet:
    """The rules of a page's style sheets; those for screens of some size and for states of an element are left out."""

    def __init__(self) -> None:
        self._rules: list[tuple[list[Names], dict[str, str]]] = []
        """(names that an element and the elements around it must have, from the outside in; declarations)."""

    @property
    def is_empty(self) -> bool:
        return not self._rules

    def add(self, text: str) -> None:
        """Read a style sheet; later rules come after earlier ones."""
        text = _AT_BLOCK.sub("", _COMMENT.sub("", text))
        for match in _RULE.finditer(text):
            found = declarations(match[2])
            for selector in match[1].split(","):
                steps = selector.replace(">", " ").split()
                is_known = 0 < len(steps) <= MAX_STEPS and all(map(_SELECTOR.match, steps))
                if is_known and len(self._rules) < MAX_RULES:
                    self._rules.append(([frozenset(_PART.findall(step.lower())) for step in steps], found))

    def of(self, names: Names, attributes: Mapping[str, str], around: Sequence[Names]) -> dict[str, str]:
        """The declarations that hold for an element, its own last.

        Args:
            around: names of the elements that it stands in, from the outside in.
        """
        found: dict[str, str] = {}
        for steps, rule in self._rules:
            if steps[-1] <= names and (len(steps) == 1 or _stand_around(steps[:-1], around)):
                found |= rule
        return found | declarations(attributes.get("style", ""))


def _stand_around(steps: Sequence[Names], around: Sequence[Names]) -> bool:
    """True where elements with the wanted names stand around, in that order."""
    left = list(steps)
    for names in reversed(around[-MAX_DEPTH:]):
        if left and left[-1] <= names:
            left.pop()
    return not left


def declarations(text: str) -> dict[str, str]:
    """Property -> value of "color: Red; margin:0", in lower case and with single spaces.

    >>> declarations("color: Red ; margin:0 !important")
    {'color': '#ff0000', 'margin': '0'}
    """
    pairs = (part.partition(":") for part in text.split(";")[:MAX_DECLARATIONS])
    return {
        name.strip().lower(): _one_spelling(value.replace("!important", " ").lower().strip()[:MAX_VALUE_CHARS])
        for name, colon, value in pairs
        if colon and name.strip()
    }


@functools.lru_cache(maxsize=4096)
def _one_spelling(value: str) -> str:
    """A value with its colours as #rrggbb, without units behind a 0."""
    return " ".join(map(_one_word, _WORD.findall(value)))


def _one_word(word: str) -> str:
    if _ZERO_LENGTH.fullmatch(word) and any(map(str.isdigit, word)):
        return "0"
    try:
        colour = ImageColor.getrgb(re.sub(r"\s*([(),%])\s*", r"\1", word))
    except ValueError:
        return word
    return word if len(colour) == 4 else f"#{colour[0]:02x}{colour[1]:02x}{colour[2]:02x}"


def hides(style: Declarations) -> bool:
    """True where declarations make an element invisible with all that is in it."""
    if not style:
        return False
    if style.get("display") == "none" or style.get("visibility") in ("hidden", "collapse"):
        return True
    if any(_ZERO.fullmatch(style[name]) for name in ("opacity", "font-size") if style.get(name)):
        return True
    if style.get("content-visibility") == "hidden" or _has_no_room(style):
        return True
    colour, ground = style.get("color", ""), style.get("background-color", style.get("background", ""))
    if _TRANSPARENT.fullmatch(colour) or (colour and colour == ground):
        return True
    if _SCALED_AWAY.search(style.get("transform", "")) or re.search(r"opacity\(0%?\)", style.get("filter", "")):
        return True
    if any(_CLIPPED_AWAY.fullmatch(style.get(name, "")) for name in ("clip-path", "clip")):
        return True
    return any(_FAR.fullmatch(style.get(name, "")) for name in ("left", "top", "text-indent", "margin-left"))


def _has_no_room(style: Declarations) -> bool:
    """True for an element of no size that shows nothing beyond it."""
    is_cut = style.get("overflow", style.get("overflow-y", "")) not in _SHOWN_OVER
    return is_cut and any(_ZERO.fullmatch(style[name]) for name in _SIZES if style.get(name))
