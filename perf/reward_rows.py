"""Rows for `perf.rewards`: no two are alike, in question, answer or thought."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from easyvideor1.types import Sample

Row = tuple[Sample, str]
WORDS = (  # noqa: SIM905
    "the man walks to a red boat and then turns left near the tower while two women wait at the gate of an old house"
).split()


def row(rng: random.Random, problem_type: str, gold: str, answer: str, *, options: tuple[str, ...] = ()) -> Row:
    """A response with a thought of 120 words."""
    thought = " ".join(rng.choices(WORDS, k=120))
    sample = Sample(id=f"{rng.random()}", problem_type=problem_type, problem="?", gold=gold, options=options)
    return sample, f"<think>{thought}</think>\n<answer>{answer}</answer>"


def _multiple_choice(rng: random.Random, number: int) -> Row:
    options = tuple(f"{letter}. {' '.join(rng.choices(WORDS, k=4))} {rng.randrange(10**6)}" for letter in "ABCD")
    letter = rng.choice("ABCD")
    text = options["ABCD".index(letter)][3:]
    forms = (letter, letter, letter, f"{letter}.", f"({letter})", f"{letter}. {text}", f"The answer is {letter}.")
    return row(rng, "multiple choice", rng.choice("ABCD"), rng.choice(forms), options=options)


def _multiple_select(rng: random.Random, number: int) -> Row:
    options = tuple(f"{letter}. {' '.join(rng.choices(WORDS, k=4))} {rng.randrange(10**6)}" for letter in "ABCDE")
    letters = [sorted(rng.sample("ABCDE", 2)) for _ in range(2)]
    return row(rng, "multiple select", ",".join(letters[0]), ", ".join(letters[number % 2]), options=options)


def _written(rng: random.Random, value: int) -> str:
    """A number as models write it."""
    forms = (
        f"{value}",
        f"{value}",
        f"{value:,}",
        f"{value} cars",
        f"{value}.0",
        f"**{value}**",
        f"There are {value} of them.",
    )
    return rng.choice(forms)


def _numerical(rng: random.Random, number: int) -> Row:
    kind = rng.randrange(4)
    if kind == 0:
        value = round(rng.uniform(0, 1000), 2)
        return row(rng, "numerical", f"{value}", f"{value if number % 2 else value + 1:.2f}")
    if kind == 1:
        top, bottom = rng.randrange(1, 10**4), rng.choice((2, 4, 5, 8))
        return row(rng, "numerical", f"{top / bottom}", f"{top}/{bottom}")
    value = rng.randrange(10**6)
    return row(rng, "numerical", f"{value}", _written(rng, value if number % 2 else value + 1))


def _regression(rng: random.Random, number: int) -> Row:
    value = round(rng.uniform(1, 500), 1)
    return row(rng, "regression", f"{value}", f"{value * rng.uniform(0.5, 1.5):.2f}{rng.choice(('', ' m', ' meters'))}")


def _boolean(rng: random.Random, number: int) -> Row:
    thing = f"{rng.choice(WORDS)} {rng.randrange(10**6)}"
    answers = ("Yes", "No", "yes.", f"No, the {thing} is not there.", f"Yes, the {thing} is there.")
    return row(rng, "boolean", rng.choice(("Yes", "No")), rng.choice(answers))


def _preference(rng: random.Random, number: int) -> Row:
    answers = ("Response 1", "Response 2", "Tie", f"Response 2 shows the {rng.choice(WORDS)} {rng.randrange(10**6)}.")
    return row(rng, "preference", rng.choice(("Response 1", "Response 2")), rng.choice(answers))


def _span(rng: random.Random) -> list[float]:
    start = round(rng.uniform(0, 60), 2)
    return [start, round(start + rng.uniform(1, 20), 2)]


def _box(rng: random.Random) -> list[int]:
    x, y = rng.randrange(500), rng.randrange(500)
    return [x, y, x + rng.randrange(50, 500), y + rng.randrange(50, 500)]


def _temporal(rng: random.Random, number: int) -> Row:
    return row(rng, "temporal grounding", json.dumps({"time": _span(rng)}), json.dumps({"time": _span(rng)}))


def _spatial(rng: random.Random, number: int) -> Row:
    return row(rng, "spatial grounding", json.dumps({"boxes": _box(rng)}), json.dumps({"boxes": _box(rng)}))


def _boxes(rng: random.Random, count: int) -> dict[str, list[int]]:
    return {str(second): _box(rng) for second in range(1, count + 1)}


def _tracking(rng: random.Random, number: int) -> Row:
    return row(rng, "tracking", *(json.dumps({"boxes": _boxes(rng, 16)}) for _ in range(2)))


def _tube(rng: random.Random, number: int) -> Row:
    tubes = (json.dumps({"time": _span(rng), "boxes": _boxes(rng, 8)}) for _ in range(2))
    return row(rng, "spatial-temporal grounding", *tubes)


def _segmentation(rng: random.Random, number: int) -> Row:
    def mask() -> str:
        points = [[[rng.randrange(1000), rng.randrange(1000)] for _ in range(3)] for _ in range(2)]
        return json.dumps({"boxes": _box(rng), "positive_points": points[0], "negative_points": points[1]})

    return row(rng, "segmentation", mask(), mask())


def _open_ended(rng: random.Random, number: int) -> Row:
    texts = [" ".join(rng.choices(WORDS, k=20)) for _ in range(2)]
    return row(rng, "open-ended", *texts)


def _ocr(rng: random.Random, number: int) -> Row:
    words = [*rng.choices(WORDS, k=10), str(rng.randrange(10**6))]
    answer = list(words)
    answer[rng.randrange(10)] = rng.choice(WORDS)
    return row(rng, "ocr", " ".join(words), " ".join(answer))


def _math(rng: random.Random, number: int) -> Row:
    """A gold and an answer that is right in every other row, over the kinds of answers of mathematical data sets."""
    a, b, c = rng.randrange(2, 400), rng.randrange(2, 60), rng.randrange(2, 60)
    e = 0 if number % 2 else rng.randrange(1, 5)
    kinds: tuple[Callable[[], tuple[str, str]], ...] = (
        lambda: (f"{a}", f"{a + e}"),
        lambda: (f"\\frac{{{a}}}{{{b}}}", f"{a + e}/{b}"),
        lambda: (f"{a}\\sqrt{{{b}}}", f"\\sqrt{{{a * a * b + e}}}"),
        lambda: (f"\\frac{{\\sqrt{{{b}}}}}{{{a}}}", f"\\frac{{{b + e}}}{{{a}\\sqrt{{{b}}}}}"),
        lambda: (f"x^2+{a + b}x+{a * b}", f"(x+{a})(x+{b + e})"),
        lambda: (f"{a}x^2-{b}x+{c}", f"{c}-{b}x+{a + e}x^2"),
        lambda: (f"({a}, {b})", f"({a}, {b + e})"),
        lambda: (f"[{a}, {a + b})", f"[{a}, {a + b + e})"),
        lambda: (f"\\{{{a}, {a + b}\\}}", f"\\{{{a + b + e}, {a}\\}}"),
        lambda: (f"{a}\\pi", f"{a + e}\\pi"),
        lambda: (f"y={a}x+{b}", f"y={b + e}+{a}x"),
        lambda: (f"x<{a}", f"x<{a + e}"),
        lambda: (f"{a}.{b}", f"{a + e}.{b}"),
        lambda: (f"x={a}", f"{a + e}"),
        lambda: (f"{a}^\\circ", f"{a + e}"),
        lambda: (f"{a}\\text{{ cm}}", f"{a + e} cm"),
        lambda: (f"\\frac{{{a}\\pi}}{{{b}}}", f"{a + e}\\pi/{b}"),
        lambda: (f"{a}+{b}i", f"{b + e}i+{a}"),
        lambda: (f"\\log_{{{b}}} {a}", f"\\frac{{\\ln {a + e}}}{{\\ln {b}}}"),
        lambda: (f"{a}\\sin({b}x)", f"{a}\\sin({b + e}x)"),
        lambda: (f"{a}^{{{b}}}", f"{a}^{{{b + e}}}"),
        lambda: (f"{a}{b}00", f"{int(f'{a}{b}00') + e:,}"),
    )
    gold, answer = rng.choice(kinds)()
    return row(rng, "math", gold, answer)


def _picture(rng: random.Random) -> str:
    shapes = "".join(
        f'<rect x="{rng.randrange(90)}" y="{rng.randrange(90)}" width="{rng.randrange(5, 60)}" '
        f'height="{rng.randrange(5, 60)}" fill="#{rng.randrange(16**6):06x}"/>'
        f'<circle cx="{rng.randrange(99)}" cy="{rng.randrange(99)}" r="{rng.randrange(3, 30)}" stroke="black"/>'
        for _ in range(5)
    )
    return f'<svg viewBox="0 0 100 100">{shapes}</svg>'


def _svg(rng: random.Random, number: int) -> Row:
    return row(rng, "svg code", _picture(random.Random(number // 8)), _picture(rng))


def _html(rng: random.Random, number: int) -> Row:
    def page() -> str:
        items = "".join(f"<li>{' '.join(rng.choices(WORDS, k=5))}</li>" for _ in range(rng.randrange(4, 12)))
        return f"<html><head><title>{rng.random()}</title></head><body><h1>List</h1><ul>{items}</ul></body></html>"

    return row(rng, "html code", page(), page())


def _python(rng: random.Random, number: int) -> Row:
    def program() -> str:
        lines = "".join(f"    y = y * {rng.randrange(9)} + x\n" for _ in range(rng.randrange(2, 8)))
        return f"def f(x):\n    y = {rng.randrange(10**6)}\n{lines}    return y"

    return row(rng, "python code", program(), program())


MAKERS: dict[str, Callable[[random.Random, int], Row]] = {
    "multiple_choice": _multiple_choice,
    "multiple_select": _multiple_select,
    "numerical": _numerical,
    "regression": _regression,
    "boolean": _boolean,
    "preference": _preference,
    "temporal_grounding": _temporal,
    "spatial_grounding": _spatial,
    "tracking": _tracking,
    "spatial_temporal_grounding": _tube,
    "segmentation": _segmentation,
    "open_ended": _open_ended,
    "ocr": _ocr,
    "math": _math,
    "svg_code": _svg,
    "html_code": _html,
    "python_code": _python,
}


def open_math(rng: random.Random) -> Row:
    """A gold that only computer algebra compares."""
    a, b = rng.randrange(2, 400), rng.randrange(2, 400)
    return row(rng, "math", f"\\sum_{{n=1}}^{{5}} ({a}n+{b})", f"\\sum_{{k=1}}^{{5}} ({b}+{a}k)")


def honest_answers(rng: random.Random, count: int) -> list[Row]:
    """Right answers to the heavy types."""
    rows = []
    for number in range(count):
        if number % 4 == 0:
            picture = _picture(rng)
            rows.append(row(rng, "svg code", picture, picture))
        elif number % 4 == 1:
            rows.append(open_math(rng))
        else:
            a, b = rng.randrange(2, 400), rng.randrange(2, 400)
            rows.append(row(rng, "math", f"(x+{a})(x+{b})", f"x^2+{a + b}x+{a * b}"))
    return rows


HOSTILE = (
    ("math", "x+{n}", "(a+b+c+d+f+g)^{{50}}+{n}"),
    ("math", "x+{n}", "\\sin({n})^{{9999}}"),
    ("math", "{n}", "9^{{9^{{9^{{9}}}}}}+{n}"),
    ("math", "{n}", "({n}^9)!"),
    ("math", "\\sum_{{n=1}}^{{5}} {n}n", "\\sum_{{n=1}}^{{10^8}} {n}n^2"),
    ("math", "\\int_0^{{{n}}} x dx", "\\int_0^{{{n}}} e^{{\\sin(x^2)}}\\cos(x^3) dx"),
    (
        "math",
        "\\lim_{{x\\to 0}} \\frac{{\\sin {n}x}}{{x}}",
        "\\lim_{{x\\to 0}} \\frac{{\\tan(\\sin x^{{{n}}})^{{40}}}}{{x^{{{n}}}}}",
    ),
    ("math", "\\prod_{{n=1}}^{{9}} {n}n", "\\prod_{{n=1}}^{{4000}} (x+{n}n)"),
)


def hostile_answers(rng: random.Random, count: int) -> list[Row]:
    """Answers that are made to take long: in algebra, and drawings as heavy as the limits allow."""
    rows = []
    for number in range(count):
        n = rng.randrange(11, 99)
        if number % 3 == 0:
            uses = '<use href="#a"/>' * 2300
            drawing = f'<svg viewBox="0 0 9 9"><rect id="a" width="9" height="{n}" rx="3" stroke="red"/>{uses}</svg>'
            rows.append(row(rng, "svg code", _picture(rng), drawing))
        else:
            problem_type, gold, answer = HOSTILE[number % len(HOSTILE)]
            rows.append(row(rng, problem_type, gold.format(n=n), answer.format(n=n)))
    return rows
