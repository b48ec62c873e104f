"""Mathematical answers that are the same, that are not, and that must not be evaluated."""

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.algebra.compare import same_math
from easyvideor1.rewards.algebra.latex import read_expression
from easyvideor1.rewards.algebra.size import is_small
from easyvideor1.rewards.algebra.symbols import UnreadableGoldError, same_symbols
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
SAME_BY_KIND = (
    ("(-\\infty, 3)", "x<3"), ("x<3", "(-\\infty,3)"), ("x\\le 3", "(-\\infty,3]"), ("[1,2)", "1\\le x<2"),
    ("1<x<2", "(1,2)"), ("(1,2)", "1<x<2"), ("(-\\infty,2)\\cup(2,\\infty)", "x \\ne 2"),
    ("\\mathbb{R}\\setminus\\{0\\}", "(-\\infty,0)\\cup(0,\\infty)"), ("x \\neq 0", "\\mathbb{R}\\setminus\\{0\\}"),
    ("(-\\infty,-1)\\cup(3,\\infty)", "x<-1 or x>3"), ("(-\\infty,-1)\\cup(3,\\infty)", "x>3 \\text{ or } x<-1"),
    ("2x<6", "x<3"), ("-2x<6", "x>-3"), ("x=1, y=2", "y=2, x=1"), ("x=1, y=2", "(x,y)=(1,2)"),
    ("(x,y)=(1,2)", "x=1, y=2"), ("(x,y)=(1,2)", "x=1 and y=2"), ("(1,2)", "x=1, y=2"), ("x=1,y=2", "(1,2)"),
    ("3x-y+13=0", "y=3x+13"), ("3x-y+13=0", "6x-2y+26=0"), ("73", "the total is **73**."),
    ("73", "\u2705 Final Answer: **73**"), ("15", "= 15"), ("15", "x = 15 cm"), ("300", "3 hundred"),
    ("5000000", "5 million"), ("1500000", "1.5 million"), ("12", "There are 12 apples."), ("5 m", "500 cm"),
    ("500 \\text{ cm}", "5 m"), ("2 hours", "120 minutes"), ("\\frac{1}{2}", "\\fbox{\\frac{1}{2}}"),
    ("x/2", "\\boxed{\\frac{x}{2}}"), ("7*sin(pi*x/5)+1", "$7\\sin(\\frac{\\pi}{5}x)+1$"),
    ("\\text{Evelyn}", "Evelyn"), ("12:00", "12:00"), ("2:30", "02:30"), ("1:2", "2:4"), ("3:4", "6:8"),
    ("A = 5", "5"), ("\\text{Area} = 5", "5"), ("5", "Area = 5"), ("5", "Total area = 5"), ("\\{1,2,3\\}", "3,2,1"),
    ("\\{1,2,3\\}", "x \\in \\{1,2,3\\}"), ("x=1 or x=2", "1, 2"), ("1,2", "x_1 = 1, x_2 = 2"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{bmatrix}1 & 2\\\\ 3 & 4\\end{bmatrix}"),
    ("\\langle 1,2\\rangle", "(1,2)"), ("(-1)^n", "(-1)^{n}"), ("[0,1]", "0 \\le x \\le 1"),
    ("(0, \\frac{\\pi}{2})", "0<x<\\frac{\\pi}{2}"), ("\\mathbb{R}", "(-\\infty,\\infty)"),
    ("\u211d", "all real numbers"), ("\\emptyset", "\u2205"), ("x\\geq 5", "5\\leq x"),
    ("\\frac{1}{2004!}", "\\frac{1}{2004!}"), ("2^{99}\\cdot 2", "2^{100}"), ("3.14159265", "\\pi"),
    ("1/7", "0.142857"), ("45^\\circ", "\\frac{\\pi}{4}"), ("\\sqrt{2}", "\\frac{2}{\\sqrt{2}}"), ("4", "4.0"),
    ("100%", "1"), ("x^2+y^2=4", "2x^2+2y^2=8"), ("x>2 and x<5", "(2,5)"), ("2<x<5", "x>2, x<5"),
    ("5 \\text{ apples}", "5 apples"), ("The answer is 5", "5"), ("16", "sixteen"), ("-3", "negative three"),
    ("2,3", "2 and 3"), ("\\sqrt[3]{2}", "2^{1/3}"), ("e^2", "\\exp(2)"), ("\\log_2 8", "3"), ("10", "$10$ dollars"),
    ("10", "\\$10"), ("(3, \\frac{\\pi}{2})", "\\left(3,\\frac{\\pi}{2}\\right)"), ("6", "\\frac{12}{2}=6"),
    ("6", "2\\cdot 3 = 6"), ("y=2x", "2x"), ("f(x)=x^2", "x^2"), ("f(x)=x^2", "g(x)=x^2"), ("x^2", "f(x)=x^2"),
    ("\\pm\\sqrt{2}", "\\sqrt{2},-\\sqrt{2}"), ("x=\\pm 2", "\\{2,-2\\}"), ("0.5", "50\\%"), ("9", "9."),
    ("1,000,000", "10^6"), ("6.02e23", "6.02\\times 10^{23}"), ("(2,3],", "(2,3]"), ("\\text{(A)}", "A"),
    ("B", "\\text{B}"), ("A", "A"), ("no solution", "\\text{No solution}"),
    ("2\\sqrt{3} cm", "2\\sqrt{3}\\text{ centimeters}"), ("18\\pi \\text{ cm}^3", "18\\pi"), ("x=5", "5"),
    ("5", "x=5"), ("3", "$x = 3$ is the solution"), ("\\frac{3}{4}", "\\frac34"), ("0.75", "three quarters"),
    ("-\\infty", "-\\infty"), ("\\infty", "\u221e"), ("(1,2),(3,4)", "(3,4),(1,2)"),
    ("\\{(1,2),(3,4)\\}", "(1,2), (3,4)"), ("1+2i", "2i+1"), ("x \\in [1,2]", "[1,2]"),
    ("\\left[ -2, 7 \\right)", "[-2,7)"), ("2x+1", "1+2x"), ("\\frac{a}{b}", "a/b"), ("(a+b)^2", "a^2+2ab+b^2"),
    ("x=2, y=3, z=4", "(x, y, z) = (2, 3, 4)"), ("10\\%", "10%"), ("30", "30 degrees"),
    ("100\\text{ km/h}", "100 kilometers per hour"), ("\\frac{\\sqrt{3}}{2}", "0.866025"),
    ("\\text{Monday}", "Monday."), ("x<3", "x\\in(-\\infty,3)"), ("120", "5!"),
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
DIFFERENT_BY_KIND = (
    ("x=1, y=2", "x=2, y=1"), ("\\frac{1}{20!}", "\\frac{1}{19!}"), ("\\frac{1}{10^{7}}", "0.0000002"),
    ("(\\frac{1}{6})^{25}", "(\\frac16)^{24}"), ("1", "1-\\frac{1}{2^{60}}"), ("5", "5 million"), ("5", "5 squared"),
    ("4", "4 over nine"), ("5", "5 thousand"), ("5", "not 5"), ("5", "5 is wrong"), ("7", "more than 7"),
    ("7", "at least 7"), ("7", "7!"), ("7", "\\sqrt{7}"), ("7", "\u221a7"), ("7", "7 or 8"), ("7", "x>7"),
    ("7", "x \\ge 7"), ("7", "7x"), ("7", "x+7"), ("(1,2)", "(2,1)"), ("x=1,y=2", "(2,1)"), ("x=1,y=2", "2,1"),
    ("(1,2)", "x=2, y=1"), ("3x-y+13=0", "3x+4y+14=0"), ("x<3", "x>3"), ("x<3", "x\\le 3"),
    ("(-\\infty,3)", "(-\\infty,3]"), ("(-\\infty,2)\\cup(2,\\infty)", "(-\\infty,\\infty)"),
    ("\\mathbb{R}", "x\\ne 0"), ("12:00", "1:00"), ("12:00", "12:30"), ("2:30", "3:20"), ("1:2", "2:1"),
    ("(3, \\frac{\\pi}{2})", "(3, \\frac{2\\pi}{3})"), ("3*cos(sqrt(140)*t)", "$3\\cos(2\\sqrt{35}x)$"),
    ("\\text{Evelyn}", "Emily"), ("55", "5 5"), ("2^{34}", "2^{3}4"), ("\\sqrt{12}", "\\sqrt{1}2"),
    ("x+1", "$(a+b+c+d+f+g)^{50}$"), ("3", "\\sin(1)^{9999}"), ("0.5", "0.5%"), ("1", "2-1=0"), ("5", "3=5"),
    ("5 m", "5 cm"), ("5", "The answer is not \\boxed{5}"), ("5", "I think it is 4 or 5"), ("\\{1,2\\}", "\\{1\\}"),
    ("\\{1,2\\}", "\\{1,2,3\\}"), ("y=3x-1", "y=3x+1"), ("x=5", "y=5"), ("x^2+y^2=4", "x^2+y^2=9"),
    ("x^2+y^2=4", "x^2+y^2"), ("[0,1]", "(0,1)"),
    ("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\4&3\\end{pmatrix}"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}"), ("5 \\text{ apples}", "5 pears"),
    ("A", "B"), ("A", "a dog"), ("\\text{red}", "\\text{blue}"), ("no solution", "5"), ("2<x<5", "(2,6)"),
    ("x<-1 or x>3", "-1<x<3"), ("10", "10^{10}"), ("0", "1/0"), ("1/3", "0.33"), ("\\pi", "3.14"), ("100", "1e3"),
    ("1000000", "1 thousand"), ("6", "2+3=6"), ("(a+b)^2", "a^2+b^2"), ("\\sin x", "\\cos x"), ("x", "|x|"),
    ("2", "\\pm 2"), ("e", "2.71"), ("3", "3i"), ("i", "-i"), ("1+2i", "1-2i"), ("7", "the total is 7 more than 5"),
    ("73", "the total is 73 or 74"), ("73", "not 73"), ("5", "5 + x"), ("\\frac{1}{2004!}", "\\frac{1}{2006!}"),
    ("\\frac{1}{2^{99}}", "\\frac{1}{2^{98}}"), ("(1,2)", "1,2"), ("5", "five million"), ("2 hours", "2 minutes"),
    ("12", "1 dozen and a half"), ("x=2, y=3", "x=2"), ("5", "x=5, y=6"), ("7", "about 7 or more"),
    ("x=1,y=2", "a=1,b=2"), ("3", "log(3)"), ("y=2x", "y=2x+0.0001"), ("16", "sixty"), ("2", "2nd root of 16"),
    ("8", "half of 8"), ("90^\\circ", "90\\text{ cm}"), ("x>2", "y>2"),
    ("\\mathbb{R}\\setminus\\{0\\}", "\\mathbb{R}\\setminus\\{1\\}"), ("5", "five or six"), ("9", "3 squared"),
    ("x^2", "x^3"), ("\\frac{x}{y}", "\\frac{y}{x}"),
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
    return (
        expression is not None
        and gold_expression is not None
        and same_math(expression, gold_expression, algebra=same_symbols)
    )


@pytest.mark.parametrize(("gold", "answer"), SAME + SAME_BY_KIND)
def test_answers_are_the_same(gold, answer):
    assert judge(answer, gold)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT + DIFFERENT_BY_KIND)
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
