"""Temporal grounding: overlap of one time span with the gold span."""

from __future__ import annotations

from easyvideor1.rewards.json_text import finite
from easyvideor1.rewards.measures import Interval, interval_iou
from easyvideor1.rewards.numbers.times import read_interval
from easyvideor1.rewards.task import Task, bad_gold
from easyvideor1.types import Sample


def read_gold_span(sample: Sample) -> Interval:
    """The gold span in seconds; DataError where there is none."""
    interval = read_interval(sample.gold)
    if interval is None:
        raise bad_gold(sample, 'a time span is {"time": [start, end]} in seconds with 0 <= start < end')
    return interval


def clip_to_duration(interval: Interval | None, sample: Sample) -> Interval | None:
    """The part of a span inside the video, where the row says how long that is (`duration_s` or `duration`)."""
    duration_s = finite(sample.extra.get("duration_s", sample.extra.get("duration")))
    if interval is None or duration_s is None or duration_s <= 0:
        return interval
    start, end = interval
    return (start, min(end, duration_s)) if start < duration_s else None


TASK = Task(
    read_gold=read_gold_span,
    read_answer=lambda sample, text: clip_to_duration(read_interval(text), sample),
    accuracy=interval_iou,
)
