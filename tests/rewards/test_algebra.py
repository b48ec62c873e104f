"""Mathematical answers that are the same, that are not, and that must not be evaluated."""

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.algebra import UnreadableGoldError, is_small, read_expression, same_math
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.router import check
from easyvideor1.types import Sample

SAME = (
    ("\\frac{3}{4}", "0.75"), ("\\sqrt{12}", "2\\sqrt{3}"), ("9", "x = 9"), ("81", "3^{4}"), ("81", "3^4"),
    ("81", "3**4"),
    ("\\frac{\\sqrt{5}}{3}", "\\frac{5}{3\\sqrt{5}}"), ("C", "(C)"), ("C", "C."), ("C", "Option C"),
    ("45^\\circ", "45"), ("45^\\circ", "45^{\\circ}"), ("45^\\circ", "45\u00b0"), ("45", "45 degrees"),
    ("y<7", "y < 7"), ("y \\le 7", "y \u2264 7"), ("y > 7", "7 < y"), ("9\\text{ cm}", "9 cm"),
    ("9\\text{ cm}", "9"), ("9", "9\\mathrm{cm}"), ("9 m", "9 meters"), ("\\{4,7\\}", "\\{7,4\\}"), ("4,7", "7, 4"),
    ("4, 7", "4 and 7"), ("4,7", "\\{4, 7\\}"), ("(4,7]", "(4, 7]"), ("$$-\\dfrac{9}{2}$$", "-4.5"),
    ("-\\frac92", "-4.5"), ("3y", "y\\cdot 3"), ("3y", "3*y"), ("x^2+4x+4", "(x+2)^2"), ("25000", "25,000"),
    ("0.35", "35%"), ("35", "35\\%"), ("\\text{Sunday}", "Sunday"), ("no real roots", "No real roots."),
    ("\\pm 6", "6, -6"), ("x=\\pm 6", "x=6 or x=-6"), ("9", "The answer is $9$."), ("9", "4+5=\\boxed{9}"),
    ("9", "4 + 5 = 9"), ("z=9", "9"), ("y=3x-1", "3x-1"), ("y=3x-1", "y = -1+3x"), ("y=3x-1", "f(x)=3x-1"),
    ("(-\\infty,2]\\cup[5,8)", "(-\\infty, 2] \\cup [5, 8)"), ("\\pi", "\u03c0"), ("\\frac{\\pi}{3}", "\\pi/3"),
    ("\\sqrt{12}", "sqrt(12)"), ("\\sqrt{12}", "\u221a12"), ("10^{25}", "10000000000000000000000000"),
    ("2\\frac{1}{4}", "2.25"), ("\\log_3 9", "2"), ("\\sin 30^\\circ", "\\frac{1}{2}"), ("4!", "24"),
    ("2+5i", "5i+2"), ("1/3", "0.3333333"), ("2.5\\times10^{4}", "25000"), ("\\tan x", "\\frac{\\sin x}{\\cos x}"),
    ("\\frac{5}{6}", "5/6"), ("\u22129", "-9"), ("0", "0.0"), ("2e4", "20000"), ("\\text{odd}", "odd"),
    ("6\\text{ pears}", "6 pears"), ("[2,3]", "[2, 3]"), ("10^{-2}", "0.01"), ("\\sqrt[3]{8}", "2"),
    ("$\\boxed{8}$", "8"), ("8", "**8**"), ("\\dfrac{5}{9}", "\\tfrac{5}{9}"),
    ("\\begin{pmatrix}3\\\\4\\end{pmatrix}", "\\begin{pmatrix} 3 \\\\ 4 \\end{pmatrix}"), ("8", "\\$8"),
    ("8", "$8.00"), ("(4, 7)", "(4,7)"), ("x \\in (4,7)", "(4,7)"), ("\\left(4, 7\\right)", "(4,7)"),
    ("a^2-9", "(a-3)(a+3)"), ("P+1", "1 + P"), ("9\u4e2a", "9"), ("9", "9\u4e2a"),
    ("9", "\u7b54\uff1a9"), ("9\\text{ cm}", "9\u5398\u7c73"), ("\\lg 1000", "3"), ("4pq", "4qp"), ("4ab",
    "4 \\cdot b \\cdot a"), ("7t", "t \\cdot 7"),
    ("15", "fifteen"),
    ("15", "fifteen pears"), ("(a,b)=(4,7)", "(4,7)"), ("6,\\!000", "6000"), ("\\emptyset", "\\varnothing"),
    ("3\\sqrt{5}\\text{ cm}", "3\\sqrt{5}"), ("3\\sqrt{5}", "\\sqrt{45} cm"), ("16\\pi", "16\\pi square units"),
    ("16\\pi\\text{ m}^2", "16\\pi square meters"), ("9 m^2", "9 square meters"), ("9", "\u200b9\ufeff"),
    ("0.\\overline{3}", "1/3"), ("\\frac{7}{6}", "1.1\\overline{6}"), ("-0.\\dot{3}", "-\\frac{1}{3}"),
    ("0.\\overline{27}", "\\frac{3}{11}"), ("x = 2.\\bar{9}", "3"),
)  # fmt: skip
DIFFERENT = (
    ("0.\\overline{3}", "0.3"), ("0.\\overline{3}", "0.\\overline{03}"),
    ("(4,7)", "(7,4)"), ("C", "D"), ("C", "C or D"), ("\\text{Sunday}", "\\text{Monday}"), ("9", "7, 8, 9"),
    ("9", "4=9"), ("6\\text{ pears}", "6\\text{ plums}"), ("8", "7.9"), ("8", "8.1"), ("9 km", "9 cm"),
    ("47", "4,7"), ("9", "9 9 8"), ("9", "8 or 9"), ("\\frac{13}{2}", "\\frac{1}{32}"), ("y<7", "y>7"),
    ("y<7", "y\\le 7"), ("(4,7]", "[4,7]"), ("(4,7]", "(4,7)"), ("4,7,9", "4,7"), ("4,7", "4,7,9"), ("4,7", "4"),
    ("6", "\\pm 6"), ("\\pm 6", "6"), ("4,7", "(4,7)"), ("0.333", "1/3"), ("x=9", "y=9"), ("9", "x"), ("x", "9"),
    ("no real roots", "9"), ("9", "none"), ("None", "I cannot say"), ("8", "\\boxed{8}\\boxed{9}"), ("3y", "3y^2"),
    ("y+4", "y-4"), ("\\frac{3}{4}", "\\frac{3}{5}"), ("1e-8", "3e-8"), ("\\sqrt{2}", "1.414"), ("9", "9x"),
    ("\\{4,7\\}", "\\{4,8\\}"), ("(4,7,9)", "(4,7)"), ("10^{25}", "10^{25}+1"), ("9", "the answer is 8, not 9"),
    ("9", "1/0"), ("9", ""), ("5!", "5"), ("35%", "36%"), ("1", "0.999"),
    # Letters behind a number are variables, not units to leave out.
    ("7t", "7"), ("4ab", "4"), ("5c", "5"), ("3x+2h", "3x+2"), ("4m", "4"), ("6\\pi r", "6\\pi"), ("7", "7t"),
    ("3\\sqrt{5}\\text{ cm}", "3\\sqrt{5}\\text{ m}"), ("16\\pi\\text{ m}^2", "16\\pi\\text{ m}^3"), ("15", "fifty"),
    ("9", "9\u4e07"), ("9\u7c73", "9\u5398\u7c73"),
    ("15", "fifteen sixteen"), ("(a,b)=(4,7)", "(7,4)"),
)  # fmt: skip
REFUSED = (
    "8^{8^{8^{8}}}", "(10^8)!", "8**8**8**8", "8^8^8^8", "2^{88888888}", "(3^{8888})^{8888}", "((8!)!)!", "8888888!",
    "1" * 5000, "10^{10^{12}}", "\\dfrac{7^{(7^{(7^{(7^7)})}-2)}-7}{4}", "(" * 3000 + "1" + ")" * 3000, "{" * 250,
    "\\frac{" * 60, "\\sqrt{" * 60 + "5", "(x+y+z+1)^{8888}", "((" * 12 + "1" + "))" * 12, "{" * 16 + "1" + "}" * 16,
    "!" * 100, "888!^{888}", "7^{8!}", "10^{8888888}", "((x+1)^{40})^{40}", "2^{2^{2^{2^{2^{2}}}}}", "(2!)!!!",
    "\\tan(\\tan(\\tan(7)))", "\\ln{\\sin{\\exp{9}}}", "7654321^{9999}",
)  # fmt: skip
"""Never evaluated, whatever the gold is."""
HOSTILE = (
    *REFUSED, "\\sum_{n=1}^{10^8} n", "\\binom{10^8}{7}", "\\prod_{n=1}^{8888}n", "\\int_0^1 e^{x^2} dx", "1e999999999",
    "0^{0^{0}}", "\\left" * 40, "e^{e^{e^{e^{8}}}}", "\\tan(10^{8888})", "^" * 200,
    "9" * 99 + "^{99}", "1/" * 140 + "1", "-" * 280 + "1", "x^{x^{x^{x}}}",
)  # fmt: skip


def judge(answer: str, gold: str) -> bool:
    expression, gold_expression = read_expression(answer), read_expression(gold)
    return expression is not None and gold_expression is not None and same_math(expression, gold_expression)


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_answers_are_the_same(gold, answer):
    assert judge(answer, gold)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_answers_are_different(gold, answer):
    assert not judge(answer, gold)


@pytest.mark.parametrize("text", REFUSED)
def test_expressions_that_would_take_computer_algebra_long_are_too_large_for_it(text):
    expression = read_expression(text)
    assert expression is not None
    assert not is_small(expression)


def test_hostile_expressions_score_zero_within_their_deadline_and_leave_the_next_answer_right():
    gold = Sample(id="s", problem_type="math", problem="", gold="3")
    texts = [text for hostile in HOSTILE for text in (f"<answer>{hostile}</answer>", "<answer>6/2</answer>")]
    with RewardPool(workers=1, deadline_s=60) as pool:  # six times the usual: a machine that runs tests is busy
        scores = pool.score([(gold, text) for text in texts])
    assert not pool.unscored
    assert [score.parts["accuracy"] for score in scores] == [0.0, 1.0] * len(HOSTILE)


def test_size_limits_are_on_the_safe_side_of_ordinary_answers():
    for text in (
        "x^{2}+2^{10}",
        "e^{x^{2}}",
        "12!",
        "n!",
        "(n+1)!",
        "\\frac{10!}{3!7!}",
        "x^{100}",
        "2^{-3}",
        "3^{n+1}",
        "10^{23}",
        "\\ln(\\sin x)",
        "2^{9999}",
    ):
        assert is_small(text), text


@pytest.mark.parametrize("gold", ["", "$$", "8^{8^{8^{8}}}", "1" * 400])
def test_gold_without_a_moderate_expression_is_a_data_error(gold):
    with pytest.raises(DataError, match="field 'answer'"):
        check([Sample(id="s", problem_type="math", problem="", gold=gold)])


def test_gold_that_the_algebra_cannot_read_is_never_paid():
    with pytest.raises(UnreadableGoldError):
        judge("5", "\\foo +\\bar = )")
    with RewardPool(workers=1) as pool:
        score = pool.score([(Sample(id="s", problem_type="math", problem="", gold="+*^ )2("), "<answer>5</answer>")])[0]
    assert not score.is_scored
