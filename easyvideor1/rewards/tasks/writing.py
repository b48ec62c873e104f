"""Free text (ROUGE) and printed text (word or character error rate)."""

from __future__ import annotations

from easyvideor1.rewards.measures import rouge, word_accuracy
from easyvideor1.rewards.parse import visible
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.rewards.words import printed_words, text_words
from easyvideor1.types import Sample

_QUOTES = "\"'`\u2018\u2019\u201c\u201d\u300c\u300d"
WORDS_PER_GOLD_WORD, SPARE_WORDS = 4, 64
"""An answer is compared up to this length; what is longer has lost its precision by then."""


def _gold_text(sample: Sample) -> str:
    if not text_words(sample.gold):
        raise bad_gold(sample, "a text answer has at least one word")
    return sample.gold


def _text_accuracy(answer: str, gold: str) -> float:
    gold_words = text_words(gold)
    words = text_words(answer)
    most = WORDS_PER_GOLD_WORD * len(gold_words) + SPARE_WORDS
    # The words beyond count against precision, though their content is not looked at.
    return rouge([*words[:most], *([""] * (len(words) - most))], gold_words)


OPEN_ENDED = Task(
    read_gold=_gold_text,
    read_answer=lambda sample, text: text.strip() if text_words(text) else None,
    accuracy=_text_accuracy,
)


def _print(text: str) -> str:
    """Text as printed: one space for any run of them, no quotes around it."""
    text = " ".join(visible(text).split())
    while len(text) >= 2 and text[0] in _QUOTES and text[-1] in _QUOTES:
        text = text[1:-1].strip()
    return text


def _gold_print(sample: Sample) -> str:
    if not _print(sample.gold):
        raise bad_gold(sample, "printed text is not empty")
    return _print(sample.gold)


def _print_accuracy(answer: str, gold: str) -> float:
    if answer == gold:
        return 1.0
    gold_words = printed_words(gold)
    return word_accuracy(printed_words(answer)[: 2 * len(gold_words) + 1], gold_words)


OCR = Task(
    read_gold=_gold_print,
    read_answer=lambda sample, text: _print(text) or None,
    accuracy=_print_accuracy,
)
