"""Reading the one time span in an answer, in seconds: JSON, lists, clock times, words."""

from __future__ import annotations

import re
from typing import Any

from easyvideor1.rewards.measures import Interval
from easyvideor1.rewards.parse import finite, plain, read_json

_CLOCK = r"(?:(?P<hours>\d{1,2}):)?(?P<minutes>\d{1,3}):(?P<seconds>\d{1,2}(?:\.\d{1,6}|,\d{3}(?!\d))?)(?![\d:])"
_UNIT = r"hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|\u5c0f\u65f6|\u5206\u949f|\u5206|\u79d2\u949f|\u79d2"
_TIME = re.compile(
    rf"(?P<sign>-(?=[\d.]))?(?:{_CLOCK}|(?P<number>\d++(?:\.\d++)?|\.\d++)\s?(?P<unit>{_UNIT})?(?![a-z]))"
)
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm)\s?\{([^{}]*)\}")
_GLUED_TO = re.compile(r"(?<![a-z])to(?=\d)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "\u5c0f": 3600.0, "\u5206": 60.0, "\u79d2": 1.0}
_SPAN_KEYS = {
    "time", "times", "timestamp", "timestamps", "time range", "time span", "interval", "intervals", "segment",
    "segments", "span", "spans", "period",
    "temporal", "window", "range", "answer",
}  # fmt: skip
_START_WORDS, _END_WORDS = ("start", "begin", "from"), ("end", "stop", "finish", "to")
_EDGE_UNITS = {"time", "timestamp", "s", "sec", "second", "seconds"}


def read_interval(text: str) -> Interval | None:
    """Start and end in seconds; None where there is no span, more than one, or not 0 <= start < end.

    >>> read_interval("from 12.3s to 15s"), read_interval('{"time": ["00:10", "1:20"]}'), read_interval("10 or so")
    ((12.3, 15.0), (10.0, 80.0), None)
    """
    text = _LATEX_TEXT.sub(r" \1 ", plain(text))
    value = read_json(text)
    pair = span_of(value) if value is not None else None
    if pair is None and "{" not in text:
        pair = _from_words(text)
    return pair


def span_of(value: Any) -> Interval | None:
    """The span in a JSON value: a pair, one nested pair, or an object with a time key or a start and an end."""
    if isinstance(value, dict):
        keys = {str(key).lower().replace("_", " "): item for key, item in value.items()}
        start, end = _edge(keys, _START_WORDS), _edge(keys, _END_WORDS)
        if start is not None and end is not None:
            return _ordered(_seconds(start), _seconds(end))
        spans = [item for key, item in keys.items() if key in _SPAN_KEYS]
        return span_of(spans[0]) if len(spans) == 1 else None
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], (list, dict, str)):
            return span_of(value[0])
        return _ordered(_seconds(value[0]), _seconds(value[1])) if len(value) == 2 else None
    return _from_words(value) if isinstance(value, str) else None


def _edge(keys: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The value under a key such as "start", "start time" or "start seconds"; frames are no seconds."""
    for key, item in keys.items():
        first, *others = key.split() or [""]
        if first in names and _EDGE_UNITS.issuperset(others):
            return item
    return None


def _ordered(start: float | None, end: float | None) -> Interval | None:
    return (start, end) if start is not None and end is not None and 0 <= start < end else None


def _seconds(value: Any) -> float | None:
    number = finite(value)
    if number is None and isinstance(value, str):
        times = _times(plain(value))
        number = times[0] if times and len(times) == 1 else None
    return number


def _from_words(text: str) -> Interval | None:
    times = _times(text)
    return _ordered(times[0], times[1]) if times and len(times) == 2 else None


def _times(text: str) -> list[float] | None:
    """Every time a text names, in order; None where one is negative or beyond numbers."""
    text = _GLUED_TO.sub(" to ", text.lower())
    times: list[float] = []
    units: list[str] = []
    end_of_last = -1
    for match in _TIME.finditer(text):
        if _is_inside_word(text, match.start()) and match.start() != end_of_last and not match["sign"]:
            continue
        seconds = _match_seconds(match)
        is_negative = match["sign"] and _is_sign(text, match.start())
        if seconds is None or is_negative:
            return None
        unit = (match["unit"] or "")[:1]
        is_part = units and units[-1] in ("h", "m", "\u5c0f", "\u5206") and unit and _UNIT_S[unit] < _UNIT_S[units[-1]]
        if is_part and not text[end_of_last : match.start()].strip(" ,"):
            times[-1] += seconds  # "1 min 5 s" is one time
        else:
            times.append(seconds)
        units = [*units[-1:], unit]
        if len(times) > 2:
            return times
        end_of_last = match.end()
    if len(times) == 2 and len(units) == 2 and units[1] in ("m", "\u5206", "h") and not units[0]:
        times[0] *= _UNIT_S[units[1]]  # "1 to 2 minutes": the unit is said once
    return times


def _match_seconds(match: re.Match[str]) -> float | None:
    if match["number"]:
        number = finite(match["number"])
        return None if number is None else number * _UNIT_S[(match["unit"] or "s")[:1]]
    seconds = float(match["seconds"].replace(",", "."))  # subtitles write 00:01:05,250
    return 3600.0 * int(match["hours"] or 0) + 60.0 * int(match["minutes"]) + seconds


def _is_inside_word(text: str, start: int) -> bool:
    return start > 0 and bool(re.match(r"[a-z_.]", text[start - 1]))


def _is_sign(text: str, start: int) -> bool:
    """A hyphen directly before a number is a sign, unless it joins two times ("10-20", "10s -20s")."""
    before = text[max(0, start - 4) : start].rstrip()
    return not re.search(r"[\ds)\u79d2\u5206]$", before)
