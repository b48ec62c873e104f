"""Where the answer of a response stands."""

import pytest

from easyvideor1.errors import UsageError
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.readings import CONCLUSION, TAGS, WHOLE, reading_of, stated_answers
from easyvideor1.rewards.router import score
from easyvideor1.types import Sample

OPTIONS = ("A. the green boat", "B. a tall tower", "C. a man who sings", "D. an old horse")


def read(text: str, reading=CONCLUSION, *, problem_type: str = "multiple choice", gold: str = "A") -> str | None:
    options = OPTIONS if problem_type == "multiple choice" else ()
    sample = Sample(id="s", problem_type=problem_type, problem="?", gold=gold, options=options)
    return score(sample, text, reading=reading).parsed


CONCLUDES_B = (
    "<think>A?</think><answer>B</answer>",
    "<answer>A</answer> wait <answer>B</answer>",
    "<think>x</think>The answer is B. Note that A stands next to it.",
    "<answer>The answer is B. Note that A stands next to it.</answer>",
    "<answer>I considered (A), but it is incorrect. Final answer: B.</answer>",
    "The correct answer is **B**. Options A, C and D show no roof.",
    "Comparing A, B, C and D in turn...\nANSWER: B",
    "so $\\boxed{\\langle H\\rangle \\ll \\Delta E}$\n\n**Answer: B**",
    "First \\boxed{A}? No: \\boxed{B}",
    "Antwort:\n\nAntwort: B", "\uc815\ub2f5: B", "R\u00e9ponse : B", "\u7b54\u6848\u662fB\u3002",
    "\u6240\u4ee5\u6b63\u786e\u7b54\u6848\u662f B",
    "It rises above the roofs.\n\nB", "It rises above the roofs.\n(B)", "The option (B) rises above the roofs",
    "I can see a tall tower behind the trees", "<think>A or C</think>a tall tower", "I'd go with B",
    "If the answer is A, the boat would float. So the answer is B.", "Answer: A\nLet me correct this.\nAnswer: B",
)  # fmt: skip
CONCLUDES_NOTHING = (
    "", "<think>B</think>", "<think>The answer is B", "A or B", "<answer>A or B</answer>", "Both A and B are shown",
    "The answer is not B", "I cannot tell", "the green boat and a tall tower", "B: a tall tower or the green boat",
    "A dog",
    "Based on the video, it is hard to say.", "Don't know",
)  # fmt: skip


@pytest.mark.parametrize("text", CONCLUDES_B)
def test_a_conclusion_is_read(text):
    assert read(text) == "B"


@pytest.mark.parametrize("text", CONCLUDES_NOTHING)
def test_no_single_conclusion(text):
    assert read(text) is None


def test_what_training_reads_is_the_tags_alone():
    assert read("<answer>B</answer>", TAGS) == "B"
    assert read("The answer is B", TAGS) is None
    assert read("<answer>A</answer><answer>B</answer>", TAGS) is None
    assert score(Sample(id="s", problem_type="ocr", problem="?", gold="B"), "B").parts["accuracy"] == 0


def test_the_whole_text_after_the_thinking_is_the_answer():
    assert read("<think>so</think>\nB", WHOLE) == "B"
    assert read("a man waters plants", WHOLE, problem_type="open-ended", gold="x") == "a man water plant"
    assert read("I thought of A, but it is B", WHOLE) is None


@pytest.mark.parametrize(
    ("problem_type", "text", "parsed"),
    [
        ("numerical", "There are 2 rows of 4 chairs. The answer is 8.", "8"),
        ("numerical", "2 x 4 = \\boxed{8}", "8"),
        ("numerical", "8", "8"),
        ("numerical", "either 8 or 9", None),
        ("math", "Thus $x = \\frac{1}{2}$ and \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("boolean", "I see no dog.\nFinal answer: No", "False"),
        ("temporal grounding", "He sings. Answer: 10 to 20 seconds", "(10.0, 20.0)"),
        ("temporal grounding", 'The span is {"time": [10, 20]}', "(10.0, 20.0)"),
        ("ocr", "The text says: answer: EXIT", "exit"),
    ],
)
def test_every_type_is_read_from_a_conclusion(problem_type, text, parsed):
    gold = {"boolean": "No", "temporal grounding": "10 to 20"}.get(problem_type, "8")
    assert read(text, problem_type=problem_type, gold=gold) == parsed


def test_the_last_statement_counts_and_suppositions_do_not():
    assert stated_answers("the answer is A. No: the answer is B") == ["B"]
    assert stated_answers("\\boxed{3} and then \\boxed{4}") == ["4"]
    assert stated_answers("if the answer is A, then") == []
    assert stated_answers("nothing stated") == []


# Read in quadratic time, one of these takes minutes: the limit is there to end such a test, not to measure it.
@pytest.mark.timeout(60)
def test_floods_of_statements_are_read_in_linear_time():
    for flood in (
        "the answer is " * 5000,
        "answer: A\n" * 6000,
        "\\boxed{" * 8000,
        "final correct best " * 4000,
        "A " * 30_000,
    ):
        read(flood)


def test_a_pool_reads_where_it_is_told_to():
    sample = Sample(id="s", problem_type="multiple choice", problem="?", gold="B", options=OPTIONS)
    drawing = '<svg viewBox="0 0 9 9"><rect width="5" height="5"/></svg>'
    items = [
        (sample, "The answer is B."),
        (Sample(id="d", problem_type="svg code", problem="?", gold=drawing), drawing),
    ]
    with RewardPool(workers=1, reading=CONCLUSION) as pool:
        assert [one.parts["accuracy"] for one in pool.score(items)] == [1, 1]
    with RewardPool(workers=1) as pool:
        assert [one.parts["accuracy"] for one in pool.score(items)] == [0, 0]


def test_an_unknown_reading_is_a_usage_error():
    assert reading_of("whole") is WHOLE
    with pytest.raises(UsageError, match="'all' is no reading of answers; known: tags, conclusion, whole"):
        reading_of("all")
