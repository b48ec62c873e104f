"""The media of a converted row: content that lies in a table is written to files, paths are those of the new file."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

from easyvideor1.data.media_fields import ENTRY_NAMES
from easyvideor1.errors import DataError
from easyvideor1.video.source import is_address

SUFFIXES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"), (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"), (b"\x1aE\xdf\xa3", ".mkv"),
)  # fmt: skip
OTHER_NAMES = {"video": "path", "image": "path", "url": "path", "file": "path", "video_path": "path"}


LEAST_BASE64 = 64
BASE64_HEADS = ("/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "Qk")
"""Beginnings of JPEG, PNG, GIF, WebP and BMP files in base64."""


class MediaWriter:
    """Turns the media of rows into paths.

    Args:
        root: folder that relative paths of the source start from.
        out: folder of the new data file; relative paths then start from there.
        folder: where the content of media goes, under a name made of it; made when it is needed.

    Attributes:
        num_written: files made now.
        left_out: settings of media that a row cannot have (such as max_pixels) -> how often.
    """

    def __init__(self, root: Path, out: Path, folder: Path) -> None:
        self._root, self._out, self._folder = root, out, folder
        self.num_written = 0
        self.left_out: Counter[str] = Counter()

    def localised(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its media as paths.

        Raises:
            DataError: a medium that is neither a path nor content.
        """
        for field in ("images", "videos", "path"):
            if row.get(field) in (None, "", []):
                row.pop(field, None)
                continue
            value = row[field]
            items = value if isinstance(value, list | tuple) else [value]
            done = [self._item(item, field) for item in items]
            row[field] = done if isinstance(value, list | tuple) or field != "path" else done[0]
        return row

    def _item(self, item: Any, field: str) -> Any:
        if isinstance(item, list):  # the frames of one video
            return [self._item(frame, field) for frame in item]
        if isinstance(item, str) and item:
            content = _content_in(item)
            return self._path(item) if content is None else self._written(content)
        if isinstance(item, bytes):
            return self._written(item)
        if not isinstance(item, dict):
            raise DataError(f"neither a path nor content, got {item!r:.60}", field=field)
        entry = {OTHER_NAMES.get(name, name): value for name, value in item.items() if value is not None}
        content, path = entry.pop("bytes", None), entry.pop("path", None)
        if isinstance(content, bytes) and content:
            path = self._written(content)
        elif isinstance(path, list):
            path = [self._item(frame, field) for frame in path]
        elif isinstance(path, str) and path:
            path = self._path(path)
        else:
            raise DataError(f"neither a path nor content, got {item!r:.60}", field=field)
        known = {name: value for name, value in entry.items() if name in ENTRY_NAMES}
        self.left_out.update(f"{field}.{name}" for name in entry if name not in ENTRY_NAMES)
        return {"path": path, **known} if known else path

    def _path(self, path: str) -> str:
        if is_address(path) or os.path.isabs(path):
            return path
        return os.path.relpath(self._root / path, self._out) if self._root != self._out else path

    def _written(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()[:24] + _suffix(content)
        path = self._folder / name
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".part")
            draft.write_bytes(content)
            draft.replace(path)
            self.num_written += 1
        return os.path.relpath(path, self._out)


def _content_in(text: str) -> bytes | None:
    """What a text is in base64, as tables and addresses (`data:..;base64,..`) hold it; None where it is a path."""
    if text.startswith("data:"):
        text = text.partition(";base64,")[2]
    elif len(text) < LEAST_BASE64 or not text.startswith(BASE64_HEADS):
        return None
    try:
        return base64.b64decode(text, validate=True) or None
    except binascii.Error:
        return None


def _suffix(content: bytes) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return ".webp"
    if content[4:8] == b"ftyp":
        return ".avif" if content[8:12].startswith(b"avi") else ".mp4"
    return next((suffix for head, suffix in SUFFIXES if content.startswith(head)), ".bin")
