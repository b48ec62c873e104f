"""Time spans and tubes in responses as benchmarks read them: the first span counts, and a reversed one is swapped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from easyvideor1.evals.benchmark import Item
from easyvideor1.rewards.boxes import boxes_value, frames_of
from easyvideor1.rewards.json_text import finite, read_json
from easyvideor1.rewards.measures import Box, Interval, box_iou, interval_iou
from easyvideor1.rewards.parse import plain

GRID = 1000.0
"""Size of the grid on which Qwen3-VL answers boxes."""
_TIME = r"\d+(?::\d{1,2}){1,2}(?:\.\d+)?|\d+(?:\.\d+)?"
_UNIT = r"(?:\s*(?:s|sec|secs|seconds?)\b)?"
_PAIR = re.compile(
    rf"(?P<start>{_TIME}){_UNIT}\s*(?:-|\u2013|~|to|and|until)\s*(?:at\s*)?(?P<end>{_TIME})(?![\d:])", re.IGNORECASE
)
_LISTED = re.compile(rf"[\[(]\s*[\"']?(?P<start>{_TIME}){_UNIT}[\"']?\s*,\s*[\"']?(?P<end>{_TIME})")
_STARTED = re.compile(
    rf"(?:start|begin|from)\w*[^\d\n]{{0,30}}(?P<start>{_TIME})[^\d]{{0,60}}?(?:end|stop|finish|until|to)\w*[^\d\n]{{0,30}}(?P<end>{_TIME})",
    re.IGNORECASE,
)


def first_span(text: str) -> Interval | None:
    """Start and end in seconds of the first span, in order; None where there is none.

    JSON lists, "s - e", "from s to e", clock times and "starts at s .. ends at e" are read.

    >>> first_span("30.4 - 24.3"), first_span('{"time": ["0:10", "1:20"]}'), first_span("no")
    ((24.3, 30.4), (10.0, 80.0), None)
    """
    text = text.rpartition("</think>")[2] if "</think>" in text else text
    found = [match for form in (_LISTED, _PAIR, _STARTED) if (match := form.search(text))]
    if not found:
        return None
    first = min(found, key=lambda match: match.start("start"))
    start, end = seconds(first["start"]), seconds(first["end"])
    return (start, end) if start <= end else (end, start)


def seconds(text: str) -> float:
    """A clock time or a number of seconds.

    >>> seconds("1:05"), seconds("01:00:02.5"), seconds("7.5")
    (65.0, 3602.5, 7.5)
    """
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + float(part)
    return total


def lmms_eval_span(text: str, *, since_1323: bool) -> Interval | None:
    """The span that lmms-eval's Charades-STA task reads.

    It takes "to" for a hyphen everywhere and splits at "!", "?" and line ends. Up to #1323 only pieces that speak of
    start, end or happen were searched; since then all are if none does. A pair with a hyphen comes first, then a
    start and an end in two pieces.
    """
    pieces = re.split(r"[!?\n]", text.lower().replace("to", "-"))
    told = [piece for piece in pieces if any(word in piece for word in ("start", "end", "happen"))]
    if not told and since_1323:
        told = pieces
    for piece in told:
        pair = re.search(rf"({_TIME})\s*-\s*({_TIME})", piece)
        if pair:
            return seconds(pair[1]), seconds(pair[2])
    starts = [piece for piece in told if "start" in piece and "end" not in piece and re.search(_TIME, piece)]
    ends = [piece for piece in told if "end" in piece and "start" not in piece and re.search(_TIME, piece)]
    if starts and ends:
        first, last = re.search(_TIME, starts[0]), re.search(_TIME, ends[0])
        assert first is not None
        assert last is not None
        return seconds(first[0]), seconds(last[0])
    return None


def tube_measures(text: str, item: Item) -> Mapping[str, float]:
    """LLaVA-ST's measures of a response: tiou, siou over common frames, viou over all frames of either side.

    Boxes on the grid of 0 to 1000 are scaled to the frame where the item's protocol says so (`box_units`).
    """
    gold, found = _tube(read_json(item.sample.gold)), _tube(read_json(plain(text.rpartition("</think>")[2])))
    span = found[0] or first_span(text)
    boxes = _scaled(found[1], item)
    tiou = interval_iou(span, gold[0]) if span and gold[0] and span[0] < span[1] else 0.0
    return {"value": tiou, "tiou": tiou} | tube_overlaps(boxes, gold[1])


def tube_overlaps(boxes: Mapping[float, Box], gold: Mapping[float, Box]) -> dict[str, float]:
    """siou: mean box overlap over common frames; viou: their sum over all frames that either side names.

    Nothing where the gold has no boxes: such a row is a question of time alone.
    """
    if not gold:
        return {}
    common = boxes.keys() & gold.keys()
    total = sum(box_iou(boxes[frame], gold[frame]) for frame in common)
    return {
        "siou": total / len(common) if common else 0.0,
        "viou": total / len(boxes.keys() | gold.keys()),
    }


def _tube(value: Any) -> tuple[Interval | None, dict[float, Box]]:
    if not isinstance(value, dict):
        return None, {}
    time = value.get("time")
    span = None
    if isinstance(time, list) and len(time) == 2:
        start, end = finite(time[0]), finite(time[1])
        if start is not None and end is not None:
            span = (min(start, end), max(start, end))
    return span, frames_of(boxes_value({key: item for key, item in value.items() if key != "time"}))


def _scaled(boxes: Mapping[float, Box], item: Item) -> Mapping[float, Box]:
    width, height = item.fields.get("width"), item.fields.get("height")
    if item.fields.get("box_units") != "grid" or not width or not height:
        return boxes
    return {
        frame: (x1 * width / GRID, y1 * height / GRID, x2 * width / GRID, y2 * height / GRID)
        for frame, (x1, y1, x2, y2) in boxes.items()
    }
