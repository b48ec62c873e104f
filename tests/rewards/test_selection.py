"""Which options an answer names, all of them."""

import pytest

from easyvideor1.errors import DataError
from easyvideor1.problem_types import canonical, option_labels
from easyvideor1.rewards.router import check, score
from easyvideor1.rewards.tasks.selection import read_letters
from easyvideor1.types import Sample

OPTIONS = ("A. the green boat", "B. a tall tower", "C. A man sings", "D. an old horse, tired", "E. I do not know")
READS = {
    "A,C": "AC", "A, C": "AC", "AC": "AC", "A and C": "AC", "C and A": "AC", "(A)(C)": "AC", "(A), (C)": "AC",
    '["A","C"]': "AC", "['A', 'C']": "AC", "A\u3001C": "AC", "A;C": "AC", "A. the green boat, C. A man sings": "AC",
    "A. the green boat\nC. A man sings": "AC", "the green boat, A man sings": "AC", "The answers are A and C": "AC",
    "The answer is A and C.": "AC", "A and C are correct": "AC", "Options A and C": "AC", "A or C": None,
    "A, maybe C": None, "A": "A", "A,C,F": None, "A C": "AC", "\\boxed{A, C}": "AC", "\\boxed{AC}": "AC",
    "A & C": "AC", "A, B, and D": "ABD", "Both A and C": "AC", "not A, C": None, "BAD": "ABD", "": None, "AA": None,
    "\u7b54\u6848\uff1aAC": "AC", "Answer: A, C": "AC", "A\u548cC": "AC", "**A**, **C**": "AC", "A/C": "AC",
    '{"answer": ["A","C"]}': "AC", "A: the green boat; C: A man sings": "AC", "a, c": "AC", "A,\nC": "AC",
    "D. an old horse, tired": "D", "A. the green boat, D. an old horse, tired": "AD",
}  # fmt: skip


@pytest.mark.parametrize("text", READS)
def test_letters_are_read(text):
    letters = read_letters(text, option_labels(OPTIONS))
    assert (letters and "".join(sorted(letters))) == READS[text]


def judge(gold: str, answer: str) -> float:
    sample = Sample(id="s", problem_type="multi-select", problem="", gold=gold, options=OPTIONS)
    return score(sample, f"<answer>{answer}</answer>").parts["accuracy"]


def test_all_right_letters_and_no_other_are_right():
    assert judge("A,C", "C, A") == judge("AC", "A and C") == judge("B", "B") == judge('["A", "D"]', "DA") == 1
    assert judge("A,C", "A") == judge("A,C", "A, B, C") == judge("A,C", "A, D") == judge("B", "A, B") == 0
    assert judge("A,C", "A, B, C, D, E") == judge("A,C", "A or C") == judge("A,C", "") == 0


@pytest.mark.parametrize("name", ["multiple_select", "Multi-Select", "multiple response", "multiple answers", "mmcq"])
def test_the_type_has_the_names_of_public_data_sets(name):
    assert canonical(name) == "multiple select"


def test_several_letters_for_a_single_choice_are_refused_with_the_type_that_is_meant():
    sample = Sample(id="s", where="rows:3", problem_type="mcq", problem="", gold="A,C", options=OPTIONS)
    with pytest.raises(
        DataError, match=r"rows:3: field 'answer': .*several right letters are problem_type 'multiple select'"
    ):
        check([sample])


@pytest.mark.parametrize("gold", ["", "F", "A or C", "A, F", "the tower"])
def test_gold_outside_the_options_is_a_data_error(gold):
    with pytest.raises(DataError, match="letters of A, B, C, D, E"):
        check([Sample(id="s", problem_type="multiple select", problem="", gold=gold, options=OPTIONS)])
