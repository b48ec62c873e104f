r"""`<image>` and `<video>` in a text mark where media go; `\<image>` and `\<video>` are the words themselves."""

from __future__ import annotations

import re
from typing import cast

from easyvideor1.types import MediaKind

_TAG = re.compile(r"(?<!\\)<(image|video)>")
_ESCAPED = re.compile(r"\\(<(?:image|video)>)")


def kinds_in(text: str) -> list[MediaKind]:
    r"""The kind of each tag, in order.

    >>> kinds_in(r"<video> What does \<image> mean in <image>?")
    ['video', 'image']
    """
    return cast(list[MediaKind], _TAG.findall(text))


def split_at_tags(text: str) -> list[str]:
    r"""Text, kind, text, kind, .., text; the texts without their escapes.

    >>> split_at_tags(r"<video> What does \<image> mean?")
    ['', 'video', ' What does <image> mean?']
    """
    parts = _TAG.split(text)
    return [part if index % 2 else without_escapes(part) for index, part in enumerate(parts)]


def without_escapes(text: str) -> str:
    r"""A text as it is to be read.

    >>> without_escapes(r"the word \<video>")
    'the word <video>'
    """
    return _ESCAPED.sub(r"\1", text)


def escaped(text: str) -> str:
    r"""A text in which no word is taken for a tag.

    >>> escaped(r"the word <video>")
    'the word \\<video>'
    """
    return _TAG.sub(r"\\<\1>", text)
