"""Text folded for comparison: what looks the same becomes the same, and what does not stays apart."""

from __future__ import annotations

import re
import unicodedata

_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """The text without characters that no reader sees: zero-width spaces and joiners, byte-order and direction marks.

    >>> visible("\u200bB\ufeff")
    'B'
    """
    return text if text.isascii() else _UNSEEN.sub("", text)


class _Widths(dict[int, str]):
    """Character -> its common form, for `str.translate`; filled in as characters are met."""

    # A superscript two is no two, a circled one no one and a half no "1/2".
    KEPT = ("<super>", "<sub>", "<circle>", "<fraction>")

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind = unicodedata.decomposition(char).split(" ")[0]
        is_variant = kind.startswith("<") and kind not in self.KEPT
        self[code] = unicodedata.normalize("NFKC", char) if is_variant else char
        return self[code]


_WIDTHS = _Widths()


def one_width(text: str) -> str:
    """The text with full-width, half-width, ligature and styled characters as common ones.

    Unlike Unicode's NFKC it keeps superscripts, circled digits and fractions, which say something else.

    >>> one_width("\uff21\uff11 \ufb01n x\u00b2")
    'A1 fin x\u00b2'
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).translate(_WIDTHS))


QUOTES = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4\u02b9\u02bb\u02bc\u02bd\uff07`", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u300c\u300d\u300e\u300f", '"')
)
DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-"))

_MARKS = re.compile(r"[\"']|[.,;:!?\u3002\u3001](?!\d)")


def fold(text: str) -> str:
    """Text for comparison: one width, one case, single spaces, no quotes, commas or sentence marks around words.

    Marks inside numbers stay, so that "1.5" and "15" remain different.

    >>> fold(' "A Dog,  runs." '), fold("1.5"), fold("-3")
    ('a dog runs', '1.5', '-3')
    """
    if not text.isascii():
        text = one_width(visible(text).translate(QUOTES)).translate(DASHES)
    return " ".join(_MARKS.sub(" ", text.casefold().replace("`", " ")).split())
