"""The media of a row: `images`, `videos` or `path`, with their clip ranges and frame rates in all public spellings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from easyvideor1.errors import DataError
from easyvideor1.types import Media, MediaKind
from easyvideor1.video.source import PICTURE_SUFFIXES, is_address

START_NAMES = ("start_s", "start", "video_start", "start_time", "clip_start")
END_NAMES = ("end_s", "end", "video_end", "end_time", "clip_end")
TIME_NAMES = {*START_NAMES, *END_NAMES, "fps", "times_s"}
ENTRY_NAMES = {"path", "image", "video", *TIME_NAMES}
"""Keys of one medium, where it is written as an object."""
ROW_NAMES = {"images", "videos", "path", "data_type", "fps", *START_NAMES, *END_NAMES}
"""Keys of a row that say what is seen and when."""
STORED_FRAMES = "preprocessed_video"
"""Key of a row that names frames which EasyVideoR1 stored; `easyvideor1 cache import` takes them over."""
SUCH_AS = 'such as ["clips/a.mp4"] or [{"path": "clips/a.mp4", "start": 1, "end": 4}]'
KINDS: tuple[MediaKind, ...] = ("image", "video")
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:\.\d+)?)")


def media_of(row: Mapping[str, Any], *, where: str, media_root: Path) -> list[Media]:
    """The media of a row in the order of its fields, images first.

    Raises:
        DataError: something that is no path, a clip range that is none, a range without a video, or a `data_type` that
            says that there is something to see where the row has nothing.
    """
    media = []
    for kind in KINDS:
        field = f"{kind}s"
        for item in _listed(row.get(field), where=where, field=field):
            media.append(_medium(item, kind, where=where, field=field, media_root=media_root))
    if _is_given(row.get("path")) and not media:
        media = _from_path(row, where=where, media_root=media_root)
    if _is_given(row.get(STORED_FRAMES)) and not media:  # the only trace of the video
        media = [_medium(row[STORED_FRAMES], "video", where=where, field=STORED_FRAMES, media_root=media_root)]
    kind = row.get("data_type")
    if not media and _is_given(kind) and str(kind).strip().lower() != "text":
        raise DataError(
            f"is '{kind}', but the row has no image and no video, so that the model would answer blindly",
            where=where,
            field="data_type",
            remedy="name the files in 'videos', 'images' or 'path', or write data_type 'text'",
        )
    return _with_row_times(media, row, where=where)


def rebased(row: Mapping[str, Any], *, old_root: Path, new_root: Path) -> dict[str, Any]:
    """The fields of a row whose relative media paths start from another folder; both folders are absolute.

    >>> rebased({"videos": ["a.mp4", "/b.mp4"]}, old_root=Path("/data/x"), new_root=Path("/data"))
    {'videos': ['x/a.mp4', '/b.mp4']}
    """

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(item) for item in value]
        if isinstance(value, dict):
            return {name: moved(item) if name in ("path", *KINDS) else item for name, item in value.items()}
        if not isinstance(value, str) or not value or is_address(value) or os.path.isabs(value):
            return value
        return os.path.relpath(old_root / value, new_root)

    return {name: moved(value) if name in ("images", "videos", "path") else value for name, value in row.items()}


def _is_given(value: Any) -> bool:
    return value is not None and value != "" and value != []


def _listed(value: Any, *, where: str, field: str) -> Sequence[Any]:
    if not _is_given(value):
        return ()
    if isinstance(value, (str, dict)):
        return (value,)
    if not isinstance(value, (list, tuple)):
        raise DataError(
            f"must be a path or a list of them, got {value!r:.60}", where=where, field=field, remedy=SUCH_AS
        )
    return value


def _from_path(row: Mapping[str, Any], *, where: str, media_root: Path) -> list[Media]:
    """What `path` names: one file, several images, several videos, or the frames of one video."""
    path, kind = row["path"], row.get("data_type")
    kind = kind.strip().lower() if isinstance(kind, str) else kind
    if kind not in KINDS:
        raise DataError(
            f"must be 'image' or 'video' beside 'path', got {kind!r}", where=where, field="data_type",
            remedy="say which it is, or name the file in 'images' or 'videos' instead",
        )  # fmt: skip
    are_many = isinstance(path, list) and (
        kind == "image" or not all(PurePath(str(item)).suffix.lower() in PICTURE_SUFFIXES for item in path)
    )
    items = path if are_many else [path]
    return [_medium(item, kind, where=where, field="path", media_root=media_root) for item in items]


def _medium(item: Any, kind: MediaKind, *, where: str, field: str, media_root: Path) -> Media:
    entry = item if isinstance(item, dict) else {"path": item}
    unknown = {name for name, value in entry.items() if value is not None} - ENTRY_NAMES
    if unknown:
        raise DataError(
            f"unknown keys {sorted(unknown)}; known: {sorted(ENTRY_NAMES)}", where=where, field=field,
            remedy="leave them out; frame budgets are set in data.video and data.image",
        )  # fmt: skip
    path = entry.get("path") if entry.get("path") is not None else entry.get(kind)
    if isinstance(path, list) and path and all(isinstance(frame, str) and frame for frame in path):
        resolved: str | tuple[str, ...] = tuple(_resolve(frame, media_root) for frame in path)
    elif isinstance(path, str) and path:
        resolved = _resolve(path, media_root)
    else:
        raise DataError(
            f"a {kind} is a path or a list of frame paths, got {path!r:.60}", where=where, field=field, remedy=SUCH_AS
        )
    timing = sorted(name for name in TIME_NAMES if entry.get(name) is not None)
    if kind == "image" and timing:
        raise DataError(
            f"an image has no {', '.join(timing)}", where=where, field=field,
            remedy="leave it out, or name the file in 'videos'",
        )  # fmt: skip
    return _checked_range(
        Media(
            kind=kind,
            path=resolved,
            start_s=_seconds(entry, START_NAMES, where=where, field=field),
            end_s=_seconds(entry, END_NAMES, where=where, field=field),
            fps=_rate(entry.get("fps"), where=where, field=field),
            times_s=_times(entry.get("times_s"), where=where, field=field),
        ),
        where=where,
        field=field,
    )


def _with_row_times(media: list[Media], row: Mapping[str, Any], *, where: str) -> list[Media]:
    """The media with the clip range and the frame rate that stand in the row itself."""
    start_s = _seconds(row, START_NAMES, where=where)
    end_s = _seconds(row, END_NAMES, where=where)
    fps = _rate(row.get("fps"), where=where, field="fps")
    if start_s is None and end_s is None and fps is None:
        return media
    videos = [medium for medium in media if medium.kind == "video"]
    field = next(name for name in (*START_NAMES, *END_NAMES, "fps") if row.get(name) is not None)
    if not videos:
        raise DataError(
            "the row has no video for it", where=where, field=field, remedy="name the video, or call the key otherwise"
        )
    if len(videos) > 1 and field != "fps":
        raise DataError(
            f"which of the {len(videos)} videos is meant?",
            where=where,
            field=field,
            remedy='give each video its own, e.g. {"path": "a.mp4", "start": 1, "end": 4}',
        )
    return [
        _checked_range(_joined(medium, start_s, end_s, fps, where=where, field=field), where=where, field=field)
        if medium.kind == "video"
        else medium
        for medium in media
    ]


def _joined(
    medium: Media, start_s: float | None, end_s: float | None, fps: float | None, *, where: str, field: str
) -> Media:
    pairs = ((medium.start_s, start_s), (medium.end_s, end_s), (medium.fps, fps))
    if any(own is not None and given is not None and own != given for own, given in pairs):
        raise DataError(
            "stands in the row and beside the video, with different values", where=where, field=field,
            remedy="leave it in one of the two places",
        )  # fmt: skip
    start_s, end_s, fps = (own if own is not None else given for own, given in pairs)
    return replace(medium, start_s=start_s, end_s=end_s, fps=None if medium.times_s is not None else fps)


def _checked_range(medium: Media, *, where: str, field: str) -> Media:
    if medium.end_s is not None and medium.end_s <= (medium.start_s or 0.0):
        raise DataError(
            f"clip ends at {medium.end_s} s, before it starts",
            where=where,
            field=field,
            remedy="give start < end in seconds, or neither for the whole file",
        )
    return medium


def _times(value: Any, *, where: str, field: str) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not all(_is_time(time) for time in value):
        raise DataError(
            f"'times_s' must be a list of numbers >= 0, got {value!r:.60}", where=where, field=field,
            remedy="give the second of each frame, or 'fps' for evenly taken ones",
        )  # fmt: skip
    return tuple(float(time) for time in value)


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _rate(value: Any, *, where: str, field: str) -> float | None:
    """Frames per second."""
    if value is None:
        return None
    if not _is_time(value):
        raise DataError(
            f"'fps' must be a number >= 0, got {value!r:.60}", where=where, field=field,
            remedy="give frames per second, or leave it out for data.video.fps",
        )  # fmt: skip
    if not value:
        raise DataError(
            "'fps' is 0", where=where, field=field, remedy="give frames per second, or leave it out for data.video.fps"
        )
    return float(value)


def _seconds(entry: Mapping[str, Any], names: Sequence[str], *, where: str, field: str = "") -> float | None:
    """The one time that stands under some names: a number of seconds, such a number as text, or a clock's mm:ss."""
    given = {name: entry[name] for name in names if entry.get(name) is not None and entry[name] != ""}
    found = {name: _clock_s(value) for name, value in given.items()}
    for name, value in found.items():
        if not _is_time(value):
            raise DataError(
                f"'{names[0]}' must be a number >= 0, got {given[name]!r:.60}", where=where, field=field or name,
                remedy="give seconds, or a time such as 01:05.5",
            )  # fmt: skip
    if len(set(found.values())) > 1:
        raise DataError(
            f"{' and '.join(found)} say different things", where=where, field=field or next(iter(found)),
            remedy="leave one of them",
        )  # fmt: skip
    return float(next(iter(found.values()))) if found else None


def _clock_s(value: Any) -> Any:
    """Seconds of a text; what is no text stays as it is.

    >>> _clock_s("12.5"), _clock_s("01:05.5"), _clock_s("1:00:00"), _clock_s("soon")
    (12.5, 65.5, 3600.0, 'soon')
    """
    if not isinstance(value, str):
        return value
    clock = _CLOCK.fullmatch(value.strip())
    if clock:
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return 3600 * hours + 60 * minutes + seconds
    try:
        return float(value)
    except ValueError:
        return value


def _resolve(path: str, media_root: Path) -> str:
    return path if is_address(path) else os.path.join(media_root, path)
