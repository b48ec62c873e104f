"""Official readers, quirks included, and the strict reading beside them."""

import json
from pathlib import Path

import pytest

from easyvideor1.evals import readers
from easyvideor1.evals.loading import Place, choice_item, make_item
from easyvideor1.evals.options import Asked, from_list, from_text
from easyvideor1.evals.spans import first_span, lmms_eval_span
from easyvideor1.evals.strict import strict


def place():
    return Place(path=Path(), number=0, where="rows:0")


def choice(gold="A", options=("Washed the mug.", "Threw it.", "Sat.", "Left."), **fields):
    asked = from_list("What happened?", list(options))
    return choice_item(asked, gold, place(), id="1", video="v.mp4", fields=fields)


def other(kind, gold, form, **fields):
    return make_item(kind, Asked("?", "?", {}, ()), gold, place(), id="1", video="v.mp4", form=form, fields=fields)


A = choice("A")


@pytest.mark.parametrize(
    ("response", "authors", "is_right"),
    [("(A) Washed the mug.", 1, 1), ("(A", 1, 1), ("a", 1, 1), ("", 1, 0), ("(", 1, 0), (")", 1, 0), ("()", 0, 0),
     ("(B) Threw it.", 0, 0)],
)  # fmt: skip
def test_mvbench_takes_silence_for_an_answer_and_the_grader_does_not(response, authors, is_right):
    assert readers.mvbench_check_ans(response, A) == authors
    assert strict(A, response, reading="conclusion").value == is_right


@pytest.mark.parametrize(
    ("response", "is_right"),
    [
        ("A\n\nB is not seen, and C neither.", 1),
        ("(A)\nBecause option B is not shown.", 1),
        ("A. Washed the mug.\nExplanation: B is wrong, as nothing is thrown.", 1),
        ("**A. Washed the mug.**\n\nB cannot be.", 1),
        ("A. Washed the mug.\nThis is not seen.\nB. Threw it.\nThis may be.", 0),
        ("A. Washed the mug.\nBut the answer is B.", 0),
        ("B\n\nA is not seen.", 0),
    ],
)
def test_an_option_that_the_rest_explains_is_the_answer(response: str, is_right: int) -> None:
    assert strict(A, response, reading="conclusion").value == is_right


@pytest.mark.parametrize(
    ("response", "letter"),
    [("A", "A"), ("The best answer is B", "B"), ("A person waves", "A"), ("Answer: C", "C"), ("none", "")],
)
def test_first_letter_takes_any_capital(response, letter):
    assert readers.first_letter(response, "ABCD") == letter


def test_readers_of_single_benchmarks():
    b = choice("B")
    assert [readers.between_parentheses(text, b) for text in ("(B) Threw it.", "B. Threw", "Threw (B", "")] == [
        1,
        1,
        1,
        0,
    ]
    assert [readers.before_parenthesis(text, b) for text in ("B) Threw it", "B", "I say (B)", "B. x")] == [1, 1, 1, 0]
    assert [readers.last_stated_letter(text, b) for text in ("answer is A. No: option B", "Both A then B", "x")] == [
        1,
        1,
        0,
    ]
    assert [readers.standalone_letter(text, b) for text in ("b", "B. x", "(B)", "a B", "Because")] == [1, 1, 1, 0, 0]
    assert [readers.leading_letter(text, b) for text in ("B", "Answer: B", "(B)", "A or B")] == [1, 1, 1, 0]
    assert [readers.inferred_option(text, b) for text in ("B.", "it is B", "Threw it.", "A or B")] == [1, 1, 1, 0]
    assert [readers.mmmu_choice(text, b) for text in ("(A) no, (B)", "B.", "it is B", "b")] == [1, 1, 1, 0]
    assert readers.video_holmes("<answer>B</answer>", b) == 1
    assert readers.video_holmes("A clue, so B", b) == 0  # the first letter of the alphabet comes first
    assert readers.tagged_exactly("<think>x</think> <answer>B</answer>", b) == 1
    assert readers.tagged_exactly("It is B", b) == 0
    assert readers.tagged_exactly("so \\boxed{B}", b) == 1
    assert readers.concluded_letter("Therefore, the final answer is: B", b) == 1


def test_open_answers_of_lectures_agree_to_two_decimals():
    item = other("numerical", "0.625", "open", golds=["5/8", "0.625", "0.63"])
    assert [readers.mmmu_open(text, item) for text in ("It is 0.63.", "the ratio = 5/8", "0.6", "")] == [1, 1, 0, 0]
    assert strict(item, "Therefore, the final answer is: 0.63", reading="conclusion").value == 1
    assert strict(item, "0.6", reading="conclusion").value == 0


def test_spatial_answers_are_their_first_token():
    number = other("regression", "4", "number")
    assert [readers.vsibench_number(text, number) for text in ("4", "3.", "4 chairs", "four", "inf")] == [
        1,
        0.6,
        1,
        0,
        0,
    ]
    assert [readers.vsibench_choice(text, A) for text in ("A.", "a", "(A)")] == [1, 1, 0]
    assert strict(number, "There are five chairs", reading="conclusion").value == 0.6
    assert strict(number, "3 or 4", reading="conclusion").value == 0


def test_streams_are_read_by_containment():
    assert readers.containment("Maybe", choice("B")) == 0
    assert readers.containment("A person", A) == 1
    assert strict(A, "A person", reading="conclusion").value == 0
    rec = other("numerical", "2", "REC")
    assert [readers.joined_digits(text, rec) for text in ("2", "2 times", "2 or 3", "")] == [1, 1, 0, 0]
    no = other("boolean", "No", "SSR")
    assert [readers.yes_no_contained(text, no) for text in ("No", "N", "Not sure", "no", "Yes")] == [1, 1, 1, 0, 0]
    assert [strict(no, text, reading="conclusion").value for text in ("No.", "Not sure", "Yes")] == [1, 0, 0]


def matching(answer):
    asked = from_text("Which fits?\nOption 1: She sits down.\nOption 2: She stands up.")
    return choice_item(asked, "B", place(), id="1", video="v", form="caption_matching", fields={"answer": answer})


def test_the_forms_of_tempcompass_have_rules_of_their_own():
    item = matching("Option 2: She stands up.")
    for text, worth in (("Option 2", 1), ("Option 2.", 1), ("She stands up.", 1), ("Option 1: She sits down.", 0),
                        ("Option 2: She stands up.", 1), ("(B) She stands up.", 1), ("2", 0)):  # fmt: skip
        assert readers.tempcompass_matching(text, item) == worth, text
    for text, worth in (("Option 2", 1), ("option 2.", 1), ("She stands up.", 1), ("Option 1", 0), ("both", 0)):
        assert strict(item, text, reading="conclusion").value == worth, text
    sews = choice("B", ("knits", "sews"), answer="B. sews")
    for text, worth in (("B", 1), ("B. sews", 1), ("B) sews", 1), ("A.", 0), ("It is B", 0), ("B</s>", 1)):
        assert readers.tempcompass_choice(text, sews) == worth, text
    no = other("boolean", "no", "yes_no", answer="no")
    for text, worth in (("No, it is not", 1), ("nothing", 1), ("yes", 0), ("It is not", 0)):
        assert readers.tempcompass_yes_no(text, no) == worth, text


SPANS = [
    ("24.3 - 30.4", None, (24.3, 30.4)),
    ('{"time": [24.3, 30.4]}', None, None),
    ("from 24.3 to 30.4 seconds", None, (24.3, 30.4)),
    ("The event happens in the 24.3 - 30.4 seconds.", (24.3, 30.4), (24.3, 30.4)),
    ("It starts at 24.3 and ends at 30.4.", None, None),
    ("Start time: 24.3\nEnd time: 30.4", (24.3, 30.4), (24.3, 30.4)),
]


@pytest.mark.parametrize(("text", "before", "since"), SPANS)
def test_lmms_eval_reads_spans_as_its_versions_do_and_ours_reads_all(text, before, since):
    assert lmms_eval_span(text, since_1323=False) == before
    assert lmms_eval_span(text, since_1323=True) == since
    assert first_span(text) == (24.3, 30.4)


def test_a_reversed_span_is_swapped_and_the_first_one_counts():
    item = other("temporal grounding", json.dumps({"time": [24.3, 30.4]}), "span")
    assert readers.span("30.4 to 24.3", item) == 1
    assert strict(item, '<answer>{"time": [30.4, 24.3]}</answer>', reading="conclusion").value == 1
    assert strict(item, '{"time": [24.0, 30.0]}', reading="conclusion").value == pytest.approx(0.890625)
    assert first_span("0:10 - 0:20, or 1 - 2") == (10.0, 20.0)
    assert first_span("<think>1 - 2</think> 3 - 4") == (3.0, 4.0)
    assert strict(item, "no idea", reading="conclusion").value == 0


TUBE = {"time": [2.0, 5.0], "boxes": {"2": [100, 50, 220, 250], "3": [130, 52, 250, 252]}}
SEEN = {"time": [2.0, 4.0], "boxes": {"2": [100, 50, 220, 250], "3.0": [110, 52, 230, 252], "4": [0, 0, 10, 10]}}


def test_a_tube_has_overlaps_in_time_in_common_frames_and_over_all():
    item = other("spatial-temporal grounding", json.dumps(TUBE), "tube")
    found = strict(item, f"<answer>{json.dumps(SEEN)}</answer>", reading="conclusion").parts
    assert found == pytest.approx({"tiou": 2 / 3, "siou": 6 / 7, "viou": 4 / 7})
    assert strict(item, "", reading="conclusion").parts == {"tiou": 0.0, "siou": 0.0, "viou": 0.0}


def test_boxes_on_the_grid_are_scaled_to_the_frame_where_the_protocol_says_so():
    item = other("spatial-temporal grounding", json.dumps(TUBE), "tube", width=500, height=250, box_units="grid")
    on_grid = {"time": [2, 5], "boxes": {"2": [200, 200, 440, 1000], "3": [260, 208, 500, 1008]}}
    assert strict(item, json.dumps(on_grid), reading="conclusion").parts["viou"] == pytest.approx(1.0)


CONCLUSIONS = [
    ("A", "A"), ("a", "A"), ("A.", "A"), ("(A)", "A"), ("**A**", "A"), ("\\boxed{B}", "B"), ("B: He runs away", "B"),
    ("I think it is B because of the hat", "B"), ("A. Concealing something on top of something", "A"),
    ("Therefore, the final answer is: **C**", "C"), ("Therefore, the final answer is: (C)", "C"),
    ("Therefore, the final answer is: $C$", "C"), ("<answer>(B)</answer>", "B"), ("<answer>B. text</answer>", "B"),
    ("The answer is a person walking", None), ("I cannot tell", None), ("\u7b54\u6848\u662f C", "C"),
    ("So the answer is A? wait. Therefore, the final answer is: B", "B"),
    ("<think>The answer is A maybe</think>\nB", "B"), ("Therefore, the final answer is: K", None),
    ("<think>So the answer is A? no.</think>\nTherefore, the final answer is: B", "B"), ("Final Answer: D.", "D"),
]  # fmt: skip


@pytest.mark.parametrize(("response", "letter"), CONCLUSIONS)
def test_the_conclusion_of_a_response_names_its_letter(response, letter):
    item = choice("A", [f"thing {number} of the shed" for number in range(4)])
    assert strict(item, response, reading="conclusion").parsed == letter


def test_a_label_with_its_text_is_the_label_whatever_letters_the_text_has():
    item = choice("D", ("A and C are", "only E", "none", "B, D and F are turning anticlockwise"))
    said = "ANSWER: (D) B, D and F are turning anticlockwise"
    assert strict(item, said, reading="conclusion").parsed == "D"
    eight = choice("H", [f"choice number {number}" for number in range(8)])
    for said in ("**Final Answer: H. choice number 7**", "H", "H. choice number 7", "choice number 7"):
        assert strict(eight, said, reading="conclusion").value == 1, said


def test_letters_go_as_far_as_the_options():
    eleven = choice("K", [f"thing {number}" for number in range(11)])
    assert strict(eleven, "Therefore, the final answer is: K", reading="conclusion").value == 1


def test_tags_and_whole_are_other_readings():
    assert strict(A, "<answer>A</answer>", reading="tags").value == 1
    assert strict(A, "A", reading="tags").value == 0
    assert strict(A, "<think>B</think>A", reading="whole").value == 1


def test_an_item_without_a_right_answer_cannot_be_answered():
    item = choice_item(from_list("?", ["x", "y"]), None, place(), id="1", video="v")
    assert strict(item, "A", reading="conclusion").value == 0
    assert readers.first_letter_of("ABCD")("none", item) == 0
