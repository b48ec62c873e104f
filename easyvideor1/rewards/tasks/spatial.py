"""Boxes: in one picture, along a video (tracking), along a video with a time span, and with points (segmentation)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from easyvideor1.rewards.boxes import box_of, boxes_along, boxes_in_words, boxes_value, frames_of, points_of, read_box
from easyvideor1.rewards.json_text import finite, json_values, read_json
from easyvideor1.rewards.measures import Box, Interval, Point, box_iou, interval_iou, mean_frame_iou, point_similarity
from easyvideor1.rewards.numbers.times import span_of
from easyvideor1.rewards.parse import MAX_LONG_CHARS, plain
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.rewards.tasks.temporal import clip_to_duration
from easyvideor1.types import Sample


def _area(box: Box) -> float:
    left, top, right, bottom = box
    return (right - left) * (bottom - top) if left < right and top < bottom else 0.0


def _gold_box(sample: Sample) -> Box:
    box = read_box(sample.gold)
    if box is None or _area(box) == 0:
        raise bad_gold(sample, 'a box is {"boxes": [x1, y1, x2, y2]} with x1 < x2 and y1 < y2')
    return box


GROUNDING = Task(
    read_gold=_gold_box,
    read_answer=lambda sample, text: read_box(text),
    accuracy=box_iou,
)


class _Listed(NamedTuple):
    """Boxes of an answer: by frame, or a plain list still without frames."""

    by_frame: Mapping[float, Box]
    in_order: Sequence[Any] = ()

    def at(self, frames: Sequence[float]) -> Mapping[float, Box]:
        return self.by_frame or frames_of(list(self.in_order), frames_of_list=frames)


def _read_boxes(values: Sequence[Any], text: str) -> _Listed | None:
    boxes = boxes_along(values)
    if boxes is None and "{" not in text:
        boxes = boxes_in_words(text)
    by_frame = frames_of(boxes)
    in_order = boxes if isinstance(boxes, list) and not by_frame and any(box_of(item) for item in boxes) else ()
    return _Listed(by_frame, in_order) if by_frame or in_order else None


def _gold_frames(sample: Sample, value: Any) -> dict[float, Box]:
    boxes = boxes_value(value)
    count = len(boxes) if isinstance(boxes, (dict, list)) else 0
    frames = frames_of(boxes, frames_of_list=range(1, count + 1))
    if not frames or len(frames) != count or not all(_area(box) > 0 for box in frames.values()):
        raise bad_gold(sample, 'boxes along a video are {"boxes": {"1": [x1, y1, x2, y2], ..}}, none of them empty')
    return frames


def _read_track(sample: Sample, text: str) -> _Listed | None:
    text = plain(text)
    return _read_boxes(json_values(text), text)


TRACKING = Task(
    read_gold=lambda sample: _gold_frames(sample, read_json(sample.gold)),
    read_answer=_read_track,
    accuracy=lambda answer, gold: mean_frame_iou(answer.at(sorted(gold)), gold),
    show=lambda answer: f"{len(answer.by_frame or answer.in_order)} boxes",
    max_chars=MAX_LONG_CHARS,
)


class _Tube(NamedTuple):
    """A time span with boxes along it; either may be missing from an answer."""

    span: Interval | None
    boxes: Mapping[float, Box]


def _read_tube(sample: Sample, text: str) -> _Tube | None:
    text = plain(text)
    values = json_values(text)
    spans = {span_of(value) for value in values if isinstance(value, dict)} - {None}
    span = clip_to_duration(spans.pop(), sample) if len(spans) == 1 else None
    listed = _read_boxes(values, text)
    boxes: Mapping[float, Box] = {}
    if listed:
        # Boxes in a plain list stand for the whole seconds of the span they come with.
        seconds = range(math.ceil(span[0]), math.ceil(span[0]) + len(listed.in_order)) if span else ()
        boxes = listed.at(seconds)
    return _Tube(span, boxes) if span or boxes else None


def _gold_tube(sample: Sample) -> _Tube:
    value = read_json(sample.gold)
    span = span_of(value) if isinstance(value, dict) else None
    if span is None:
        raise bad_gold(sample, 'a tube is {"time": [start, end], "boxes": {"second": [x1, y1, x2, y2], ..}}')
    return _Tube(span, _gold_frames(sample, {"boxes": value.get("boxes")}))


def _tube_accuracy(answer: _Tube, gold: _Tube) -> float:
    assert gold.span is not None
    in_time = interval_iou(answer.span, gold.span) if answer.span else 0.0
    return 0.5 * in_time + 0.5 * mean_frame_iou(answer.boxes, gold.boxes)


SPATIAL_TEMPORAL = Task(
    read_gold=_gold_tube,
    read_answer=_read_tube,
    accuracy=_tube_accuracy,
    show=lambda answer: f"{answer.span} with {len(answer.boxes)} boxes",
    max_chars=MAX_LONG_CHARS,
)


@dataclass(frozen=True, slots=True)
class _Mask:
    """What points a segmenter to an object: a box, points on it and beside it, and in a video the time."""

    box: Box | None
    positive: list[Point]
    negative: list[Point]
    time_s: float | None


def _read_mask(text: str) -> _Mask | None:
    values = [value for value in json_values(plain(text)) if isinstance(value, dict) and "positive_points" in value]
    if len(values) != 1:
        return None
    (value,) = values
    positive, negative = points_of(value.get("positive_points")), points_of(value.get("negative_points"))
    if not positive or not negative:
        return None
    return _Mask(box_of(boxes_value(value)), positive, negative, finite(value.get("time")))


def _gold_mask(sample: Sample) -> _Mask:
    mask = _read_mask(sample.gold)
    if mask is None or mask.box is None or _area(mask.box) == 0 or any(map(_is_far, mask.positive + mask.negative)):
        form = {"boxes": ["x1", "y1", "x2", "y2"], "positive_points": [["x", "y"]], "negative_points": [["x", "y"]]}
        raise bad_gold(sample, f"a segmentation is {json.dumps(form)}, in a video with a time")
    return mask


def _is_far(point: Point) -> bool:
    return max(map(abs, point)) >= 1e9


def _mask_accuracy(answer: _Mask, gold: _Mask) -> float:
    """0.5 IoU + 0.25 each point set; with a time 0.3 IoU + 0.3 exp(-|dt| / 2) + 0.2 each (arXiv:2512.03043)."""
    if len(answer.positive) != len(gold.positive) or len(answer.negative) != len(gold.negative):
        return 0.0
    iou = box_iou(answer.box, gold.box) if answer.box and gold.box else 0.0
    points = point_similarity(answer.positive, gold.positive) + point_similarity(answer.negative, gold.negative)
    if gold.time_s is None:
        return 0.5 * iou + 0.25 * points
    at_time = 0.0 if answer.time_s is None else math.exp(-min(abs(answer.time_s - gold.time_s), 1e3) / 2)
    return 0.3 * iou + 0.3 * at_time + 0.2 * points


SEGMENTATION = Task(
    read_gold=_gold_mask,
    read_answer=lambda sample, text: _read_mask(text),
    accuracy=_mask_accuracy,
)
