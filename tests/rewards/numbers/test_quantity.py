"""The one number an answer names."""

import math
from fractions import Fraction

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rewards.measures import mean_relative_accuracy
from easyvideor1.rewards.numbers.quantity import Number, comparable, read_number, same_number
from easyvideor1.rewards.router import check
from easyvideor1.types import Sample

READS = {
    "8": 8, "8.0": 8, "-8": -8, "+8": 8, "\u22128": -8, "- 8": -8, "\uff18": 8, "2,500": 2500,
    "1,234,567.5": 1234567.5, "6.25": 6.25, ".5": 0.5, "8.": 8, "3e2": 300, "3E2": 300, "2.5e-3": 0.0025,
    "4.5 \u00d7 10^3": 4500, "4.5 x 10^3": 4500, "4.5*10^3": 4500, "4.5 \\times 10^{3}": 4500, "10^4": 10000,
    "10**4": 10000,
    "2^{5}": 32, "3/4": 0.75, "3 / 4": 0.75, "-3/4": -0.75, "2 3/4": 2.75, "\\frac{3}{4}": 0.75,
    "\\dfrac{3}{4}": 0.75, "2\\frac{3}{4}": 2.75, "\\frac34": 0.75, "25%": 0.25, "25 %": 0.25, "25\\%": 0.25,
    "25 percent": 0.25, "twenty five percent": 0.25, "9 boats": 9, "9.5 m": 9.5, "9.5m": 9.5, "$4.20": 4.2,
    "-$4": -4, "\u20ac4": 4, "about 9": 9, "~9": 9, "\u2248 9": 9, "$9$": 9, "\\(9\\)": 9, "\\boxed{9}": 9,
    "$\\boxed{9.5}$": 9.5, "**9**": 9, "`9`": 9, "The answer is 9.": 9, "There are nine.": 9, "x = 9": 9,
    "x_1 = 9": 9, "9 m\u00b2": 9, "9 m^2": 9, "9 kg/m^3": 9, "60 km/h": 60, "nine": 9, "Nine boats": 9,
    "ninety-nine": 99, "ninety nine": 99, "three hundred": 300, "three hundred and six": 306,
    "two thousand four hundred": 2400, "a hundred": 100, "a dozen": 12, "two million": 2e6, "3 million": 3e6,
    "2.5 thousand": 2500, "minus six": -6, "negative six": -6, "one point two five": 1.25, "two and a half": 2.5,
    "2 and a half": 2.5, "half": 0.5, "one third": 1 / 3, "three quarters": 0.75, "zero": 0, "0": 0, "9 (nine)": 9,
    "H2O has 9": 9, "\\text{9}": 9, "(9)": 9, "9 = 9.0": 9, "\u4e5d": 9, "\u4e5d\u8258\u8239": 9, "\u5341\u4e8c": 12,
    "\u4e09\u767e": 300, "\u4e24\u5343": 2000, "4\u4e07": 40000, "\u8d1f\u4e8c\u70b9\u4e94": -2.5,
    "\u767e\u5206\u4e4b\u4e8c\u5341": 0.2, "\u56db\u5206\u4e4b\u4e00": 0.25, "9\u4e2a": 9, "\u7b54\u6848\u662f9": 9,
    "```\n9\n```": 9, "9\n": 9, "first 9": 9,
    "\u7b54\u6848\uff1a9\u3002": 9, "Answer:9": 9, "\u4e00\u5171\u67099\u8258\u8239": 9, "\u4e00\u5171\u4e5d\u8258": 9,
    "\u7edf\u4e00\u662f9": 9, "41 500": 41500, "1 234 567.5 m": 1234567.5, "41.5k": 41500, "2k people": 2000,
    "300 K": 300,
    "4K": 4000, "1.5M": 1.5e6, "2.5bn": 2.5e9, "5 Mn": 5e6, "$5M": 5e6, "3 lakh": 3e5, "5 million": 5e6,
    "6.02e23": 6.02e23,
    "ten": 10, "ten percent": 0.1, "3 quarters": 0.75, "7 ninths": 7 / 9, "twenty-fifth": 25, "He jumps twice.": 2,
    "a dozen and a half": 18, "30^\\circ": 30, "30\u00b0C": 30, "=> 9": 9, "Answer -> 9": 9, "* 9": 9, "#9": 9,
    "No. 9": 9,
    "No, it is 9.": 9, "9 or so": 9, "9, more or less": 9, "exactly 9": 9, "9, not counting the driver": 9, "9 in.": 9,
    "9 in the picture": 9, "9-year-old": 9, "9 times": 9, "9th": 9, "1\u00bd": 1.5, "\u4e00\u534a": 0.5,
    "the number of people who hold all four is 73": 73, "The difference between 5 and 3 is 2.": 2,
    "two and a half million": 2.5e6, "half a million": 5e5, "half a dozen": 6, "4\u00be": 4.75,
    "\u00be": 0.75, "\u200b9\u200b": 9, "9\ufeff": 9, "2 125/1000": 2.125,
}  # fmt: skip
READS_NOTHING = (
    "", " ", "many", "none of it", "7 or 9", "7, 8, 9", "7-9", "7\u20139", "7 to 9", "7 and 9", "between 7 and 9",
    "nan", "NaN", "inf", "-inf", "Infinity", "\u221e", "\\infty", "1e999", "9/0", "1/2/3", "1.2.3", "2020-05",
    "12:30", "7x9", "3,5", "12,34", "2 boats and four cars", "nine ten", "five or six", "9" * 400, "5%-7%",
    "Room 4 has six chairs", "4 50", "1 23 456", "H2O", "x_2", "1 2 3", "10^{9999}", "2^99999",
    # Denied,
    "not 9", "it isn't 9", "I don't think it is 9", "anything but 9", "never 9", "other than 9", "9 is wrong",
    "9 is incorrect", "9 is not right", "9? no", "wrong: it is not 9", "without 9", "\u4e0d\u662f9",
    # bounded,
    "more than 9", "less than 9", "fewer than 9 people", "at least 9", "at most 9", "no more than 9", "up to 9",
    "over 9",
    "9 or more", "9 people or more", "9+", "9 plus", "> 9", "\u22659", "\\leq 9", "minimum of 9", "max. 9", "exceeds 9",
    "9 cm at most", "\u5927\u4e8e9", "9\u4ee5\u4e0a", "\u8d85\u8fc79", "\u5341\u51e0\u4e2a", "9\u591a",
    # or computed with.
    "9!", "\u221a9", "\\sqrt{9}", "\\sqrt 9", "9 squared", "9 factorial", "half of 9", "twice 9", "square root of 9",
    "ln 9",
    "sin 9", "e^9", "9\\pi", "9\u03c0", "9x", "9 x", "9i", "x+9", "9/x", "9 to the power", "4 over nine", "2 times x",
    "\u6839\u53f79", "9\u7684\u5e73\u65b9", "\u4ebf" * 5000,
    "it is 7 or it is 9", "either 7, or 9 is right",
)  # fmt: skip


@pytest.mark.parametrize("text", READS)
def test_number_is_read(text):
    number = read_number(text)
    assert number is not None
    assert math.isclose(number.value, READS[text], rel_tol=1e-12)


@pytest.mark.parametrize("text", READS_NOTHING)
def test_no_single_finite_number(text):
    assert read_number(text) is None


def same(answer: str, gold: str) -> bool:
    numbers = read_number(answer), read_number(gold)
    assert numbers[0] is not None
    assert numbers[1] is not None
    return same_number(numbers[0], numbers[1])


def test_whole_golds_want_the_exact_number_and_others_three_digits():
    assert not same("12.4", "12")
    assert same("12.000000001", "12")
    assert same("0.333", "1/3")
    assert same("1/3", "0.333")
    assert not same("0.33", "1/3")
    assert not same("0.002", "0.006")
    assert same("0.0", "0")
    assert not same("0.001", "0")
    assert not same("6098000001", "6098000000")  # nine digits in common are not all
    assert not same("10000000000000000000000001", "10000000000000000000000000")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5 m", "500 cm"), ("5 m", "5"), ("5", "5 cm"), ("2 hours", "120 minutes"),
        ("60 km/h", "60 kilometers per hour"),
        ("10 m/s", "36 km/h"), ("9 m^2", "9 square meters"), ("$5", "5 dollars"), ("5 ft", "60 inches"),
        ("100 mL", "0.1 L"),
        ("3 apples", "3 red apples"), ("3 apples", "There are 3 apples in the bowl."), ("30 degrees", "30 \u00b0C"),
        ("50", "50%"), ("0.5", "50%"), ("50%", "0.5"), ("50%", "50"), ("3 people", "3 persons"),
        ("6 kids", "six children"),
    ],
)  # fmt: skip
def test_a_unit_is_converted_and_a_missing_one_agrees(gold, answer):
    assert same(answer, gold)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("5 m", "5 cm"), ("5 m", "5 kg"), ("2 hours", "2 minutes"), ("3 apples", "3 pears"), ("$5", "\u20ac5"),
        ("0.5", "0.5%"),
        ("0.5%", "0.5"), ("1", "1%"), ("30 \u00b0C", "30 \u00b0F"), ("1.5", "1.5M"), ("1500", "1.5M"),
    ],
)  # fmt: skip
def test_another_unit_is_another_answer(gold, answer):
    assert not same(answer, gold)


def test_percents_are_compared_as_the_gold_counts_them():
    def values(answer: str, gold: str) -> tuple[float, float] | None:
        numbers = read_number(answer), read_number(gold)
        assert numbers[0] is not None
        assert numbers[1] is not None
        pair = comparable(numbers[0], numbers[1])
        return pair and (float(pair[0]), float(pair[1]))

    assert values("38%", "40") == (38, 40)
    assert values("38%", "0.4") == (0.38, 0.4)
    assert values("38", "40%") == (38, 40)
    assert values("0.38", "40%") == (0.38, 0.4)
    assert values("2 km", "2100 m") == (2000, 2100)
    assert values("2 km", "2100 kg") is None


@pytest.mark.parametrize(
    ("value", "gold", "accuracy"),
    [
        (20, 20, 1.0),  # no error: all ten levels
        (20.9, 20, 1.0),  # 4.5 % is under 5 %, the strictest level
        (21, 20, 0.9),  # 5 % sits on that level, where < fails
        (22.4, 20, 0.8),  # 12 %: under 15 % .. 50 %
        (18, 20, 0.8),  # 10 % sits on a level
        (29.8, 20, 0.1),  # 49 %: only the loosest level
        (30, 20, 0.0),  # 50 % sits on the loosest level
        (10, 20, 0.0),
        (-20, 20, 0.0),
        (20, -20, 0.0),
        (-20.9, -20, 1.0),
        (0, 0, 1.0),
        (0.1, 0, 0.0),
    ],
)
def test_mean_relative_accuracy_by_hand(value, gold, accuracy):
    assert mean_relative_accuracy(value, gold) == accuracy


@pytest.mark.parametrize("gold", ["", "many", "7 or 8", "nan", "1e999"])
def test_gold_without_one_number_is_a_data_error(gold):
    with pytest.raises(DataError, match="one finite number"):
        check([Sample(id="s", problem_type="regression", problem="", gold=gold)])


@pytest.mark.parametrize(("value", "shown"), [(200.0, "200"), (0.1, "0.1"), (-1.5, "-1.5"), (1e20, "1e+20")])
def test_a_number_is_shown_as_people_write_it(value, shown):
    assert str(Number(*Fraction(value).as_integer_ratio(), is_whole=False)) == shown
