"""Free text (ROUGE) and printed text (word error rate; edit distance where the gold is one word)."""

from __future__ import annotations

from easyvideor1.rewards.folding import QUOTES, visible
from easyvideor1.rewards.measures import edit_similarity, rouge, word_accuracy
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.rewards.words import printed_words, text_words
from easyvideor1.types import Sample

WORDS_PER_GOLD_WORD, SPARE_WORDS = 4, 64
"""An answer is compared up to this length; what is longer has lost its precision by then."""


def _gold_words(sample: Sample) -> list[str]:
    words = text_words(sample.gold)
    if not words:
        raise bad_gold(sample, "a text answer has at least one word")
    return words


def _text_accuracy(answer: list[str], gold: list[str]) -> float:
    most = WORDS_PER_GOLD_WORD * len(gold) + SPARE_WORDS
    # The words beyond count against precision, though their content is not looked at.
    return rouge([*answer[:most], *([""] * (len(answer) - most))], gold)


OPEN_ENDED = Task(
    read_gold=_gold_words,
    read_answer=lambda sample, text: text_words(text) or None,
    accuracy=_text_accuracy,
    show=" ".join,
)


def _print(text: str) -> list[str]:
    """Words as printed, without quotes around the whole."""
    text = " ".join(visible(text).split())
    while len(text) >= 2 and _is_quote(text[0]) and _is_quote(text[-1]):
        text = text[1:-1].strip()
    return printed_words(text)


def _is_quote(char: str) -> bool:
    return char.translate(QUOTES) in ("'", '"')


def _gold_print(sample: Sample) -> list[str]:
    words = _print(sample.gold)
    if not words:
        raise bad_gold(sample, "printed text is not empty")
    return words


def _print_accuracy(answer: list[str], gold: list[str]) -> float:
    """1 - word error rate; where one wrong letter would cost all, with a gold of one word, ANLS."""
    if answer == gold:
        return 1.0
    if len(gold) == 1:
        return edit_similarity(" ".join(answer), gold[0])
    return word_accuracy(answer[: 2 * len(gold) + 1], gold)


OCR = Task(
    read_gold=_gold_print,
    read_answer=lambda sample, text: _print(text) or None,
    accuracy=_print_accuracy,
    show=" ".join,
)
