"""Lengths of prompts without making them: bounds for all, counts of the text alone for those near the limit.

A tokenizer whose symbols start as bytes makes at most one token per byte, so most prompts are known to fit without
being tokenized. What the chat template adds is measured once, on made-up prompts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from easyvideor1.data.media_check import MediumFacts
from easyvideor1.data.row_check import Chunk, said_in
from easyvideor1.data.rows import parse
from easyvideor1.data.samples import read_row
from easyvideor1.data.tags import split_at_tags
from easyvideor1.errors import DataError
from easyvideor1.types import FrameSpec, Media, MediaKind, MediaPlan, Sample, Turn

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from easyvideor1.data.encode import Encoder

WORD = "x"
"""A text that is one token in every tokenizer of bytes."""
MAX_DIGITS = 6
"""Times of up to 999,999 s."""
SLACK_TOKENS, SLACK_PER_MEDIUM, SLACK_PER_MESSAGE = 8, 4, 2
"""How far an estimate may be from the truth: where texts meet, they may share a token or lose one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptShape:
    """Tokens of a prompt beside those of its texts and its pixels."""

    template: int
    message: int
    """Tokens that each message adds beside the problem."""
    image: int
    video: int
    patch_by_digits: tuple[int, ...]
    """Tokens of each temporal patch of a video, by the digits of its time; 0 where a prompt does not spell times."""
    is_of_bytes: bool
    """Whether texts have at most as many tokens as bytes."""

    def around(self, media: Sequence[Media], facts: Sequence[MediumFacts], *, num_messages: int) -> int:
        """Tokens of a prompt with these media but for its texts, up to `slack`."""
        total = self.template + num_messages * self.message
        for medium, facts_of_it in zip(media, facts, strict=True):
            total += facts_of_it.num_tokens + (self.video if medium.kind == "video" else self.image)
            total += sum(
                count * (self.patch_by_digits[min(place, MAX_DIGITS - 1)])
                for place, count in enumerate(facts_of_it.patch_digits)
            )
        return total


def slack(num_media: int, num_messages: int) -> int:
    """How far an estimate may be from the truth."""
    return SLACK_TOKENS + SLACK_PER_MEDIUM * num_media + SLACK_PER_MESSAGE * num_messages


def measure_shape(encoder: Encoder) -> PromptShape:
    """The shape of the prompts of a model, from made-up ones."""
    vision = encoder.vision

    def length(*media: Media, plans: tuple[MediaPlan, ...] = (), system: str | None = None, turns: int = 0) -> int:
        said = (Turn(role="user", content=WORD), Turn(role="assistant", content=WORD))[:turns]
        tags = "".join(f"<{medium.kind}>" for medium in media)
        sample = Sample(
            id="", problem_type="", problem=WORD, gold="", media=media, system=system, turns=said
        )  # fmt: skip
        return len(encoder.encode(sample, plans, tags + WORD)) - 1

    def seen(kind: MediaKind, *times_s: float) -> int:
        media = Media(kind=kind, path=WORD)
        patches = -(-len(times_s) // vision.temporal_patch)
        plan = MediaPlan(
            media=media, times_s=times_s, height=vision.factor_px, width=vision.factor_px,
            grid_thw=(patches, vision.merge, vision.merge), num_tokens=patches, spec=FrameSpec(), source_fps=1.0,
            duration_s=1.0, cache_key="",
        )  # fmt: skip
        return length(media, plans=(plan,)) - patches

    template = length()
    frames = vision.temporal_patch
    one = seen("video", *[1.0] * frames)
    by_digits = [seen("video", *[1.0] * frames, *[float(10**digits)] * frames) - one for digits in range(MAX_DIGITS)]
    return PromptShape(
        template=template,
        message=max(length(system=WORD) - template, -(-(length(turns=2) - template) // 2)) - 1,
        image=seen("image", 0.0) - template,
        video=one - by_digits[0] - template,
        patch_by_digits=tuple(by_digits),
        is_of_bytes=is_of_bytes(encoder.tokenizer.backend_tokenizer.to_str()),
    )


def is_of_bytes(tokenizer: str) -> bool:
    """Whether a tokenizer, in the JSON of the `tokenizers` library, makes at most one token of every byte.

    It must merge bytes (BPE after a byte-level split), and do nothing before that but normalize to NFC.
    """
    tree = json.loads(tokenizer)
    before = tree.get("pre_tokenizer") or {}
    steps = before.get("pretokenizers", [before])
    levels = [step for step in steps if step.get("type") == "ByteLevel"]
    normalizer = (tree.get("normalizer") or {"type": "NFC"})["type"]
    return (
        tree["model"].get("type") == "BPE"
        and len(levels) == 1
        and not levels[0].get("add_prefix_space", True)
        and normalizer == "NFC"
    )


@dataclass(frozen=True)
class CountText:
    """Counts the tokens of the texts of rows; picklable, to run in worker processes."""

    tokenizer: str
    """The tokenizer in the JSON of the `tokenizers` library."""
    thinking: bool
    templates: str | None

    def __call__(self, chunk: Chunk) -> list[int]:
        """The number of tokens of each row; the rows are readable."""
        counts = []
        for where, content in chunk.rows:
            row = parse(content, where=where)
            if isinstance(row, DataError):
                raise row
            texts = said_in(read_row(row, chunk.source), thinking=self.thinking, templates=self.templates)
            pieces = [piece for text in texts for piece in split_at_tags(text)[::2] if piece]
            counts.append(sum(len(self._plain.encode(piece, add_special_tokens=False)) for piece in pieces))
        return counts

    @cached_property
    def _plain(self) -> Tokenizer:
        from tokenizers import Tokenizer  # comes with the model side only

        plain = Tokenizer.from_str(self.tokenizer)
        plain.no_truncation()
        plain.no_padding()
        plain.encode_special_tokens = True
        return plain
