"""HTML text -> its tree of tags, visible words and styling, by the standard library's tokenizer; nothing is run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser

from rapidfuzz.distance import Indel

from easyvideor1.rewards.styles import Names, Sheet, hides, names_of
from easyvideor1.rewards.words import printed_words

MAX_TAGS = 5000
TREE_SHARE, WORDS_SHARE, STYLE_SHARE = 0.4, 0.4, 0.2
"""Shares of the likeness where the gold page is styled; otherwise the tree and the words count one half each."""
_VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
}  # fmt: skip
_UNSEEN = {"script", "style", "head", "template", "noscript", "datalist"}
_CLOSED = {"details": "summary", "dialog": ""}
"""Elements that show nothing but the tag named here unless they are open."""
_SHOWN_ATTRIBUTES = ("alt", "placeholder", "value", "label")

_NAMELESS: Names = frozenset()
Styling = Counter[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Page:
    """The visible content of a page and its structure."""

    tags: tuple[str, ...]
    """"div" where an element opens and "/div" where it closes, in order."""
    words: tuple[str, ...]
    """Visible words; the title counts as visible."""
    styling: Styling
    """(tag, property, value) -> visible elements for which it is declared."""


def read_html(text: str) -> Page | None:
    """A page; None for text without any element, or with too many of them, or mostly of tags that never end."""
    if text.count("<") > 50 + 4 * text.count(">"):
        return None  # the tokenizer looks for the end of each of them, all through the text
    reader = _Reader(_sheet(text))
    reader.feed(text)
    reader.close()
    page = reader.page()
    return page if page.tags and len(page.tags) <= 2 * MAX_TAGS else None


def page_likeness(page: Page, gold: Page) -> float:
    """How alike two pages are by their trees of tags, their visible words, and the styling of visible elements."""
    tree = Indel.normalized_similarity(page.tags, gold.tags)
    if gold.words:
        words = Indel.normalized_similarity(page.words, gold.words)
    else:
        words = tree if not page.words else 0.0
    if not gold.styling:
        return 0.5 * tree + 0.5 * words
    shared = (page.styling & gold.styling).total()
    styling = 2 * shared / (page.styling.total() + gold.styling.total())
    return TREE_SHARE * tree + WORDS_SHARE * words + STYLE_SHARE * styling


def _sheet(text: str) -> Sheet:
    """The rules of all style sheets of a page, wherever they stand."""
    sheets = _Sheets()
    if "<style" in text.lower():
        sheets.feed(text)
        sheets.close()
    return sheets.sheet


class _Sheets(HTMLParser):
    """Collects the style sheets of a page, wherever they stand."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sheet = Sheet()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.sheet.add(data)


class _Reader(HTMLParser):
    def __init__(self, sheet: Sheet) -> None:
        super().__init__(convert_charrefs=True)
        self._sheet, self._has_rules = sheet, not sheet.is_empty
        self._tags: list[str] = []
        self._words: list[str] = []
        self._styling: Styling = Counter()
        self._open: list[tuple[str, bool]] = []
        """Open elements, and whether each hides what is in it."""
        self._names: list[Names] = []
        """Names of the open elements, for the rules of style sheets."""
        self._num_hiding = 0

    def page(self) -> Page:
        closing = (f"/{tag}" for tag, _ in reversed(self._open))
        return Page((*self._tags, *closing), tuple(self._words), self._styling)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(self._tags) > 2 * MAX_TAGS:
            return
        attributes = {name: value or "" for name, value in attrs}
        names = names_of(tag, attributes) if self._has_rules else _NAMELESS
        is_styled = self._has_rules or "style" in attributes
        style = self._sheet.of(names, attributes, self._names) if is_styled else {}
        is_hiding = tag in _UNSEEN or hides(style) or "hidden" in attributes or attributes.get("type") == "hidden"
        is_hiding = is_hiding or (tag in _CLOSED and "open" not in attributes)
        self._tags.append(tag)
        parent = self._open[-1][0] if self._open else ""
        is_shown_in_closed = _CLOSED.get(parent) == tag and self._num_hiding == 1
        if not is_hiding and (not self._num_hiding or is_shown_in_closed):
            self._styling.update((tag, name, value) for name, value in style.items())
            for name in _SHOWN_ATTRIBUTES:
                if attributes.get(name):
                    self._words += printed_words(attributes[name])
        if tag not in _VOID:
            self._open.append((tag, is_hiding))
            self._names.append(names)
            self._num_hiding += is_hiding

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self._open and self._open[-1][0] == tag:
            self._close()

    def handle_endtag(self, tag: str) -> None:
        is_innermost = bool(self._open) and self._open[-1][0] == tag
        if not is_innermost and not any(name == tag for name, _ in self._open[-50:]):
            return  # a stray closing tag; no real page nests unclosed elements deeper
        while self._open[-1][0] != tag:
            self._close()
        self._close()

    def handle_data(self, data: str) -> None:
        innermost = self._open[-1][0] if self._open else ""
        if not self._num_hiding or innermost == "title" or self._is_summary():
            self._words += printed_words(data)

    def _is_summary(self) -> bool:
        """True inside the summary of a closed element, where nothing else hides."""
        if self._num_hiding != 1:
            return False
        place = next(place for place, (_, is_hiding) in enumerate(self._open) if is_hiding)
        shown = _CLOSED.get(self._open[place][0], "")
        return bool(shown) and place + 1 < len(self._open) and self._open[place + 1][0] == shown

    def _close(self) -> None:
        tag, is_hiding = self._open.pop()
        self._names.pop()
        self._num_hiding -= is_hiding
        self._tags.append(f"/{tag}")
