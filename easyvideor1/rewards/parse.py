"""Reading responses: the answer block after the thinking, without the marks that models put around an answer.

Every scan here is linear in the text, because a degenerate policy writes floods of tags, spaces and digits.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from easyvideor1.rewards.folding import DASHES, fold, one_width, visible

MAX_ANSWER_CHARS = 16_384
"""The longest answer that is read, in characters."""
MAX_LONG_CHARS = 65_536
"""The longest answer that is read for boxes of many frames, and for SVG, HTML and program text, in characters."""

_TAG = re.compile(r"<(/?)(answer|think)>", re.IGNORECASE)


class Response(NamedTuple):
    """The parts of a response text."""

    text: str
    answers: tuple[str, ...]
    """Contents of the complete answer blocks after the thinking."""
    thinking_ends_at: int
    """The place where the text after the last `</think>` begins; 0 where nothing was thought."""

    @property
    def answer(self) -> str | None:
        """The last block; None where there is none or where blocks disagree."""
        return self.answers[-1] if self.answers and not self.is_contradictory else None

    @property
    def is_contradictory(self) -> bool:
        return len(self.answers) > 1 and len({fold(answer) for answer in self.answers}) > 1

    @property
    def conclusion(self) -> str:
        """The text after the thinking, tags and all; what an unclosed `<think>` opens is no part of it."""
        rest = self.text[self.thinking_ends_at :]
        unclosed = re.search(r"<think>", rest, re.IGNORECASE)
        return rest[: unclosed.start()] if unclosed else rest

    @property
    def has_one_thought(self) -> bool:
        """Exactly one closed, non-empty think block, at the start (its opening tag may be part of the prompt)."""
        tags = [match for match in _TAG.finditer(self.text) if match[2].lower() == "think"]
        opens = [tag for tag in tags if not tag[1]]
        closes = [tag.start() for tag in tags if tag[1]]
        if len(closes) != 1:
            return False
        if not opens:
            return bool(self.text[: closes[0]].strip())
        start, end = opens[0].span()
        is_first = start < closes[0] and not self.text[:start].strip()
        return len(opens) == 1 and is_first and bool(self.text[end : closes[0]].strip())


def read_response(text: str) -> Response:
    """Split a response into thinking and answer blocks.

    Text up to the last `</think>` is thinking, and so is everything after an unclosed `<think>`; answer tags in there
    do not count. A closing tag belongs to the nearest opening tag before it.

    >>> read_response("<think>Is it <answer>A</answer>?</think><answer>B</answer>").answers
    ('B',)
    """
    if text.count("<") == 4 and text.startswith("<think>"):
        thought = text.find("</think>")
        start, end = text.find("<answer>", thought), text.find("</answer>", thought)
        if 0 < thought < start < end:  # as it was asked for, and no other tag
            return Response(text, (text[start + len("<answer>") : end],), thought + len("</think>"))
    tags = [(match[0].lower(), match) for match in _TAG.finditer(text)]
    after = max((index for index, (tag, _) in enumerate(tags) if tag == "</think>"), default=-1)
    answers, opened_at = [], -1
    for tag, match in tags[after + 1 :]:
        if tag == "<think>":  # an unclosed one: the rest is thinking
            break
        if tag == "<answer>":
            opened_at = match.end()
        elif opened_at >= 0:
            answers.append(text[opened_at : match.start()])
            opened_at = -1
    return Response(text, tuple(answers), tags[after][1].end() if after >= 0 else 0)


_SUPERSCRIPTS = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b", "0123456789+-"
)
_SUPERSCRIPT_RUN = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207a\u207b]+")
_FRACTION = re.compile("(\\d?)([\u00bc-\u00be\u2150-\u215e])")
_FRACTIONS = {
    "\u00bc": "1/4", "\u00bd": "1/2", "\u00be": "3/4", "\u2150": "1/7", "\u2151": "1/9", "\u2152": "1/10",
    "\u2153": "1/3", "\u2154": "2/3", "\u2155": "1/5", "\u2156": "2/5", "\u2157": "3/5", "\u2158": "4/5",
    "\u2159": "1/6", "\u215a": "5/6", "\u215b": "1/8", "\u215c": "3/8", "\u215d": "5/8", "\u215e": "7/8",
}  # fmt: skip
_BOLD = re.compile(r"(?<![A-Za-z0-9)\]}])\*\*|\*\*(?![A-Za-z0-9(\[{-])|__")
"""Two stars between two operands are a power: 2**10."""
_FENCE = re.compile(r"\s*```[A-Za-z0-9_+-]*[ \t]*\n?")


def plain(text: str) -> str:
    """The answer without width variants, fences, bold marks, math delimiters and `\\boxed{}`; not for OCR or code.

    >>> plain("$\\\\boxed{\\\\text{B}}$"), plain("**\uff17**"), plain("5 m\u00b2")
    ('B', '7', '5 m^2')
    """
    if text.isascii():
        if not ("$" in text or "\\" in text or "*" in text or "`" in text or "__" in text):
            return text.strip()  # the commonest answers wear nothing
    else:
        text = _SUPERSCRIPT_RUN.sub(lambda match: "^" + match[0].translate(_SUPERSCRIPTS), visible(text))
        # 2 and 3/4 in one sign each must not become 23/4.
        text = _FRACTION.sub(
            lambda match: f"{match[1]} {_FRACTIONS[match[2]]}" if match[1] else _FRACTIONS[match[2]], text
        )
        text = one_width(text).translate(DASHES).replace("\u2044", "/")
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
_BOX = re.compile(r"\\f?box(?:ed)?\s?\{")
_TAKES_BACK = re.compile(
    r"(?<![a-z])(?:not|never|neither|nor|wrong|incorrect|false|except|than|least|most)(?![a-z])|n't(?![a-z])|[<>]"
    "|[\u4e0d\u975e\u9519]",
    re.IGNORECASE,
)
_TEXT_MACRO = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathsf|mbox|rm|bf)\s?\{")


def _without_coat(text: str) -> str:
    for opening, closing in _MATH_DELIMITERS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner:
                return inner.strip()
    boxes = list(_BOX.finditer(text)) if "box" in text else []
    if len(boxes) == 1:
        inner, end = braced(text, boxes[0].end() - 1)
        outside = text[: boxes[0].start()] + text[end:]
        if end > 0 and not re.search(r"\d", outside) and not takes_back(outside):
            # Words around a box ("The answer is \boxed{B}") are not part of the answer, unless they take it back.
            return inner.strip()
    macro = _TEXT_MACRO.match(text)
    if macro and text.endswith("}"):
        inner, end = braced(text, macro.end() - 1)
        if end == len(text):
            return inner.strip()
    return text


def takes_back(text: str) -> bool:
    """True for words beside an answer that deny or bound it: "The answer is not", "at least"."""
    return _TAKES_BACK.search(text) is not None


def box_places(text: str) -> list[int]:
    """Where the braces of `\\boxed{}` and `\\fbox{}` open.

    >>> box_places(r"so \\boxed{4}")
    [9]
    """
    return [match.end() - 1 for match in _BOX.finditer(text)]


_BRACE = re.compile(r"[{}]")


def braced(text: str, start: int) -> tuple[str, int]:
    """Content of the brace group at `start` and the place behind it; ("", 0) where it does not close.

    >>> braced("x{a{b}}c", 1)
    ('a{b}', 7)
    """
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return text[start + 1 : match.start()], match.end()
    return "", 0
