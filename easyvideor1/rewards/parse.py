"""Reading responses: the answer block after the thinking, and the decorations that models put around an answer.

Every scan here is linear in the text, because a degenerate policy writes floods of tags, spaces and digits.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

MAX_ANSWER_CHARS = 16_384
"""A longer answer is no answer."""
MAX_LONG_CHARS = 65_536
"""The same for boxes of many frames, and for SVG, HTML and program text."""

_TAG = re.compile(r"<(/?)(answer|think)>", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """The parts of a response text."""

    answers: tuple[str, ...]
    """Contents of the complete answer blocks after the thinking."""
    has_one_thought: bool
    """Exactly one closed, non-empty think block, at the start (its opening tag may be part of the prompt)."""

    @property
    def answer(self) -> str | None:
        """The last block; None where there is none or where blocks disagree."""
        return self.answers[-1] if self.answers and not self.is_contradictory else None

    @property
    def is_contradictory(self) -> bool:
        return len(self.answers) > 1 and len({fold(answer) for answer in self.answers}) > 1


def read_response(text: str) -> Response:
    """Split a response into thinking and answer blocks.

    Text up to the last `</think>` is thinking, and so is everything after an unclosed `<think>`; answer tags in there
    do not count. A closing tag belongs to the nearest opening tag before it.

    >>> read_response("<think>Is it <answer>A</answer>?</think><answer>B</answer>").answers
    ('B',)
    """
    tags = [(match[2].lower(), bool(match[1]), match.start(), match.end()) for match in _TAG.finditer(text)]
    thoughts = [index for index, (name, is_closing, _, _) in enumerate(tags) if name == "think" and is_closing]
    after = tags[thoughts[-1] + 1 :] if thoughts else tags
    answers, opened_at = [], None
    for name, is_closing, start, end in after:
        if name == "think":  # an unclosed one: the rest is thinking
            break
        if not is_closing:
            opened_at = end
        elif opened_at is not None:
            answers.append(text[opened_at:start])
            opened_at = None
    return Response(answers=tuple(answers), has_one_thought=len(thoughts) == 1 and _is_one_thought(text, tags))


def _is_one_thought(text: str, tags: list[tuple[str, bool, int, int]]) -> bool:
    thinks = [(is_closing, start, end) for name, is_closing, start, end in tags if name == "think"]
    opens = [(start, end) for is_closing, start, end in thinks if not is_closing]
    closed_at = next(start for is_closing, start, _ in thinks if is_closing)
    if not opens:
        return not text[:closed_at].isspace() and closed_at > 0
    start, end = opens[0]
    return len(opens) == 1 and start < closed_at and not text[:start].strip() and bool(text[end:closed_at].strip())


_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """The text without characters that no reader sees: zero-width spaces and joiners, byte-order and direction marks.

    >>> visible("\u200bB\ufeff")
    'B'
    """
    return text if text.isascii() else _UNSEEN.sub("", text)


def fold(text: str) -> str:
    """Text for comparison: one width, one case, single spaces, no quotes, commas or sentence marks around words.

    Marks inside numbers stay, so that "1.5" and "15" remain different.

    >>> fold(' "A Dog,  runs." '), fold("1.5"), fold("-3")
    ('a dog runs', '1.5', '-3')
    """
    text = unicodedata.normalize("NFKC", visible(text)).casefold().replace("\N{MINUS SIGN}", "-")
    text = re.sub(r"[\"'`\u2018\u2019\u201c\u201d\u300c\u300d]|[.,;:!?\u3002](?!\d)", " ", text)
    return " ".join(text.split())


_SUPERSCRIPTS = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b", "0123456789-")
_SUPERSCRIPT_RUN = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b]+")
_MIXED_FRACTION = re.compile("(?<=\\d)(?=[\u00bc-\u00be\u2150-\u215e])")
_DASHES = str.maketrans(
    {"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2015": "-"}
)
_COATS = re.compile(r"[$\\*`]|__")
_BOLD = re.compile(r"(?<![A-Za-z0-9)\]}])\*\*|\*\*(?![A-Za-z0-9(\[{-])|__")
"""Two stars between two operands are a power: 2**10."""
_FENCE = re.compile(r"\s*```[A-Za-z0-9_+-]*[ \t]*\n?")


def plain(text: str) -> str:
    """The answer without width variants, fences, bold marks, math delimiters and `\\boxed{}`; not for OCR or code.

    >>> plain("$\\\\boxed{\\\\text{B}}$"), plain("**\uff17**"), plain("5 m\u00b2")
    ('B', '7', '5 m^2')
    """
    if text.isascii() and not _COATS.search(text):
        return text.strip()  # the commonest answers wear nothing
    text = _SUPERSCRIPT_RUN.sub(lambda match: "^" + match[0].translate(_SUPERSCRIPTS), visible(text))
    text = _MIXED_FRACTION.sub(" ", text)  # or 2 and 3/4 would become 23/4
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).replace("\u2044", "/")
    text = _BOLD.sub("", unfenced(text)).strip().strip("`").strip()
    for _ in range(4):  # "$\boxed{\text{B}}$" wears three coats
        bare = _without_coat(text)
        if bare == text:
            break
        text = bare
    return text


def unfenced(text: str) -> str:
    """The content of a code fence that encloses the whole text.

    >>> unfenced("```json\\n[1]\\n```")
    '[1]'
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        opening = _FENCE.match(text)
        return text[opening.end() if opening else 3 : -3].strip()
    return text


def code_in(text: str) -> str:
    """The program in an answer: the one fenced block, whatever is said around it, or else the whole text.

    >>> code_in("Here it is:\\n```html\\n<p>Hi</p>\\n```\\nDone."), code_in("```html\\n<p>Hi</p>"), code_in("<p>Hi</p>")
    ('<p>Hi</p>', '<p>Hi</p>', '<p>Hi</p>')
    """
    start, end = text.find("```"), text.rfind("```")
    if start == end and text.lstrip().startswith("```"):  # the closing fence was forgotten
        return unfenced(text + "\n```")
    return unfenced(text[start : end + 3] if text.count("```") == 2 else text)


_MATH_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


def _without_coat(text: str) -> str:
    for opening, closing in _MATH_DELIMITERS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner:
                return inner.strip()
    box = text.find(r"\boxed{")
    if box >= 0 and text.count(r"\boxed{") == 1:
        inner, end = braced(text, box + len(r"\boxed"))
        outside = text[:box] + text[end:]
        if end > 0 and not re.search(r"\d", outside):
            # Words around a box ("The answer is \boxed{B}") are not part of the answer.
            return inner.strip()
    for macro in (r"\text", r"\mathrm", r"\textbf", r"\mathbf"):
        if text.startswith(macro + "{") and text.endswith("}"):
            inner, end = braced(text, len(macro))
            if end == len(text):
                return inner.strip()
    return text


def braced(text: str, start: int) -> tuple[str, int]:
    """Content of the brace group at `start` and the place behind it; ("", 0) where it does not close.

    >>> braced("x{a{b}}c", 1)
    ('a{b}', 7)
    """
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return text[start + 1 : match.start()], match.end()
    return "", 0


_BARE_KEY = re.compile(r"([{,]\s*+)([A-Za-z_]\w*+|\d++(?:\.\d++)?)(\s*+:)")
_PYTHON_WORD = re.compile(r"\b(None|True|False)\b")
_PYTHON_WORDS = {"None": "null", "True": "true", "False": "false"}


def read_json(text: str) -> Any:
    """The one JSON value in an answer, Python spellings and curly quotes accepted; None where there is none.

    NaN and infinities come back as floats: whoever reads numbers out of the value must test them for finiteness.

    >>> read_json("It is {'time': (1, 2),}."), read_json("no")
    ({'time': [1, 2]}, None)
    """
    starts = [place for place in (text.find("{"), text.find("["), text.find("(")) if place >= 0]
    if not starts:
        return None
    start = min(starts)
    end = max(text.rfind("}"), text.rfind("]"), text.rfind(")"))
    body = text[start : end + 1]
    value = _loads(body)
    if value is None:
        value = _loads(_as_json(body))
    return value


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: floods of brackets
        return None


_CURLY_QUOTES = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")


def _as_json(text: str) -> str:
    text = text.translate(_CURLY_QUOTES)
    text = text.replace("(", "[").replace(")", "]")
    if '"' not in text:
        text = text.replace("'", '"')
    text = _PYTHON_WORD.sub(lambda match: _PYTHON_WORDS[match[1]], text)
    text = _BARE_KEY.sub(r'\1"\2"\3', text)
    return re.sub(r",(\s*+[}\]])", r"\1", text)


def finite(value: object) -> float | None:
    """A finite float from a JSON number or numeric string; None for anything else, booleans included.

    >>> finite("1.5"), finite(True), finite(float("nan")), finite([1])
    (1.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and not re.fullmatch(r"\s*[+-]?[\d.]{1,40}(?:[eE][+-]?\d{1,4})?\s*", value):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
