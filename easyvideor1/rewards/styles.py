"""The part of style sheets that a comparison of pages needs: declarations of single tags, classes and ids."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_RULES = 500
MAX_DECLARATIONS = 50
"""Most declarations of one rule or element."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_AT_BLOCK = re.compile(r"@[^{};]*+(?:;|\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\})")
_RULE = re.compile(r"([^{}]{1,500})\{([^{}]{0,5000})\}")
_SELECTOR = re.compile(r"(?P<tag>[\w-]+|\*)?(?:[.#][\w-]+)*\Z")
_PART = re.compile(r"[.#]?[\w-]+|\*")
_ZERO = re.compile(r"0*(?:\.0+)?(?:px|em|rem|%|pt)?")
_FAR = re.compile(r"-\d{4,}(?:px|em|rem)?")

Declarations = Mapping[str, str]


class Sheet:
    """The rules of a page's style sheets; those for screens of some size and for states of an element are left out."""

    def __init__(self) -> None:
        self._rules: list[tuple[frozenset[str], dict[str, str]]] = []

    @property
    def is_empty(self) -> bool:
        return not self._rules

    def add(self, text: str) -> None:
        """Read a style sheet; later rules come after earlier ones."""
        text = _AT_BLOCK.sub("", _COMMENT.sub("", text))
        for match in _RULE.finditer(text):
            found = declarations(match[2])
            for selector in match[1].split(","):
                if _SELECTOR.match(selector.strip()) and selector.strip() and len(self._rules) < MAX_RULES:
                    self._rules.append((frozenset(_PART.findall(selector.strip().lower())), found))

    def of(self, tag: str, attributes: Mapping[str, str]) -> dict[str, str]:
        """The declarations that hold for an element, its own last."""
        names = {tag, "*"} | {f".{name}" for name in attributes.get("class", "").lower().split()}
        if attributes.get("id"):
            names.add(f"#{attributes['id'].lower()}")
        found: dict[str, str] = {}
        for selector, rule in self._rules:
            if selector <= names:
                found |= rule
        return found | declarations(attributes.get("style", ""))


def declarations(text: str) -> dict[str, str]:
    """Property -> value of "color: Red; margin:0", in lower case and with single spaces.

    >>> declarations("color: Red ; margin:0 !important")
    {'color': 'red', 'margin': '0'}
    """
    pairs = (part.partition(":") for part in text.split(";")[:MAX_DECLARATIONS])
    return {
        name.strip().lower(): " ".join(value.replace("!important", " ").lower().split())
        for name, colon, value in pairs
        if colon and name.strip()
    }


def hides(style: Declarations) -> bool:
    """True where declarations make an element invisible with all that is in it."""
    if not style:
        return False
    if style.get("display") == "none" or style.get("visibility") in ("hidden", "collapse"):
        return True
    if any(_ZERO.fullmatch(style[name]) for name in ("opacity", "font-size") if style.get(name)):
        return True
    return any(_FAR.fullmatch(style.get(name, "")) for name in ("left", "top", "text-indent", "margin-left"))
