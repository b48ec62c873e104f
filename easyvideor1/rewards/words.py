"""Cutting text into words: runs of letters and digits, and single characters in scripts without spaces."""

from __future__ import annotations

import functools
import re
import unicodedata

import snowballstemmer

from easyvideor1.rewards.folding import DASHES, QUOTES, one_width, visible

_NO_SPACES = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Tibetan, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_SINGLE = re.compile(f"[{_NO_SPACES}]")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_STEMMER = snowballstemmer.stemmer("porter")


def text_words(text: str) -> list[str]:
    """Words for comparing meaning: folded case and width, no marks, English endings stemmed, CJK one by one.

    >>> text_words("Two cats are running!"), text_words("\u4e00\u53ea\u732b")
    (['two', 'cat', 'are', 'run'], ['\u4e00', '\u53ea', '\u732b'])
    """
    text = one_width(visible(text)).casefold()
    if text.isascii():
        words = _ASCII_WORD.findall(text)
    else:
        spaced = _SINGLE.sub(lambda match: f" {match[0]} ", text)
        words = "".join(char if _is_letter(char) else " " for char in spaced).split()
    return [_stem(word) if len(word) > 3 else word for word in words]


def printed_words(text: str) -> list[str]:
    """Words for comparing print: everything between spaces, marks included, CJK one by one.

    Case, width and the kinds of quotes and dashes are folded; superscripts and circled digits are not.

    >>> printed_words("Gate 5/\u51fa\u53e3"), printed_words("it\u2019s x\u00b2")
    (['gate', '5/', '\u51fa', '\u53e3'], ["it's", 'x\u00b2'])
    """
    text = one_width(visible(text).translate(QUOTES)).casefold()
    if text.isascii():
        return text.split()
    text = text.translate(DASHES)
    return _SINGLE.sub(lambda match: f" {match[0]} ", text).split()


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return _STEMMER.stemWord(word) if word.isascii() else word


def _is_letter(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"  # marks carry vowels in Indic and Thai scripts
