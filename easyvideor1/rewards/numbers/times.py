"""The one time span an answer names, in seconds: JSON, lists, clock times, numbers with or without a unit of time."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from typing import Any

from easyvideor1.rewards.json_text import finite, json_values
from easyvideor1.rewards.measures import Interval
from easyvideor1.rewards.numbers import rest
from easyvideor1.rewards.numbers.scan import Numeral, TornNumberError, normalized, numerals
from easyvideor1.rewards.numbers.units import known
from easyvideor1.rewards.parse import plain

_SECONDS = frozenset({("s", 1)})
_CLOCK = re.compile(
    r"(?<![\d:.])(?:(?P<hours>\d{1,2}):)?(?P<minutes>\d{1,3}):(?P<seconds>\d{1,2}(?:\.\d{1,6}|,\d{3}(?!\d))?)(?![\d:])"
)
_UNIT_WORD = re.compile("\\s?([a-z]+|\u5c0f\u65f6|\u5206\u949f|\u5206|\u79d2\u949f|\u79d2)")
_MINUTES = {"m": "min"}
"""An "m" that stands for minutes and not for metres."""
MAX_TIMES = 50
MAX_KEY_CHARS = 40
_SPLIT = (
    (re.compile(r"(?<=\d)([hms]|min|sec)(?=\d)"), r"\1 "),  # 1m5s
    (re.compile(r"(?<![a-z])to(?=\d)|(?<=\d)to(?![a-z])|\s?(?:-->|->|=>)\s?"), " to "),
    # A hyphen between two times joins them; elsewhere it is a sign.
    (re.compile("(?<=[\\ds)\u79d2\u5206])\\s?[-~]\\s?(?=[\\d.])"), " to "),
    (re.compile(r"(?<=\d),(?!\d{3}(?!\d))|(?<=\.\d),(?=\d)"), ", "),
)
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm)\s?\{([^{}]*)\}")
_FRAMES = re.compile(r"(?<![a-z])frames?(?![a-z])|\u5e27")
_SECONDS_SAID = re.compile(r"(?<![a-z])(?:s|secs?|seconds?)(?![a-z])|\u79d2")


def read_interval(text: str) -> Interval | None:
    """Start and end in seconds; None where there is no span, more than one, or not 0 <= start < end.

    >>> read_interval("from 12.3s to 15s"), read_interval('{"time": ["00:10", "1:20"]}'), read_interval("10 or so")
    ((12.3, 15.0), (10.0, 80.0), None)
    """
    text = plain(text)
    if "\\" in text:
        text = _LATEX_TEXT.sub(r" \1 ", text)
    values = json_values(text)
    found = {span for span in map(span_of, values) if span is not None}
    if found or "{" in text:
        return found.pop() if len(found) == 1 else None
    return _from_words(text)


_ASKED_FOR = frozenset({"time", "boxes"})
"""The keys of the form that prompts ask for."""
_SPAN_KEYS = frozenset(
    [
        "time",
        "times",
        "timestamp",
        "timestamps",
        "interval",
        "intervals",
        "segment",
        "segments",
        "span",
        "spans",
        "period",
        "periods",
        "temporal",
        "window",
        "windows",
        "range",
        "ranges",
        "answer",
        "answers",
        "result",
        "results",
        "moment",
        "moments",
        "event",
        "events",
        "clip",
        "clips",
        "prediction",
        "predictions",
    ]
)
_ABOUT_SPANS = frozenset(
    ["time", "temporal", "relevant", "predicted", "pred", "video", "the", "s", "sec", "second", "seconds", "in"]
)
_START = frozenset(["start", "starts", "starting", "begin", "begins", "beginning", "from", "onset", "st", "t1", "t0"])
_END = frozenset(["end", "ends", "ending", "stop", "stops", "finish", "finishes", "to", "until", "offset", "ed", "t2"])
_EDGE_WORDS = frozenset(
    [
        "time",
        "times",
        "timestamp",
        "t",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "in",
        "at",
        "of",
        "point",
        "clip",
        "event",
    ]
)
_KEY_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d?|\d+")


def span_of(value: Any) -> Interval | None:
    """The span in a JSON value: a pair, one nested pair, or an object with a time key or a start and an end."""
    if isinstance(value, dict):
        if "time" in value and _ASKED_FOR.issuperset(value):
            return span_of(value["time"])
        keys = {_words_of(str(key)[:MAX_KEY_CHARS]): item for key, item in value.items()}
        start = _edge(keys, _START, _END)
        end = None if start is None else _edge(keys, _END, _START)
        if start is not None and end is not None:
            return _ordered(_seconds(start), _seconds(end))
        spans = [item for words, item in keys.items() if _names_a_span(words)]
        return span_of(spans[0]) if len(spans) == 1 else None
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], (list, dict, str)):
            return span_of(_without_score(value[0]))
        return _ordered(_seconds(value[0]), _seconds(value[1])) if len(value) == 2 else None
    return _from_words(value) if isinstance(value, str) else None


def _without_score(span: Any) -> Any:
    """A span of [start, end, score] without the score, as moment retrieval writes its windows."""
    is_scored = isinstance(span, list) and len(span) == 3 and isinstance(span[2], float) and 0 <= span[2] <= 1
    return span[:2] if is_scored else span


@functools.lru_cache(maxsize=1024)
def _words_of(key: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _KEY_WORD.findall(key))


@functools.lru_cache(maxsize=1024)
def _names_a_span(words: tuple[str, ...]) -> bool:
    """True for keys such as "time", "relevant_windows", "time_range", "answer"."""
    return bool(words) and words[-1] in _SPAN_KEYS and (_SPAN_KEYS | _ABOUT_SPANS).issuperset(words)


def _edge(keys: dict[tuple[str, ...], Any], names: frozenset[str], others: frozenset[str]) -> Any:
    """The value under a key such as "start", "t_start", "time_start" or "start seconds"; frames are no seconds."""
    found = [item for words, item in keys.items() if _is_edge(words, names, others)]
    return found[0] if len(found) == 1 else None


@functools.lru_cache(maxsize=1024)
def _is_edge(words: tuple[str, ...], names: frozenset[str], others: frozenset[str]) -> bool:
    is_named = len(names.intersection(words)) == 1 and not others.intersection(words)
    return is_named and (names | _EDGE_WORDS).issuperset(words)


def _ordered(start: float | None, end: float | None) -> Interval | None:
    return (start, end) if start is not None and end is not None and 0 <= start < end else None


def _seconds(value: Any) -> float | None:
    number = finite(value)
    if number is None and isinstance(value, str):
        times = _times(value)
        number = times[0] if times and len(times) == 1 else None
    return number


def _from_words(text: str) -> Interval | None:
    times = _times(text)
    return _ordered(times[0], times[1]) if times and len(times) == 2 else None


@dataclass(frozen=True, slots=True)
class _Time:
    """A time as it stands in a text."""

    start: int
    end: int
    seconds: float
    unit_s: float | None
    """Seconds of the unit it was written in; None for a clock time or a bare number."""


def _times(text: str) -> list[float] | None:
    """Every time a text names in seconds, in order; None where one is negative, denied, or beyond numbers."""
    text = normalized(text).removeprefix("- ")
    for pattern, replacement in _SPLIT:
        text = pattern.sub(replacement, text)
    if _FRAMES.search(text) and not _SECONDS_SAID.search(text):
        return None  # how long a frame lasts is not known here
    times = [
        _Time(match.start(), match.end(), _clock_s(match), None)
        for match in itertools.islice(_CLOCK.finditer(text), MAX_TIMES)
    ]
    # Clock times are taken out, so that their digits are not read as numbers too.
    bare = _CLOCK.sub(lambda match: "~" * len(match[0]), text) if times else text
    try:
        found = numerals(bare)
    except TornNumberError:
        return None
    times += [_time(text, numeral) for numeral in found[:MAX_TIMES]]
    times.sort(key=lambda time: time.start)
    if any(time.seconds < 0 or rest.is_denied(text, time.start) for time in times):
        return None
    return _joined(text, times)


def _clock_s(match: re.Match[str]) -> float:
    seconds = float(match["seconds"].replace(",", "."))  # subtitles write 00:01:05,250
    return 3600.0 * int(match["hours"] or 0) + 60.0 * int(match["minutes"]) + seconds


def _time(text: str, numeral: Numeral) -> _Time:
    match = _UNIT_WORD.match(text, numeral.end)
    unit = known(_MINUTES.get(match[1], match[1])) if match else None
    seconds = numeral.num / numeral.den
    if match is None or unit is None or unit.dimension != _SECONDS:
        return _Time(numeral.start, numeral.end, seconds, None)
    return _Time(numeral.start, match.end(), seconds * float(unit.size), float(unit.size))


def _joined(text: str, times: list[_Time]) -> list[float]:
    """The times with "1 min 5 s" as one, and with a unit that is said once ("1 to 2 minutes") for both."""
    whole: list[_Time] = []
    for time in times:
        last = whole[-1] if whole else None
        is_part = last and last.unit_s and time.unit_s and time.unit_s < last.unit_s
        if last and is_part and not text[last.end : time.start].replace("and", "").strip(" ,"):
            whole[-1] = _Time(last.start, time.end, last.seconds + time.seconds, time.unit_s)
        else:
            whole.append(time)
    if len(whole) == 2 and whole[0].unit_s is None and (whole[1].unit_s or 1.0) > 1.0:
        is_clock = ":" in text[whole[0].start : whole[0].end]
        scale = 1.0 if is_clock else whole[1].unit_s or 1.0
        return [whole[0].seconds * scale, whole[1].seconds]
    return [time.seconds for time in whole]
