"""HTML text -> its tree of tags and its visible words, by the standard library's tokenizer; nothing is run."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser

from rapidfuzz.distance import Indel

from easyvideor1.rewards.words import printed_words

MAX_TAGS = 5000
_VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
}  # fmt: skip
_UNSEEN = {"script", "style", "head", "template", "noscript"}
_SHOWN_ATTRIBUTES = ("alt", "placeholder", "value", "label")


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows and how it is built."""

    tags: tuple[str, ...]
    """"div" where an element opens and "/div" where it closes, in order."""
    words: tuple[str, ...]
    """Visible words; the title counts as visible."""


def read_html(text: str) -> Page | None:
    """A page; None for text without any element, or with too many of them, or mostly of tags that never end."""
    if text.count("<") > 50 + 4 * text.count(">"):
        return None  # the tokenizer looks for the end of each of them, all through the text
    reader = _Reader()
    reader.feed(text)
    reader.close()
    page = reader.page()
    return page if page.tags and len(page.tags) <= 2 * MAX_TAGS else None


def page_likeness(page: Page, gold: Page) -> float:
    """Half for the tree of tags, half for the visible words; the tree alone where the gold shows no words."""
    tree = Indel.normalized_similarity(page.tags, gold.tags)
    if not gold.words:
        return tree if not page.words else tree / 2
    return 0.5 * tree + 0.5 * Indel.normalized_similarity(page.words, gold.words)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._tags: list[str] = []
        self._words: list[str] = []
        self._open: list[str] = []
        self._unseen = 0

    def page(self) -> Page:
        closing = (f"/{tag}" for tag in reversed(self._open))
        return Page((*self._tags, *closing), tuple(self._words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(self._tags) > 2 * MAX_TAGS:
            return
        self._tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)
            self._unseen += tag in _UNSEEN
        for name, value in attrs:
            if name in _SHOWN_ATTRIBUTES and value:
                self._words += printed_words(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self._open and self._open[-1] == tag:
            self._close()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open[-50:]:  # a stray closing tag; no real page nests unclosed elements deeper
            return
        while self._open[-1] != tag:
            self._close()
        self._close()

    def handle_data(self, data: str) -> None:
        is_title = bool(self._open) and self._open[-1] == "title"
        if not self._unseen or is_title:
            self._words += printed_words(data)

    def _close(self) -> None:
        tag = self._open.pop()
        self._unseen -= tag in _UNSEEN
        self._tags.append(f"/{tag}")
