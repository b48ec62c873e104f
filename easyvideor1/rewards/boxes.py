"""Reading boxes, boxes per frame and points from the JSON that models write, [x1, y1, x2, y2] in the gold's units.

Which units (pixels, 0-1000, 0-1) is a matter of the data set; nothing here guesses it from the size of numbers.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from easyvideor1.rewards.json_text import finite, json_values
from easyvideor1.rewards.measures import Box, Point
from easyvideor1.rewards.parse import plain

_BOX_KEYS = frozenset(
    [
        "box",
        "boxes",
        "box2d",
        "boxes2d",
        "bbox",
        "bboxes",
        "bbox2d",
        "bboxes2d",
        "boundingbox",
        "boundingboxes",
        "boxcoordinates",
        "position",
        "positions",
        "coordinates",
        "coordinate",
        "coords",
        "coord",
        "rect",
        "rectangle",
        "region",
        "location",
        "xyxy",
        "bboxxyxy",
        "boxxyxy",
    ]
)
"""Keys without `_`, `-` and case."""
_ASKED_FOR = frozenset({"time", "boxes"})
"""The keys of the form that prompts ask for."""
_WRAPPERS = frozenset(
    [
        "answer",
        "answers",
        "result",
        "results",
        "output",
        "outputs",
        "object",
        "objects",
        "detection",
        "detections",
        "prediction",
        "predictions",
        "target",
        "targets",
        "instances",
        "items",
        "frames",
        "tracking",
        "tracks",
        "track",
        "trajectory",
        "tubes",
        "tube",
    ]
)
"""Keys whose value holds the box keys, one level or more further in."""
_FRAME_KEYS = (
    "time", "second", "seconds", "frame", "t", "timestamp", "frameid", "frameindex", "frameidx", "framenumber",
    "framenum", "times", "sec", "s", "index",
)  # fmt: skip
_CORNERS = (
    ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom"),
    ("x0", "y0", "x1", "y1"), ("minx", "miny", "maxx", "maxy"), ("xleft", "ytop", "xright", "ybottom"),
)  # fmt: skip
_CORNER_PAIRS = (("topleft", "bottomright"), ("upperleft", "lowerright"), ("lefttop", "rightbottom"))
_SIZED = (("x", "y", "width", "height"), ("x", "y", "w", "h"), ("left", "top", "width", "height"))
_CENTRED = (
    ("cx", "cy", "w", "h"),
    ("centerx", "centery", "width", "height"),
    ("xcenter", "ycenter", "width", "height"),
)
_NUMBER = r"-?\d{1,12}(?:\.\d{1,12})?"
_IN_WORDS = re.compile(
    rf"[(\[]\s*({_NUMBER})\s*,\s*({_NUMBER})\s*(?:[)\]]\s*,?\s*[(\[]|,)\s*({_NUMBER})\s*,\s*({_NUMBER})\s*[)\]]"
)
_FREE_NUMBER = re.compile(rf"(?<![\w.]){_NUMBER}(?![\w.]\w)")
_MARKERS = re.compile(r"<\|?/?(?:box_start|box_end|box|object_ref_start|object_ref_end)\|?>")
MAX_FRAMES = 4096
MAX_NESTING = 4
MAX_KEY_CHARS = 40


def read_box(text: str) -> Box | None:
    """The one box in an answer; None where there is none, more than one, or not four finite numbers.

    >>> read_box('[{"bbox_2d": [1, 2, 3, 4], "label": "cat"}]'), read_box("(1,2),(3,4)"), read_box("[1, 2, 3]")
    ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0), None)
    """
    text = plain(text)
    if "<" in text:
        text = _MARKERS.sub(" ", text)
    values = json_values(text)
    found = {box for box in map(box_of, values) if box is not None}
    if not found and "{" not in text:
        in_words = {match.groups() for match in _IN_WORDS.finditer(text)}
        if not in_words:  # "20 40 120 90", "x1=20, y1=40, ..", "top left (20, 40), bottom right (120, 90)"
            numbers = _FREE_NUMBER.findall(text)
            in_words = {tuple(numbers)} if len(numbers) == 4 else set()
        found = {box for box in (box_of(list(numbers)) for numbers in in_words) if box is not None}
    return found.pop() if len(found) == 1 else None


def box_of(value: Any, *, depth: int = 0) -> Box | None:
    """The box in a JSON value: four numbers, one nested list or object of them, or corners by name.

    What else an object holds beside its box (a label, a score) does not matter.
    """
    if type(value) is list and len(value) == 4:
        left, top, right, bottom = value
        if type(left) is type(top) is type(right) is type(bottom) is int:  # nearly all boxes
            try:
                return (float(left), float(top), float(right), float(bottom))
            except OverflowError:
                return None
    if isinstance(value, dict):
        return _box_of_object({_key(key): item for key, item in value.items()}, depth)
    if not isinstance(value, (list, tuple)):
        return None
    if len(value) == 1 and isinstance(value[0], (list, dict)) and depth < MAX_NESTING:
        return box_of(value[0], depth=depth + 1)
    if len(value) == 2 and all(isinstance(corner, list) and len(corner) == 2 for corner in value):
        value = [*value[0], *value[1]]
    numbers = [finite(item) for item in value[:5]]
    if len(numbers) != 4 or any(number is None for number in numbers):
        return None
    x1, y1, x2, y2 = (number for number in numbers if number is not None)
    return (x1, y1, x2, y2)


def _box_of_object(value: Mapping[str, Any], depth: int) -> Box | None:
    if len(value) > 1:
        for corners in (*_CORNERS, *_CORNER_PAIRS):
            if all(key in value for key in corners):
                return box_of([value[key] for key in corners], depth=depth)
        for keys in (*_SIZED, *_CENTRED):
            if all(key in value for key in keys):
                box = box_of([value[key] for key in keys], depth=depth)
                return None if box is None else _from_size(box, is_centred=keys in _CENTRED)
    found = [item for key, item in value.items() if key in _BOX_KEYS]
    if not found:
        found = [item for key, item in value.items() if key in _WRAPPERS]
    return box_of(found[0], depth=depth + 1) if len(found) == 1 and depth < MAX_NESTING else None


def _from_size(box: Box, *, is_centred: bool) -> Box:
    x, y, width, height = box
    if is_centred:
        x, y = x - width / 2, y - height / 2
    return (x, y, x + width, y + height)


def frames_of(value: Any, *, frames_of_list: Sequence[float] = ()) -> dict[float, Box]:
    """Frame (or second) -> box; malformed frames are left out, whatever else the value holds.

    Args:
        value: an object with frames as keys, a list of objects with a frame and a box, or a plain list of boxes.
        frames_of_list: the frames that the boxes of a plain list stand for, in order.
    """
    if isinstance(value, dict):
        if len(value) <= MAX_FRAMES and max(map(len, value), default=0) <= MAX_KEY_CHARS:
            frames, sound = list(map(_named_frame, value)), list(map(box_of, value.values()))
            if None not in frames and None not in sound and len(set(frames)) == len(frames):
                return cast(dict[float, Box], dict(zip(frames, sound, strict=True)))  # nearly all answers
        entries = zip(map(_frame, value), value.values(), strict=True)
    elif isinstance(value, list) and value and all(isinstance(item, dict) and _frame_key(item) for item in value):
        entries = ((_frame(item[str(_frame_key(item))]), item) for item in value)
    elif isinstance(value, list) and value and all(isinstance(item, dict) and _is_keyed(item) for item in value):
        entries = ((_frame(key), box) for item in value for key, box in item.items())
    elif isinstance(value, list):
        entries = zip(frames_of_list, value, strict=False)
    else:
        entries = ()
    boxes: dict[float, Box] = {}
    contested: set[float] = set()
    for frame, item in itertools.islice(entries, MAX_FRAMES):
        if frame is None or (box := box_of(item)) is None:
            continue
        known = boxes.setdefault(frame, box)
        if known is not box and known != box:  # two boxes for a frame are none
            contested.add(frame)
    return {frame: box for frame, box in boxes.items() if frame not in contested} if contested else boxes


def boxes_value(value: Any, *, depth: int = 0) -> Any:
    """The value under the box key of an object; a list stands for itself."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else None
    if "boxes" in value and _ASKED_FOR.issuperset(value) and isinstance(value.get("time", []), list):
        return value["boxes"]
    if value and _is_keyed(value):
        return value
    if _frame_key(value):  # one frame, as an object of its own
        return [value]
    keys = {_key(key): item for key, item in value.items()}
    found = [item for key, item in keys.items() if key in _BOX_KEYS]
    if len(found) == 1:
        return found[0]
    found = [item for key, item in keys.items() if key in _WRAPPERS]
    return boxes_value(found[0], depth=depth + 1) if len(found) == 1 and depth < MAX_NESTING else None


_FRAME_LINE = re.compile(
    rf"(?<![\w.])(?:(?:frame|second|time|sec|t)s?\s*[#=:]?\s*)?(\d{{1,7}}(?:\.\d{{1,6}})?)\s*(?:s|secs?|seconds?)?\s*"
    rf"(?:[:=-]|->)\s*[(\[]\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*({_NUMBER})\s*[)\]]",
    re.IGNORECASE,
)


def boxes_in_words(text: str) -> Any:
    """The boxes of "Frame 1: [0, 0, 5, 5]" lines, for `frames_of`; None where there are none."""
    lines = [{match[1]: list(match.groups()[1:])} for match in _FRAME_LINE.finditer(text)]
    return lines or None


def boxes_along(values: Sequence[Any]) -> Any:
    """The boxes along a video in the JSON values of an answer, for `frames_of`; one object per line is a list."""
    if len(values) == 1:
        return boxes_value(values[0])
    lines = [line for line in values if isinstance(line, dict) and (_frame_key(line) or _is_keyed(line))]
    if lines:
        return lines
    found = [boxes for boxes in map(boxes_value, values) if boxes is not None]
    return found[0] if len(found) == 1 else None


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


@functools.lru_cache(maxsize=1024)
def _folded(key: str) -> str:
    return re.sub(r"[\s_.-]", "", key).lower()


def _key(key: Any) -> str:
    return _folded(str(key)[:MAX_KEY_CHARS])


def _frame_key(item: Mapping[str, Any]) -> str | None:
    return next((key for key in item if _key(key) in _FRAME_KEYS and _frame(item[key]) is not None), None)


def _is_keyed(item: Mapping[str, Any]) -> bool:
    """True for an object whose keys are frames."""
    return all(_frame(key) is not None for key in item)


_FRAME_NAME = re.compile(
    r"(?:frame|second|t|time|sec|image)?[\s_=:-]*(?:(\d{1,3}):)?(\d{1,7}(?:\.\d{1,6})?)\s*(?:s|sec|seconds?)?"
)


def _frame(key: Any) -> float | None:
    """A frame's name as a number: "2", "2.0", "02", "2s", "00:02" and "frame 2" are the same."""
    return _named_frame(key) if type(key) is str and len(key) <= MAX_KEY_CHARS else finite(key)


@functools.lru_cache(maxsize=4096)
def _named_frame(key: str) -> float | None:
    number = finite(key)
    if number is None:
        match = _FRAME_NAME.fullmatch(key.strip().lower())
        number = 60.0 * int(match[1] or 0) + float(match[2]) if match else None
    return number
