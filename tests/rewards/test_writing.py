"""Free text, printed text and preferences."""

import random

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.measures import rouge, word_accuracy
from easyvideor1.rewards.router import check, score
from easyvideor1.rewards.tasks.preference import read_preference
from easyvideor1.rewards.words import text_words
from easyvideor1.types import Sample


def judge(problem_type: str, gold: str, answer: str) -> float:
    sample = Sample(id="s", problem_type=problem_type, problem="", gold=gold)
    return score(sample, f"<answer>{answer}</answer>").parts["accuracy"]


SAME_TEXTS = (
    ("a small red boat", "a small red boat"),
    ("refrigerator", "refrigerator"),
    ("refrigerator", "Refrigerator."),
    ("cat", "cat"),
    ("A small, red boat!", "a small red boat"),
    ("\u4e24\u4e2a\u5b69\u5b50\u5728\u6d77\u8fb9\u73a9", "\u4e24\u4e2a\u5b69\u5b50\u5728\u6d77\u8fb9\u73a9\u3002"),
    ("\u8239", "\u8239"),
    ("na\u00efve caf\u00e9", "na\u00efve caf\u00e9"),
    (
        "\u043a\u0440\u0430\u0441\u043d\u0430\u044f \u043b\u043e\u0434\u043a\u0430",
        "\u041a\u0440\u0430\u0441\u043d\u0430\u044f \u043b\u043e\u0434\u043a\u0430",
    ),
    ("\u0928\u0926\u0940", "\u0928\u0926\u0940"),
    (
        "\u0e40\u0e23\u0e37\u0e2d\u0e2a\u0e35\u0e41\u0e14\u0e07",
        "\u0e40\u0e23\u0e37\u0e2d\u0e2a\u0e35\u0e41\u0e14\u0e07",
    ),
    ("42", "42"),
    ("word " * 900, "word " * 900),
    ("a small red boat", "\u200ba sm\u00adall red boat\ufeff"),
)


@pytest.mark.parametrize(("gold", "answer"), SAME_TEXTS)
@pytest.mark.parametrize("problem_type", ["open-ended", "free-form", "video QA", "video description"])
def test_the_same_text_scores_one_at_any_length_and_in_any_script(problem_type, gold, answer):
    assert judge(problem_type, gold, answer) == 1


def test_rouge_by_hand():
    # 3 of 4 words: ROUGE-1 and -L 3/4; word pairs "red boat", "boat sails" of 3: 2/3
    gold, words = ["red", "boat", "sails", "home"], ["red", "boat", "sails", "away"]
    assert rouge(words, gold) == pytest.approx((0.75 + 0.75 + 2 / 3) / 3)
    # the same words backwards: ROUGE-1 is 1, the longest common run of words 1 of 3, no pair in common
    assert rouge(["c", "b", "a"], ["a", "b", "c"]) == pytest.approx((1 + 1 / 3 + 0) / 3)
    # a one-word gold has no pairs, so those do not count: F1 = 2 * 1 / (3 + 1)
    assert rouge(["the", "red", "boat"], ["boat"]) == pytest.approx(0.5)
    assert rouge([], ["boat"]) == 0


@pytest.mark.parametrize(
    ("gold", "answer", "low", "high"),
    [
        ("The boat leaves the harbour", "The boat leaves the town", 0.6, 0.95),
        ("The boat leaves the harbour", "Boats are leaving the harbour", 0.5, 0.9),  # endings are stemmed
        ("The boat leaves the harbour", "purple mountains shimmer", 0, 0.01),
        (
            "\u4e00\u8258\u7ea2\u8272\u7684\u8239\u5f00\u8d70\u4e86",
            "\u4e00\u8258\u84dd\u8272\u7684\u8239\u5f00\u8d70\u4e86",
            0.6,
            0.95,
        ),
        ("The boat leaves the harbour", "The boat leaves the harbour " * 50, 0, 0.2),
        ("boat", "boat " * 900, 0, 0.01),
        ("boat", "x " * 8000, 0, 0),
        ("boat", "... !!!", 0, 0),
        ("boat", "", 0, 0),
    ],
)
def test_free_text_scores_in_range(gold, answer, low, high):
    assert low <= judge("open-ended", gold, answer) <= high


def test_repeating_the_gold_does_not_pay():
    once = judge("open-ended", "a boat on the sea", "a boat on the sea, I believe")
    assert judge("open-ended", "a boat on the sea", "a boat on the sea, I believe " * 5) < once / 2


def test_accents_and_vowel_signs_are_part_of_words():
    assert text_words("caf\u00e9 na\u00efve") == ["caf\u00e9", "na\u00efve"]
    assert text_words("\u0928\u0926\u0940 \u0915\u093f\u0928\u093e\u0930\u093e") == [
        "\u0928\u0926\u0940",
        "\u0915\u093f\u0928\u093e\u0930\u093e",
    ]


@pytest.mark.parametrize(
    ("gold", "answer", "accuracy"),
    [
        ("PLATFORM 9 TO ROME", "PLATFORM 9 TO ROME", 1),
        ("PLATFORM 9 TO ROME", "PLATFORM 9 ROME", 0.75),
        ("PLATFORM 9 TO ROME", "PLATFORM 8 TO ROME", 0.75),
        ("PLATFORM 9 TO ROME", "THE PLATFORM 9 TO ROME", 0.75),
        ("PLATFORM 9 TO ROME", "platform 9 to rome", 1),
        ("PLATFORM 9 TO ROME", "one two three four", 0),
        ("PLATFORM 9 TO ROME", "  PLATFORM\n9   TO ROME ", 1),
        ("PLATFORM 9\nTO ROME", "PLATFORM 9 TO ROME", 1),
        ("PLATFORM 9 TO ROME", '"PLATFORM 9 TO ROME"', 1),
        ("PLATFORM 9 TO ROME", "PLATFORM " * 1500, 0),
        ("PLATFORM 9 TO ROME", "", 0),
        ("8:15 PM / HALL 3", "8:15 PM / HALL 3", 1),
        ("A < B > C", "A < B > C", 1),
        ("$7 or 9$", "$7 or 9$", 1),
        ("$7 or 9$", "7 or 9", 1 / 3),
        ("http://a.example/b?c=1", "http://a.example/b?c=1", 1),
        ("\u5165\u53e3", "\u5165\u53e3", 1),
        ("\u5165\u53e3\u5728\u5de6", "\u5165\u53e3\u5728\u53f3", 0.75),
        ("\u5165\u53e3\u5728\u5de6", "\u5165\u53e3", 0.5),
        ("\u5165\u53e3 EXIT", "\u5165\u53e3 EXIT", 1),
        ("**SALE**", "**SALE**", 1),
        ("\\boxed{5}", "\\boxed{5}", 1),
        ("50% OFF", "50% OFF", 1),
        ("PLATFORM 9", "\u200bPLATFORM 9\ufeff", 1),
        ("PLATFORM\u200b 9", "PLATFORM 9", 1),
        ("it\u2019s here", "it's here", 1),  # kinds of quotes and dashes
        ("\u201cOPEN\u201d 9\u201317", '"OPEN" 9-17', 1),
        ("\uff21\uff22 \uff11", "AB 1", 1),  # width
        ("x\u00b2 = 4", "x2 = 4", 2 / 3),  # a superscript is no digit,
        ("\u2460 start here", "1 start here", 2 / 3),  # nor is a circled one
        ("d\u00e9bris field", "debris field", 0.5),
        # One word: 1 - edit distance / length of the longer, 0 where that is a half or less.
        ("STARBUCKS", "STARBUCK", 8 / 9),
        ("STARBUCKS", "starbucks", 1),
        ("EXIT", "EX1T", 0.75),
        ("EXIT", "EXAM", 0),
        ("EXIT", "EXIT EXIT", 0),
        ("EXIT", "EXIT EXIT EXIT EXIT", 0),
        ("EXIT", "EXITS", 0.8),
        ("EXIT", "TAXI", 0),
        ("\u51fa", "\u5165", 0),
    ],
)
def test_printed_text_by_hand(gold, answer, accuracy):
    assert judge("OCR", gold, answer) == pytest.approx(accuracy, abs=1e-12)


def edits(first: list[str], second: list[str]) -> int:
    """The edit distance by its definition: insertions, deletions and substitutions, each counted one."""
    row = list(range(len(second) + 1))
    for number, one in enumerate(first, start=1):
        row, previous = [number], row
        for place, other in enumerate(second):
            row.append(min(row[-1] + 1, previous[place + 1] + 1, previous[place] + (one != other)))
    return row[-1]


def test_printed_text_is_scored_by_the_published_error_rates():
    rng = random.Random(0)
    for _ in range(200):
        gold = [rng.choice("abc") for _ in range(rng.randrange(2, 8))]
        words = [rng.choice("abcd") for _ in range(rng.randrange(1, 9))]
        # Word error rate, (S + D + I) / N, of which 1 - min(1, WER) is the accuracy.
        expected = 1 - min(1.0, edits(gold, words) / len(gold))
        assert judge("OCR", " ".join(gold), " ".join(words)) == pytest.approx(expected, abs=1e-12)
        # ANLS of a single word: 1 - NL where NL < 0.5, else 0.
        distance = edits(gold, words) / max(len(gold), len(words))
        expected = 1 - distance if distance < 0.5 else 0.0
        assert judge("OCR", "".join(gold), "".join(words)) == pytest.approx(expected, abs=1e-12)


def test_word_accuracy_is_not_negative():
    assert word_accuracy(list("abcdefgh"), ["x"]) == 0
    assert word_accuracy([], ["x"]) == 0


PREFERS_1 = (
    "Response 1", "response 1.", "Response A", "1", "A", "(A)", "[[A]]", "The first response", "first",
    "**Response 1**", "Response 1 is better.", "Answer: Response 1", "Assistant A", "Response A is more helpful",
    "The 1st response", "\u56de\u7b541", "\u7b2c\u4e00\u4e2a", "\\boxed{Response 1}", "Response_1", "Response #1",
    "I prefer the first one.",
)  # fmt: skip
PREFERS_2 = (
    "Response 2", "Response B", "2", "B", "[[B]]", "the second response", "second", "Candidate B", "Option 2",
    "Response 2 wins because it is precise.", "2nd", "\u56de\u7b542", "\u7b2c\u4e8c\u4e2a", "Model 2",
    "Response two",
)  # fmt: skip
PREFERS_TIE = (
    "Tie", "tie.", "It is a tie", "The answer is a tie.", "equal", "They are equally good", "a draw", "\u5e73\u5c40",
    "Both are equal",
)  # fmt: skip
PREFERS_NOTHING = (
    "", "Response 1 or Response 2", "Response 1 or Response 2 or Tie", "Response 2 is better than Response 1",
    "Response 10", "Response 3", "clarity on uncertainties", "neither", "both Response 1 and Response 2", "A or B",
    "1 2", "Response", "the third response and Response 12", "C", "none", "first and second", "tie, or Response 1",
)  # fmt: skip
PREFERS = {"1": PREFERS_1, "2": PREFERS_2, "tie": PREFERS_TIE, None: PREFERS_NOTHING}


@pytest.mark.parametrize(("label", "text"), [(label, text) for label, texts in PREFERS.items() for text in texts])
def test_preference_is_read_as(label, text):
    assert read_preference(text) == label


@pytest.mark.parametrize("problem_type", ["llava", "critic", "preference"])
def test_preference_scores_the_label(problem_type):
    assert judge(problem_type, "Response 1", "Response A") == 1
    assert judge(problem_type, "first", "Response 2") == 0
    assert judge(problem_type, "Tie", "tie") == 1


@pytest.mark.parametrize(
    ("problem_type", "gold"),
    [("open-ended", ""), ("open-ended", "..."), ("ocr", " "), ("ocr", '""'), ("critic", "Response 3"), ("critic", "")],
)
def test_gold_without_content_is_a_data_error(problem_type, gold):
    with pytest.raises(DataError, match="field 'answer'"):
        check([Sample(id="s", problem_type=problem_type, problem="", gold=gold)])
