"""What looks wrong in a row that can be used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from easyvideor1.problem_types import option_labels
from easyvideor1.types import Sample

TOKEN = re.compile(r"<\|(?:image_pad|video_pad|vision_start|vision_end|vision_pad|im_start|im_end)\|>")
"""Names of tokens that only a prompt's own media and turns may have."""
SOUND = re.compile(r"<audio>")
KINDS = ("image", "video", "text")


def oddities(fields: Mapping[str, Any], sample: Sample) -> Iterator[str]:
    """Each as "field 'NAME': what looks wrong (what to do)"."""
    yield from _data_type(fields.get("data_type"), sample)
    yield from _options(sample)
    said = "\n".join([sample.problem, *(turn.content for turn in sample.turns)])
    if token := TOKEN.search(said):
        yield f"field 'problem': {token[0]} in it is read as plain text (media are marked by <image> and <video>)"
    if SOUND.search(said) or fields.get("audios") or fields.get("audio"):
        yield "field 'audios': nothing is heard, only seen (leave out questions about sound)"
    stored = fields.get("offline_output")
    if isinstance(stored, list) and 0 < (num_empty := sum(not text.strip() for text in stored)) < len(stored):
        yield f"field 'offline_output': {num_empty} of {len(stored)} offline trajectories are empty (leave them out)"


def _data_type(kind: Any, sample: Sample) -> Iterator[str]:
    """A `data_type` that the row's media contradict; they count, not the word."""
    if kind is None or kind == "":
        return
    word = str(kind).strip().lower()
    have = {medium.kind for medium in sample.media} or {"text"}
    if word not in KINDS:
        yield f"field 'data_type': {kind!r} is none of {', '.join(KINDS)} (write one of them, or leave it out)"
    elif word not in have:
        seen = " and ".join(f"{name}s" for name in sorted(have))
        yield f"field 'data_type': is '{word}', but the row has {seen} (write what it has, or name the other files)"


def _options(sample: Sample) -> Iterator[str]:
    if sample.problem_type not in ("multiple choice", "multiple select"):
        return
    letters: dict[str, str] = {}
    for letter, text in option_labels(sample.options).items():
        folded = " ".join(text.split())
        if not folded:
            yield f"field 'options': option {letter} is empty (leave it out)"
        elif folded in letters:
            yield f"field 'options': {letters[folded]} and {letter} are the same: a right answer may count as wrong"
        letters.setdefault(folded, letter)
