"""Subtitles as benchmarks give them to a model: listed before the question, or between the frames that they go with.

Times are seconds of the video; frame times are those that were sampled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.evals.annotations import read_value


@dataclass(frozen=True, slots=True)
class Line:
    """Something that is said."""

    start_s: float
    end_s: float
    text: str


_CLOCK = re.compile(r"(\d+):(\d{1,2}):(\d{1,2}(?:[.,]\d+)?)")
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}")


def clock_s(text: str) -> float:
    """Seconds of "hh:mm:ss.mmm", also with a comma.

    Raises:
        ValueError: it is none.

    >>> clock_s("00:01:02,500")
    62.5
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no time like 00:01:02.500")
    return 3600 * int(match[1]) + 60 * int(match[2]) + float(match[3].replace(",", "."))


def read_srt(path: Path) -> list[Line]:
    """The lines of an SRT file in time order, without markup; a block without a time is left out.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise DataError(f"cannot read the subtitles: {error.strerror}", where=str(path)) from None
    lines = []
    for block in re.split(r"\r?\n[ \t]*\r?\n", text.strip()):
        rows = block.splitlines()
        place = next((number for number, row in enumerate(rows[:2]) if "-->" in row), None)
        if place is None:
            continue
        start, _, end = rows[place].partition("-->")
        try:
            times = clock_s(start), clock_s(end.split()[0])
        except (ValueError, IndexError):
            continue
        said = " ".join(_MARKUP.sub("", row).strip() for row in rows[place + 1 :])
        if said.strip():
            lines.append(Line(*times, said.strip()))
    return sorted(lines, key=lambda line: (line.start_s, line.end_s))


def read_words(path: Path) -> list[Line]:
    """The words of a Video-MME-v2 file, one JSON object a line, with their times."""
    words = [_word(row, path) for row in read_value(path)]
    return sorted(words, key=lambda word: (word.start_s, word.end_s))


def _word(row: Any, path: Path) -> Line:
    try:
        return Line(float(row["start_time"]), float(row["end_time"]), str(row["text"]))
    except (KeyError, TypeError, ValueError):
        raise DataError(f"no word with its times: {row!r:.80}", where=str(path)) from None


def read_longvideobench(path: Path, *, duration_s: float, starts_at_s: float = 0.0) -> list[Line]:
    """The entries of a LongVideoBench file, with clock times or as Whisper writes them.

    An end that is no decimal number, null or an integer, is the end of the video, as the authors' loader has it.

    Args:
        starts_at_s: `starting_timestamp_for_subtitles` of the item, which all times count from.
    """
    lines = []
    for entry in read_value(path):
        if "timestamp" in entry:
            start, end = entry["timestamp"]
            end = end if isinstance(end, float) else duration_s
            lines.append(Line(float(start) - starts_at_s, end - starts_at_s, str(entry["text"])))
        else:
            start, end = clock_s(entry["start"]), clock_s(entry["end"])
            lines.append(Line(start - starts_at_s, end - starts_at_s, str(entry["line"])))
    return lines


def seen_lines(lines: Sequence[Line], times_s: Sequence[float]) -> list[Line]:
    """The lines during which at least one frame was sampled, each once, in time order."""
    return [line for line in lines if any(line.start_s <= time <= line.end_s for time in times_s)]


def listed(lines: Sequence[Line], times_s: Sequence[float], *, between: str = " ") -> str:
    """The subtitles that are listed before a question: the text of the lines that go with a frame.

    Args:
        between: a space in the Qwen team's script, a line break in lmms-eval.
    """
    return between.join(line.text for line in seen_lines(lines, times_s))


def segments(words: Sequence[Line]) -> list[Line]:
    """Words joined to segments: a new one after a pause above 0.5 s, or above 0.1 s behind the end of a sentence."""
    found: list[list[Line]] = []
    for word in words:
        if found:
            last = found[-1][-1]
            pause = word.start_s - last.end_s
            if not (pause > 0.5 or (last.text.endswith((".", "!", "?")) and pause > 0.1)):
                found[-1].append(word)
                continue
        found.append([word])
    return [Line(group[0].start_s, group[-1].end_s, " ".join(word.text for word in group)) for group in found]


def between_frames(lines: Sequence[Line], times_s: Sequence[float], *, video_end_s: float) -> list[list[str]]:
    """Video-MME-v2: the segments said between each frame and the next; one that spans a frame stands twice."""
    ends = [*times_s[1:], video_end_s]
    return [
        [
            f"[Subtitle {line.start_s:.2f}s - {line.end_s:.2f}s]: {line.text}"
            for line in lines
            if line.end_s >= start and line.start_s < end
        ]
        for start, end in zip(times_s, ends, strict=True)
    ]


def interleaved(lines: Sequence[Line], times_s: Sequence[float]) -> list[int | str]:
    """LongVideoBench: numbers of frames and texts of subtitles in the order in which the model sees them.

    Before a subtitle stand the frames up to its middle. It is shown only if a frame lies strictly inside it; one
    shorter than a second is widened to a second around its middle for that.
    """
    order: list[int | str] = []
    num_shown = 0
    for line in lines:
        start, end = line.start_s, line.end_s
        middle = (start + end) / 2
        if end - start < 1:
            start, end = middle - 0.5, middle + 0.5
        if not any(start < time < end for time in times_s):
            continue
        while num_shown < len(times_s) and times_s[num_shown] <= middle:
            order.append(num_shown)
            num_shown += 1
        order.append(line.text)
    return [*order, *range(num_shown, len(times_s))]


def behind_frames(path: Path, lines: Sequence[Line], times_s: Sequence[float], *, video_end_s: float) -> list[str]:
    """What stands behind each frame: by the rule of Video-MME-v2 for its files of words, else by LongVideoBench's.

    Args:
        lines: of that file.
    """
    if is_words(path):
        return ["".join(said) for said in between_frames(segments(lines), times_s, video_end_s=video_end_s)]
    texts = [""] * len(times_s)
    place = 0
    for shown in interleaved(lines, times_s):
        if isinstance(shown, int):
            place = shown
        else:
            texts[place] += shown
    return texts


def is_words(path: Path) -> bool:
    """Whether a file holds words with their times, as those of Video-MME-v2 do, and not lines."""
    return path.suffix == ".jsonl"


def read_subtitles(path: Path, *, duration_s: float, starts_at_s: float = 0.0) -> list[Line]:
    """The subtitles of any benchmark, by the form of the file.

    Args:
        starts_at_s: second of the file from which its times count; only in LongVideoBench's files.

    Raises:
        DataError: the file cannot be read.
    """
    if path.suffix == ".srt":
        return read_srt(path)
    return (
        read_words(path)
        if is_words(path)
        else read_longvideobench(path, duration_s=duration_s, starts_at_s=starts_at_s)
    )


def listed_in(path: Path, lines: Sequence[Line], times_s: Sequence[float]) -> str:
    """What is listed before a question: all words of a Video-MME-v2 file, the lines that go with a frame of others."""
    return " ".join(word.text for word in lines) if is_words(path) else listed(lines, times_s)
