"""Thinking, answer blocks and the coats around an answer."""

import pytest

from easyvideor1.rewards.folding import fold
from easyvideor1.rewards.parse import MAX_ANSWER_CHARS, plain, read_response, unfenced
from easyvideor1.rewards.router import score
from easyvideor1.types import Sample

BLOCKS = {
    "<answer>4</answer>": ("4",),
    "<think>so</think><answer>4</answer>": ("4",),
    "<think>so</think>\n<answer>\n4\n</answer>\n": ("\n4\n",),
    "<ANSWER>4</Answer>": ("4",),
    "so it is</think><answer>4</answer>": ("4",),
    "<think>maybe <answer>3</answer></think><answer>4</answer>": ("4",),
    "<think>a</think><answer>3</answer><think>b</think><answer>4</answer>": ("4",),
    "<answer>3</answer><think>b</think>": (),
    "<think>b <answer>3</answer>": (),
    "<answer>3</answer><think>b": ("3",),
    "<answer>3</answer><answer>4</answer>": ("3", "4"),
    "<answer><answer>4</answer></answer>": ("4",),
    "<answer>4": (),
    "4</answer>": (),
    "</answer><answer>4</answer>": ("4",),
    "<answer></answer>": ("",),
    "4": (),
    "": (),
    "< answer>4</ answer>": (),
}


@pytest.mark.parametrize("text", BLOCKS)
def test_answer_blocks_are_those_after_the_thinking(text):
    assert read_response(text).answers == BLOCKS[text]


@pytest.mark.parametrize(
    ("text", "has_one_thought"),
    [
        ("<think>so</think><answer>4</answer>", True),
        ("so</think><answer>4</answer>", True),  # the prompt opened it
        ("\n<think>so</think> <answer>4</answer>", True),
        ("<answer>4</answer>", False),
        ("<think></think><answer>4</answer>", False),
        ("</think><answer>4</answer>", False),
        ("well <think>so</think><answer>4</answer>", False),
        ("<think>a</think><think>b</think><answer>4</answer>", False),
        ("<think><think>a</think><answer>4</answer>", False),
    ],
)
def test_one_thought_is_one_closed_block_at_the_start(text, has_one_thought):
    assert read_response(text).has_one_thought is has_one_thought


def test_equal_blocks_agree_and_others_contradict():
    assert read_response("<answer>B</answer><answer> b. </answer>").answer == " b. "
    assert read_response("<answer>B</answer><answer>C</answer>").answer is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("<answer>4</answer>", 1.0),
        ("<answer>4</answer> bye", 1.0),
        ("<answer>four or five</answer>", 0.5),
        ("<answer> </answer>", 0.0),
        ("<answer>4</answer><answer>4</answer>", 0.0),
        ("4", 0.0),
    ],
)
def test_format_part_without_thinking(text, part):
    assert score(Sample(id="s", problem_type="numerical", problem="", gold="4"), text).parts["format"] == part


def test_format_part_with_thinking_wants_a_thought():
    sample = Sample(id="s", problem_type="numerical", problem="", gold="4")
    assert score(sample, "<answer>4</answer>", thinking=True).parts == {"accuracy": 1.0, "format": 0.0}
    assert score(sample, "<think>2+2</think><answer>4</answer>", thinking=True).parts["format"] == 1.0


def test_plain_takes_off_coats_but_keeps_the_answer():
    coats = (
        "**B**",
        "`B`",
        "$B$",
        "$$B$$",
        "\\(B\\)",
        "\\[B\\]",
        "\\boxed{B}",
        "$\\boxed{\\text{B}}$",
        "```\nB\n```",
        "\uff22",
    )
    assert {plain(text) for text in coats} == {"B"}
    assert plain("\\boxed{\\frac{1}{2}}") == "\\frac{1}{2}"
    assert plain("$a$ and $b$") == "$a$ and $b$"
    assert plain("5 \u2212 2") == "5 - 2"
    assert plain("**Answer:** 2**10") == "Answer: 2**10"
    assert plain("\u200b2\u00be\ufeff") == "2 3/4"


def test_fold_keeps_what_makes_numbers_different():
    assert fold("1.5") != fold("15")
    assert fold("-3") != fold("3")
    assert fold("The cat, (black)!") == "the cat (black)"


def test_unfenced_wants_a_fence_around_everything():
    assert unfenced("```svg\n<svg/>\n```") == "<svg/>"
    assert unfenced("see ```x```") == "see ```x```"
    assert unfenced("```") == "```"


FLOODS = (
    " " * 400_000,
    "<answer>" * 50_000,
    "</answer>" * 50_000,
    "<answer>4</answer>" * 20_000,
    "<think>" * 50_000,
    "9" * 300_000,
    "<answer>" + "9" * 16_000 + "</answer>",
    "<answer>" + "9 " * 8_000 + "</answer>",
    "<answer>" + "1," * 8_000 + "</answer>",
    "<answer>" + "A. " * 5_000 + "</answer>",
    "<answer>" + "(" * 16_000 + "</answer>",
    "<answer>" + "{" * 16_000 + "</answer>",
    "<answer>" + '{"time":' * 2_000 + "</answer>",
    "<answer>" + " " * 16_000 + "</answer>",
    "<answer>" + "one " * 4_000 + "</answer>",
    "<answer>" + "\\boxed{" * 2_000 + "</answer>",
    "<answer>" + "answer is " * 1_600 + "</answer>",
    "<answer>" + "the answer " * 1_400 + "</answer>",
    "<answer>" + "\u4e00" * 16_000 + "</answer>",
    "<answer>" + "\ufdfa" * 16_000 + "</answer>",
    "<answer>" + "yes or " * 2_000 + "</answer>",
    "<answer>" + "10:" * 5_000 + "</answer>",
    "<answer>" + "-" * 16_000 + "</answer>",
    "<answer>" + "111 " * 4_000 + "1</answer>",
    "<answer>" + "not option " * 1_400 + "</answer>",
    "<answer>" + "a - " * 4_000 + "</answer>",
    "<answer>" + "and a half " * 1_400 + "</answer>",
)


# Read in quadratic time, one of these takes minutes: the limit is there to end such a test, not to measure it.
@pytest.mark.timeout(60)
@pytest.mark.parametrize("problem_type", ["multiple choice", "numerical", "boolean", "temporal grounding"])
def test_floods_are_read_in_linear_time(problem_type):
    gold = {"multiple choice": "B", "boolean": "No", "temporal grounding": "1 to 2"}.get(problem_type, "4.5")
    sample = Sample(id="s", problem_type=problem_type, problem="", gold=gold, options=("A. one", "B. two"))
    for text in FLOODS:
        assert score(sample, text).parts["accuracy"] == 0, text[:40]


def test_an_answer_beyond_the_limit_is_no_answer():
    sample = Sample(id="s", problem_type="numerical", problem="", gold="4")
    result = score(sample, "<answer>4" + " " * MAX_ANSWER_CHARS + "</answer>")
    assert (result.value, result.reason) == (pytest.approx(0.05), f"answer longer than {MAX_ANSWER_CHARS} characters")
