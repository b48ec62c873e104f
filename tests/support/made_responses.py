"""Responses as a broken policy writes them, over all types, from a seed: floods, nesting, absurd numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from easyvideor1.problem_types import CANONICAL
from easyvideor1.types import Sample

BOX = [10, 20, 110, 220]
POINTS = [[20, 30], [60, 120], [100, 200]]
GOLDS = {
    "multiple choice": ("B", "A", "C. a boat"),
    "multiple select": ("A, C", "B"),
    "numerical": ("17", "2.5", "1,200"),
    "regression": ("2.75", "40"),
    "temporal grounding": (json.dumps({"time": [3.5, 9]}), "10 to 20"),
    "spatial grounding": (json.dumps({"boxes": BOX}),),
    "tracking": (json.dumps({"boxes": {str(second): BOX for second in range(1, 9)}}),),
    "spatial-temporal grounding": (json.dumps({"time": [3, 5], "boxes": {"3": BOX, "4": BOX, "5": BOX}}),),
    "segmentation": (json.dumps({"time": 2, "boxes": BOX, "positive_points": POINTS, "negative_points": POINTS}),),
    "open-ended": ("A man waters the garden.", "\u4e00\u4e2a\u4eba\u5728\u6d47\u82b1"),
    "math": ("\\frac{3}{4}", "x^2+1", "(1,2]", "\\sqrt{2}"),
    "ocr": ("EXIT / GATE 9", "\u51fa\u53e3"),
    "boolean": ("No", "Yes"),
    "svg code": ('<svg viewBox="0 0 20 10"><circle cx="5" cy="5" r="4" fill="teal"/><text y="9">hi</text></svg>',),
    "html code": ("<html><body><p>Hello</p><ul><li>one</li></ul></body></html>",),
    "python code": ("def f(x):\n    return 2 * x",),
    "preference": ("Response 2", "Tie"),
}
BRACKETS = (
    ("[", "]"), ("{", "}"), ("(", ")"), ('{"boxes":', "}"), ('{"time":[', "]}"), ("<g>", "</g>"), ("<div>", "</div>"),
    ("\\frac{1}{", "}"), ("2^{", "}"), ("\\sqrt{", "}"), ("-", ""), ("f(", ")"), ("\\text{", "}"),
)  # fmt: skip
FORMS = (
    '{"time": [%s, %s]}', '{"boxes": [%s, %s, 9, 9]}', '{"boxes": {"1": [%s, 0, %s, 5]}}', "%s to %s", "%s", "%s%s",
    '{"time": [1, %s], "boxes": {"%s": [0, 0, 5, 5]}}', "\\frac{%s}{%s}", "%s^{%s}", "%s = %s", "\\sqrt[%s]{%s}",
    "(%s,%s)", '<svg viewBox="0 0 %s 9"><rect width="%s" height="5"/></svg>',
    '<svg viewBox="0 0 9 9"><path d="M%s 0A5 %s 0 1 1 5 5z"/></svg>',
    '<svg viewBox="0 0 9 9"><g transform="scale(%s)rotate(%s)"><circle r="4" stroke-width="5" stroke="red"/></g></svg>',
)  # fmt: skip
NUMBERS = (
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "9" * 60, "9" * 5000, "-0", "0x1F", "1_000", "1/0",
    "\u221e", "\uff19\uff19", "true", "null", "1e308", "00:99", "-1:-2", "3.4.5", "\u4e00\u4e07\u4ebf",
)  # fmt: skip
PIECES = (
    "<answer>", "</answer>", "<think>", "</think>", "{", "}", "[", "]", "(", ")", '"', "'", "\\", "$", "^", "!", ",",
    ":", ";", "\\frac{", "\\boxed{", "\\sqrt{", "\\text{", "**", "```", "<svg>", "<g>", "</g>", "<use href='#a'/>",
    "<!--", "<![CDATA[", "<!DOCTYPE x [", "&x;", "<div", "<p>", "</p>", "=", "+-", "A", "B.", "(C)", "answer is ",
    "option ", "or ", "yes ", "no ", "1 ", "2/3 ", "00:01 ", "to ", "one hundred ", "and a half ", "\u4e00",
    "\u767e", "\u662f", "\u4e0d", "\u0000", "\u200b", "\u202e", "\ufeff", "\ufdfa", "\U0001f600", "\u0301", "\r",
    "\n", "\t", " ", "\ud800", "e", "-", ".", "%", "\u3002",
)  # fmt: skip
SCRIPTS = (
    "\u4e00\u4e8c\u4e09\u732b\u72d7",
    "\u0627\u0644\u0642\u0637",
    "\u0915\u093f\u0924\u093e\u092c",
    "\u0e41\u0e21\u0e27",
    "\u043a\u043e\u0442",
    "caf\u00e9",
    "\u306d\u3053",
    "\uac00\ub098",
)


def made_responses(count: int, *, seed: int) -> Iterator[tuple[Sample, str]]:
    """`count` samples with a response each; the same for the same seed."""
    rng = random.Random(seed)
    makers = (_flood, _soup, _mutated, _nested, _numbers, _mixed_scripts, _many_blocks, _repeated_gold, _long)
    for index in range(count):
        problem_type = CANONICAL[index % len(CANONICAL)]
        gold = rng.choice(GOLDS[problem_type])
        options = ("a cat", "a dog", "a boat") if problem_type.startswith("multiple") else ()
        sample = Sample(id=f"{seed}-{index}", problem_type=problem_type, problem="?", gold=gold, options=options)
        maker: Callable[[random.Random, str], str] = rng.choice(makers)
        text = maker(rng, gold)
        if rng.random() < 0.8:
            text = f"{rng.choice(('', '<think>so</think>', 'so</think>', '<think>'))}<answer>{text}</answer>"
        yield sample, text


def _flood(rng: random.Random, _gold: str) -> str:
    return rng.choice(PIECES) * rng.randrange(1, 16_000)


def _soup(rng: random.Random, _gold: str) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 400)))


def _mutated(rng: random.Random, gold: str) -> str:
    chars = list(gold)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(chars) + 1)
        action = rng.random()
        if action < 0.4:
            chars[place : place + rng.randrange(1, 5)] = []
        elif action < 0.8:
            chars.insert(place, rng.choice(PIECES))
        else:
            chars[place : place + 1] = [rng.choice(NUMBERS)]
    return "".join(chars)


def _nested(rng: random.Random, gold: str) -> str:
    opening, closing = rng.choice(BRACKETS)
    depth = rng.choice((2, 5, 30, 300, 3000))
    return opening * depth + rng.choice((gold, "1", "")) + closing * rng.choice((depth, depth - 1, 0))


def _numbers(rng: random.Random, gold: str) -> str:
    numbers = [rng.choice(NUMBERS) for _ in range(6)]
    form = rng.choice(FORMS)
    return form % tuple(numbers[: form.count("%s")])


def _mixed_scripts(rng: random.Random, gold: str) -> str:
    words = [*SCRIPTS, *gold.split(), "the", "12", "3.5"]
    return rng.choice((" ", "", ", ")).join(rng.choice(words) for _ in range(rng.randrange(1, 200)))


def _many_blocks(rng: random.Random, gold: str) -> str:
    blocks = [f"<answer>{rng.choice((gold, 'A', '7', ''))}</answer>" for _ in range(rng.randrange(2, 300))]
    return "</answer>" + "".join(blocks) + rng.choice(("", "<answer>", gold))


def _repeated_gold(rng: random.Random, gold: str) -> str:
    return rng.choice((" ", "\n", " or ", ", ", "")).join([gold] * rng.randrange(2, 300))


def _long(rng: random.Random, gold: str) -> str:
    return gold + rng.choice((" ", "x", "1", "\u4e00", "a ", "\n")) * rng.randrange(20_000, 400_000)
