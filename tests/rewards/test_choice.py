"""Which option an answer names."""

import pytest

from easyvideor1.errors import DataError
from easyvideor1.problem_types import option_labels
from easyvideor1.rewards.router import check
from easyvideor1.rewards.tasks.choice import read_choice
from easyvideor1.types import Sample

OPTIONS = ("A. the green boat", "B. a tall tower", "C. A man sings", "D. an old horse, tired", "E. I do not know")

NAMES_B = (
    "B", "b", " B\n", "B.", "(B)", "[B]", "B)", "B:", "\uff22", "\uff08B\uff09", "**B**", "`B`", "'B'", "\\boxed{B}",
    "$\\boxed{\\text{B}}$", "$B$", "\\text{B}", "(B) a tall tower", "B. a tall tower", "B: a tall tower",
    "B a tall tower", "B - a tall tower", "b) a tall tower", "A Tall Tower!", "a  tall tower", '"a tall tower"',
    "Option B", "option b", "Choice B.", "Answer: B", "answer is b.", "The answer is B",
    "The correct answer is (B).", "The final answer is: **B**", "Final answer: B",
    "The answer is B because the tower is tall.", "the answer is a tall tower",
    "The correct option is B. a tall tower", "I choose B.", "I would go with (B).", "It is B", "B, a tall tower",
    "B\nThe tower is tall.", "B is correct.", "B because it rises above the roofs", "\u7b54\u6848\uff1aB",
    "\u7b54\u6848\u662fB", "\u9009B", "\u6211\u9009\u62e9B", "\u6b63\u786e\u7b54\u6848\u4e3aB\u3002",
    "\u9009\u9879B", "\u6240\u4ee5\u7b54\u6848\u662fB", "\u56e0\u6b64\u9009B", "**Answer:** B",
    "Therefore, the answer is B.", "```\nB\n```", "<B>", "B;", "The best choice is B!", "B) a tall tower.", "(b)",
    "\u200bB\ufeff", "a \u200btall tower", "B\u200d", "\u201cB\u201d", "\u3010B\u3011", "\u300aB\u300b",
    "B?", "B\u3002",
    "B\u3001a tall tower", "B\u3001\u9ad8\u5854", "B\uff0ca tall tower",
    "B\uff0c\u56e0\u4e3a\u5854\u5f88\u9ad8", "B\u9009\u9879",
    "B \u9009\u9879", "B\u662f\u6b63\u786e\u7684", "B\u9879\u6b63\u786e", "B\u4e3a\u6b63\u786e\u7b54\u6848",
    "\u6b63\u786e\u7684\u662fB", "\u7b54\u6848\u5e94\u8be5\u662fB", "\u3010\u7b54\u6848\u3011B",
    "B (a tall tower)", "B -> a tall tower",
    "B=a tall tower", "a tall tower (B)", "a tall tower, option B", "Ans: B", "\u56de\u7b54\uff1aB", "\u7b54\uff1aB",
    "Letter B", "The letter is B",
    "Result: B", "Definitely B", "I'd say B", "Thus, (B)", "It should be B.", "the answer is thus B", "Answer -> B",
    '{"answer": "B"}', "{'option': 'B'}", "B. The roofs do not reach it.", "B. it is not low",
    "Option 2", "Choice 2", "Caption B", "Sentence B", "caption B", "Statement 2", "The second option", "second one",
    "the 2nd option", "\uff08\uff22\uff09", "Antwort: B", "\uc815\ub2f5: B", "R\xe9ponse : B", "Respuesta: B",
    "\u041e\u0442\u0432\u0435\u0442: B", "\u2705 B", "### B", "B: a tall tower, not the green boat",
    "B. It is a tall tower rather than the green boat", "Image B", "Video 2", "\u7b54\u3048\uff1aB",
    "**Final Answer**: B", "Option (B)", "Option B: a tall tower", "Final answer: B.", "The answer seems to be B",
    "\u9078B",
)  # fmt: skip
NAMES_NOTHING = (
    "", "   ", "F", "Z", "A or B", "A and B", "A, B", "A/B", "AB", "ABCD", "A\nB\nC\nD", "A.\nB.\nC.\nD.", "(A)(B)",
    "(A) (B)", "A. B. C. D. E.", "B or maybe C", "B, not C", "Tower", "Boat", "Both towers", "Because it is tall",
    "Based on the video", "A person", "A tall man", "A.m. in the morning or B", "The answer is a dog.",
    "The answer is not B", "I think it is unclear.", "Answer", "The", "notice", "3.3MeV", "B or not B",
    "none of them", "the tower", "(B) the green boat", "B. A man sings", "A. the green boat\nB. a tall tower",
    "Either B or C is right", "I am not sure", "an", "option", "\u7b54\u6848", "1", "B C", "A: no, B: yes",
    "option A or option B", "answer is A. Or the answer is B.",
    "B is wrong", "B is not correct", "(B) is incorrect", "Option B is wrong", "B. is wrong", "It is not B",
    "The answer isn't B", "anything but B", "\u4e0d\u9009B", "B\u662f\u9519\u7684", "B\u4e0d\u5bf9", "\u9664\u4e86B",
    "(b) (c)", "b) or (c)",
    "e.g. the boat", "a.m. today", "a tall tower (C)", "the green boat (B)", "B,c", '{"answer": "B or C"}',
    '{"answer": "B", "other": "C"}', "B\u3001C", "B\uff0cC",
    "B: a tall tower or the green boat", "B. the green boat", "B, or a man sings", "B: the green boat or a tall tower",
    "Option 9", "B (or the green boat)", "B / the green boat", "2", "Vitamin B", "The answer is B or the green boat",
    "B: both a tall tower and the green boat", "Answer 2", "B, although the green boat is possible too",
    "B: maybe a man sings",
)  # fmt: skip


@pytest.mark.parametrize("text", NAMES_B)
def test_answer_names_the_second_option(text):
    assert read_choice(text, option_labels(OPTIONS)) == "B"


@pytest.mark.parametrize("text", NAMES_NOTHING)
def test_answer_names_no_single_option(text):
    assert read_choice(text, option_labels(OPTIONS)) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("A man sings", "C"),
        ("A", "A"),
        ("a", "A"),
        ("The answer is A", "A"),
        ("The answer is A because the boat is green", "A"),
        ("A. the green boat", "A"),
        ("an old horse, tired", "D"),
        ("an old horse tired", "D"),
        ("I do not know", "E"),
        ("E", "E"),
        ("C. A man sings", "C"),
        ("(C) A man sings", "C"),
        ("The answer is A man sings", "C"),
    ],
)
def test_articles_and_pronouns_are_not_letters(text, letter):
    assert read_choice(text, option_labels(OPTIONS)) == letter


def test_letters_without_options_are_all_allowed():
    assert read_choice("(M)", {}) == "M"
    assert read_choice("M. some text", {}) == "M"
    assert read_choice("Monday", {}) is None


def test_an_option_that_holds_another_one_is_not_confused_with_it():
    labels = option_labels(["lamp", "not a lamp", "a lamp"])
    assert [read_choice(text, labels) for text in ("lamp", "not a lamp", "a lamp")] == ["A", "B", "C"]


def test_a_text_that_two_options_share_names_neither():
    assert read_choice("red", option_labels(["red", "red", "blue"])) is None


def test_signs_in_option_texts_make_a_difference():
    labels = option_labels(["A. -3", "B. 3", "C. 1.5", "D. 15", "E. x < 2", "F. x > 2"])
    assert [read_choice(text, labels) for text in ("-3", "3", "1.5", "15", "x < 2", "x > 2")] == list("ABCDEF")


def test_letters_are_taken_off_options_only_where_all_have_them():
    assert option_labels(["(a) one", "(b) two"]) == {"A": "one", "B": "two"}
    assert option_labels(["A. Lincoln", "G. Washington"]) == {"A": "A. Lincoln", "B": "G. Washington"}
    assert option_labels([]) == {}


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        (["\uff08\uff21\uff09\u7ea2", "\uff08\uff22\uff09\u84dd"], {"A": "\u7ea2", "B": "\u84dd"}),
        (["\uff21\uff0e\u7ea2", "\uff22\uff0e\u84dd"], {"A": "\u7ea2", "B": "\u84dd"}),
        (["A\u3001\u732b", "B\u3001\u72d7"], {"A": "\u732b", "B": "\u72d7"}),
        (["A.5 m", "B.6 m"], {"A": "5 m", "B": "6 m"}),
        (["1. red", "2. blue"], {"A": "red", "B": "blue"}),
        (["(1) red", "(2) blue"], {"A": "red", "B": "blue"}),
        (["Option 1: red", "Option 2: blue"], {"A": "red", "B": "blue"}),
        (["Caption A: a cat", "Caption B: a dog"], {"A": "a cat", "B": "a dog"}),
        (["Sentence A - it rains", "Sentence B - it snows"], {"A": "it rains", "B": "it snows"}),
        (["1.5", "2.5"], {"A": "1.5", "B": "2.5"}),
        (["1:05", "2:10"], {"A": "1:05", "B": "2:10"}),
        (["1", "2"], {"A": "1", "B": "2"}),
        (["A", "B"], {"A": "A", "B": "B"}),
        (["Option A", "Option B"], {"A": "Option A", "B": "Option B"}),
        (["A cat", "B flat"], {"A": "A cat", "B": "B flat"}),
    ],
)
def test_labels_of_every_kind_are_taken_off(options, labels):
    assert option_labels(options) == labels


def test_a_bare_number_names_an_option_only_where_the_options_are_numbered():
    numbered = {"A": "red", "B": "blue"}
    assert read_choice("2", numbered, numbered=True) == read_choice("Option 2", numbered) == "B"
    assert read_choice("2", numbered) is None
    assert read_choice("Option 9", numbered) is None
    counts = option_labels(["A. 3", "B. 1", "C. 2"])
    assert read_choice("2", counts) == "C"
    assert read_choice("Option 2", counts) is None  # the second, or the one with 2


def test_a_hedge_by_an_options_text_is_no_answer():
    labels = option_labels(["red", "dark red", "a blue bicycle"])
    assert read_choice("A: red", labels) == "A"
    assert read_choice("A: red or a blue bicycle", labels) is None
    assert read_choice("A. red, not a blue bicycle", labels) == "A"
    assert read_choice("B. dark red", labels) == "B"  # its own text holds that of A
    assert read_choice("C. The kettle near the wheel of the bicycle is red", labels) == "C"


@pytest.mark.parametrize("gold", ["B", "b", "(B)", "B.", "B. a tall tower", "a tall tower", "Answer: B"])
def test_gold_may_carry_marks_and_text(gold):
    check([Sample(id="s", problem_type="mcq", problem="", gold=gold, options=OPTIONS)])


@pytest.mark.parametrize("gold", ["", "F", "AC", "the tower", "A, C"])
def test_gold_outside_the_options_is_a_data_error(gold):
    with pytest.raises(DataError, match=r"rows:3: field 'answer': .* letters A, B, C, D, E"):
        check([Sample(id="s", where="rows:3", problem_type="mcq", problem="", gold=gold, options=OPTIONS)])


@pytest.mark.parametrize(
    ("options", "text", "letter"),
    [
        (("Option 1: a cat", "Option 2: a dog"), "Option 2", "B"),
        (("Option 1: a cat", "Option 2: a dog"), "option 1.", "A"),
        (("Option 1: a cat", "Option 2: a dog"), "Option 3", None),
        (("Caption A: a cat", "Caption B: a dog"), "Caption B", "B"),
        (("Caption A: a cat", "Caption B: a dog"), "a dog", "B"),
        (("Sentence A: a cat", "Sentence B: a dog"), "Sentence A", "A"),
        (("Sentence A: a cat", "Sentence B: a dog"), "Sentence A: a cat", "A"),
        (("Sentence A: a cat", "Sentence B: a dog"), "B", "B"),
    ],
)
def test_named_labels_are_choices(options, text, letter):
    assert read_choice(text, option_labels(options)) == letter
