"""Naive rewards by the published rules, in their usual form; what they get wrong is left in."""

from __future__ import annotations

import difflib
import functools
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import resvg_py
from PIL import Image

from easyvideor1.types import Sample


def _answer(text: str) -> str:
    text = re.sub(r"\s*(<|>|/)\s*", r"\1", text)
    match = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
    return match[1].strip() if match else text


def multiple_choice(text: str, sample: Sample) -> float:
    letters = set(re.findall(r"(?<![A-Za-z])[A-J](?![A-Za-z])", _answer(text)))
    return float(letters == {sample.gold})


def multiple_select(text: str, sample: Sample) -> float:
    pattern = r"(?<![A-Za-z])[A-J](?![A-Za-z])"
    return float(set(re.findall(pattern, _answer(text))) == set(re.findall(pattern, sample.gold)))


def _number(text: str) -> float | None:
    match = re.search(r"-?\d+(?:\.\d+)?", text.replace(",", ""))
    return float(match[0]) if match else None


def numerical(text: str, sample: Sample) -> float:
    number, gold = _number(_answer(text)), _number(sample.gold)
    return float(number is not None and gold is not None and round(number, 2) == round(gold, 2))


def regression(text: str, sample: Sample) -> float:
    number, gold = _number(_answer(text)), _number(sample.gold)
    if number is None or not gold:
        return 0.0
    levels = np.linspace(0.5, 0.95, 10)
    return float((abs(number - gold) / abs(gold) < 1 - levels).mean())


def boolean(text: str, sample: Sample) -> float:
    def first(answer: str) -> str:
        match = re.search(r"\b(yes|no|true|false)\b", answer.lower())
        return match[1] if match else ""

    return float(first(_answer(text)) == first(sample.gold))


def preference(text: str, sample: Sample) -> float:
    def label(answer: str) -> str:
        match = re.search(r"response\s*([12])|(tie)", answer.lower())
        return (match[1] or match[2]) if match else ""

    return float(label(_answer(text)) == label(sample.gold))


def _span_iou(span: list[float], gold: list[float]) -> float:
    overlap = max(0.0, min(span[1], gold[1]) - max(span[0], gold[0]))
    return overlap / (max(span[1], gold[1]) - min(span[0], gold[0]))


def _box_iou(box: list[float], gold: list[float]) -> float:
    overlap = max(0, min(box[2], gold[2]) - max(box[0], gold[0])) * max(0, min(box[3], gold[3]) - max(box[1], gold[1]))
    areas = [(one[2] - one[0]) * (one[3] - one[1]) for one in (box, gold)]
    return overlap / (sum(areas) - overlap)


def _frames_iou(boxes: dict[str, list[float]], gold: dict[str, list[float]]) -> float:
    return sum(_box_iou(boxes[frame], box) for frame, box in gold.items() if frame in boxes) / len(gold)


def temporal(text: str, sample: Sample) -> float:
    return _span_iou(json.loads(_answer(text))["time"], json.loads(sample.gold)["time"])


def spatial(text: str, sample: Sample) -> float:
    return _box_iou(json.loads(_answer(text))["boxes"], json.loads(sample.gold)["boxes"])


def tracking(text: str, sample: Sample) -> float:
    return _frames_iou(json.loads(_answer(text))["boxes"], json.loads(sample.gold)["boxes"])


def tube(text: str, sample: Sample) -> float:
    answer, gold = json.loads(_answer(text)), json.loads(sample.gold)
    return 0.5 * _span_iou(answer["time"], gold["time"]) + 0.5 * _frames_iou(answer["boxes"], gold["boxes"])


def segmentation(text: str, sample: Sample) -> float:
    answer, gold = json.loads(_answer(text)), json.loads(sample.gold)
    value = 0.5 * _box_iou(answer["boxes"], gold["boxes"])
    for name in ("positive_points", "negative_points"):
        points, wanted = np.array(answer[name], dtype=float), np.array(gold[name], dtype=float)
        orders = ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
        distance = min(np.linalg.norm(points[order] - wanted, axis=1).mean() for order in orders)
        value += 0.25 * float(np.exp(-(distance**2) / (2 * 50**2)))
    return value


def _table(first: list[str], second: list[str], *, is_common: bool) -> int:
    """The longest common run of words, or the number of edits, by the usual table."""
    row = [0] * (len(second) + 1) if is_common else list(range(len(second) + 1))
    for number, one in enumerate(first, start=1):
        previous, row = row, [0 if is_common else number]
        for place, other in enumerate(second):
            if is_common:
                row.append(previous[place] + 1 if one == other else max(previous[place + 1], row[-1]))
            else:
                row.append(min(previous[place] + (one != other), previous[place + 1] + 1, row[-1] + 1))
    return row[-1]


def open_ended(text: str, sample: Sample) -> float:
    words, gold = (re.findall(r"\w+", one.lower()) for one in (_answer(text), sample.gold))

    def f1(shared: int, first: int, second: int) -> float:
        return 2 * shared / (first + second) if shared else 0.0

    scores = [f1(_table(words, gold, is_common=True), len(words), len(gold))]
    for size in (1, 2):
        grams = [Counter(tuple(one[i : i + size]) for i in range(len(one) - size + 1)) for one in (words, gold)]
        shared = sum((grams[0] & grams[1]).values())
        scores.append(f1(shared, sum(grams[0].values()), sum(grams[1].values())))
    return sum(scores) / 3


def ocr(text: str, sample: Sample) -> float:
    words, gold = _answer(text).lower().split(), sample.gold.lower().split()
    return max(0.0, 1 - _table(words, gold, is_common=False) / len(gold))


def math_verify(answer: str, gold: str) -> bool:
    """Math-Verify alone."""
    from math_verify import parse, verify

    return bool(verify(parse(f"${gold}$"), parse(f"${answer}$")))


def math(text: str, sample: Sample) -> float:
    answer = _answer(text)
    return float(answer == sample.gold or math_verify(answer.split("=")[-1], sample.gold))


@functools.cache
def _fonts() -> dict[str, Any]:
    from easyvideor1.rewards.picture import _fonts

    return _fonts()


def svg(text: str, sample: Sample) -> float:
    pictures = []
    for source in (_answer(text), sample.gold):
        source = source.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        png = resvg_py.svg_to_bytes(svg_string=source, width=192, height=192, background="#ffffff", **_fonts())
        pictures.append(np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.float32) / 255)
    return 1.0 - float(np.abs(pictures[0] - pictures[1]).mean())


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append("/" + tag)

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def html(text: str, sample: Sample) -> float:
    pages = [_Page(), _Page()]
    for page, source in zip(pages, (_answer(text), sample.gold), strict=True):
        page.feed(source)
    tree = difflib.SequenceMatcher(None, pages[0].tags, pages[1].tags).ratio()
    return 0.5 * tree + 0.5 * difflib.SequenceMatcher(None, pages[0].words, pages[1].words).ratio()


def python(text: str, sample: Sample) -> float:
    import ast

    return float(ast.dump(ast.parse(_answer(text))) == ast.dump(ast.parse(sample.gold)))


RULES: dict[str, Callable[[str, Sample], float]] = {
    "multiple_choice": multiple_choice,
    "multiple_select": multiple_select,
    "numerical": numerical,
    "regression": regression,
    "boolean": boolean,
    "preference": preference,
    "temporal_grounding": temporal,
    "spatial_grounding": spatial,
    "tracking": tracking,
    "spatial_temporal_grounding": tube,
    "segmentation": segmentation,
    "open_ended": open_ended,
    "ocr": ocr,
    "math": math,
    "svg_code": svg,
    "html_code": html,
    "python_code": python,
}
