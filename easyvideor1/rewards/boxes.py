"""Reading boxes, boxes per frame and points from the JSON that models write, [x1, y1, x2, y2] in the gold's units.

Which units (pixels, 0-1000, 0-1) is a matter of the data set; nothing here guesses it from the size of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from easyvideor1.rewards.measures import Box, Point
from easyvideor1.rewards.parse import finite, plain, read_json

_BOX_KEYS = ("boxes", "bbox_2d", "bbox", "box", "bboxes", "bounding_box", "box_2d", "boxes_2d", "coordinates")
_TRACK_KEYS = ("frames", "tracking", "trajectory", "answer")
_FRAME_KEYS = ("time", "second", "frame", "t", "timestamp", "frame_id", "time_s", "sec")
_CORNER_KEYS = (("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("x_min", "y_min", "x_max", "y_max"))
_NUMBER = r"-?\d{1,12}(?:\.\d{1,12})?"
_IN_WORDS = re.compile(
    rf"[(\[]\s*({_NUMBER})\s*,\s*({_NUMBER})\s*(?:[)\]]\s*,?\s*[(\[]|,)\s*({_NUMBER})\s*,\s*({_NUMBER})\s*[)\]]"
)
_FREE_NUMBER = re.compile(rf"(?<![\w.]){_NUMBER}(?![\w.]\w)")
_MARKERS = re.compile(r"<\|?/?(?:box_start|box_end|box|object_ref_start|object_ref_end)\|?>")
MAX_FRAMES = 4096


def read_box(text: str) -> Box | None:
    """The one box in an answer; None where there is none, more than one, or not four finite numbers.

    >>> read_box('[{"bbox_2d": [1, 2, 3, 4], "label": "cat"}]'), read_box("(1,2),(3,4)"), read_box("[1, 2, 3]")
    ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0), None)
    """
    text = plain(text)
    if "<" in text:
        text = _MARKERS.sub(" ", text)
    value = read_json(text)
    box = box_of(value)
    if box is None and "{" not in text:
        found = {match.groups() for match in _IN_WORDS.finditer(text)}
        if not found:  # "20 40 120 90", "x1=20, y1=40, ..", "top left (20, 40), bottom right (120, 90)"
            numbers = _FREE_NUMBER.findall(text)
            found = {tuple(numbers)} if len(numbers) == 4 else set()
        box = box_of(list(found.pop())) if len(found) == 1 else None
    return box


def box_of(value: Any) -> Box | None:
    """The box in a JSON value: four numbers, one nested list or object of them, or corners by name."""
    if isinstance(value, dict):
        value = _lowered(value)
        for corners in _CORNER_KEYS:
            if all(key in value for key in corners):
                return box_of([value[key] for key in corners])
        found = [value[key] for key in _BOX_KEYS if key in value]
        return box_of(found[0]) if len(found) == 1 else None
    if not isinstance(value, (list, tuple)):
        return None
    if len(value) == 1 and isinstance(value[0], (list, dict)):
        return box_of(value[0])
    if len(value) == 2 and all(isinstance(corner, list) and len(corner) == 2 for corner in value):
        value = [*value[0], *value[1]]
    numbers = [finite(item) for item in value[:5]]
    if len(numbers) != 4 or any(number is None for number in numbers):
        return None
    x1, y1, x2, y2 = (number for number in numbers if number is not None)
    return (x1, y1, x2, y2)


def frames_of(value: Any, *, frames_of_list: Sequence[float] = ()) -> dict[float, Box]:
    """Frame (or second) -> box; malformed frames are left out, whatever else the value holds.

    Args:
        value: an object with frames as keys, a list of objects with a frame and a box, or a plain list of boxes.
        frames_of_list: the frames that the boxes of a plain list stand for, in order.
    """
    if isinstance(value, dict):
        entries = [(_frame(key), item) for key, item in list(value.items())[:MAX_FRAMES]]
    elif isinstance(value, list) and value and all(isinstance(item, dict) and _frame_key(item) for item in value):
        entries = [(_frame(item[str(_frame_key(item))]), item) for item in value[:MAX_FRAMES]]
    elif isinstance(value, list):
        entries = list(zip(frames_of_list, value, strict=False))
    else:
        entries = []
    boxes = {frame: box_of(item) for frame, item in entries if frame is not None}
    return {frame: box for frame, box in boxes.items() if box is not None}


def boxes_value(value: Any) -> Any:
    """What stands under the box key of an object; a list stands for itself."""
    if isinstance(value, dict):
        value = _lowered(value)
        found = [value[key] for key in (*_BOX_KEYS, *_TRACK_KEYS) if key in value]
        if len(found) == 1:
            return found[0]
        return value if value and all(_frame(key) is not None for key in value) else None
    return value if isinstance(value, list) else None


def points_of(value: Any) -> list[Point] | None:
    """[N] points from a JSON list of number pairs; not-a-number coordinates become infinitely far ones.

    None where it is no list of pairs at all.
    """
    if not isinstance(value, list) or not 1 <= len(value) <= 6:
        return None
    if not all(isinstance(item, list) and len(item) == 2 for item in value):
        return None
    points = []
    for pair in value:
        x, y = (finite(item) for item in pair)
        points.append((1e9, 1e9) if x is None or y is None else (x, y))
    return points


def _frame_key(item: dict) -> str | None:
    return next((key for key in _FRAME_KEYS if key in item), None)


def _lowered(value: dict) -> dict:
    return {str(key).lower(): item for key, item in value.items()}


def _frame(key: Any) -> float | None:
    """A frame's name as a number: "2", "2.0", "02", "2s", "00:02" and "frame 2" are the same."""
    number = finite(key)
    if number is None and isinstance(key, str):
        match = re.fullmatch(
            r"(?:frame|second|t|time)?[\s_=]*(?:(\d{1,3}):)?(\d{1,7}(?:\.\d{1,6})?)\s*(?:s|sec|seconds)?",
            key.strip().lower(),
        )
        number = 60.0 * int(match[1] or 0) + float(match[2]) if match else None
    return number
