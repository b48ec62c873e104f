"""Where the bytes of a medium come from: files, addresses, folders of pictures; and what identifies their content."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar
from urllib.parse import unquote, urlsplit

from easyvideor1.errors import MediaError
from easyvideor1.types import Media
from easyvideor1.video.jpeg_stream import is_jpeg_stream

PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".avif"})
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//|[^,]*;base64,)")
WHOLE_HASH_BYTES = 2 << 20
"""Files up to this size are identified by all their bytes; larger ones by size, change time and sampled blocks."""
BLOCK_BYTES = 64 << 10
NUM_BLOCKS = 16

MOST_PIXELS = 1 << 27
"""Larger pictures (above 134 megapixels) are refused from their header, in videos too: a file of a few kilobytes can
claim any size, and its pixels would fill the memory."""

MOST_JPEG_BYTES = 64 << 20
"""A second picture is looked for up to here."""

Container = Literal["video", "gif", "picture", "jpeg stream"]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One readable file: on disk, or in memory."""

    name: str
    """What messages call it."""
    path: str | None
    data: bytes | None
    num_bytes: int
    mtime_ns: int
    place: tuple[int, int, int] = (0, 0, 0)
    """Device, inode and time of the last change of anything about it, ns: another file in its place has another."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the file that lies there now is the one that was found, untouched."""
        if self.path is None:
            return True
        try:
            return _place_of(os.stat(self.path)) == (self.num_bytes, self.mtime_ns, self.place)
        except OSError:
            return False

    def open(self) -> BinaryIO:
        if self.data is not None:
            return io.BytesIO(self.data)
        assert self.path is not None
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise MediaError(f"cannot be read: {error.strerror}", where=self.name) from None

    def head(self, num_bytes: int) -> bytes:
        with self.open() as file:
            return file.read(num_bytes)

    @property
    def content(self) -> Container:
        """What the first bytes say it is; the name is not asked."""
        head = self.head(16)
        if head.startswith((b"GIF87a", b"GIF89a")):
            return "gif"
        if head.startswith(b"\xff\xd8\xff"):
            return "jpeg stream" if _holds_more_jpegs(self) else "picture"
        is_picture = (
            head.startswith((b"\x89PNG\r\n", b"BM", b"II*\0", b"MM\0*", b"P5\n", b"P6\n"))
            or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
            or head[4:12] in (b"ftypavif", b"ftypavis", b"ftypheic", b"ftypmif1")
        )
        return "picture" if is_picture else "video"


def remembered(maxsize: int) -> Callable[[Callable[[Source], Result]], Callable[[Source], Result]]:
    """Keep the last results of a function of a file; never those of content in memory, which the memo would hold."""

    def decorate(function: Callable[[Source], Result]) -> Callable[[Source], Result]:
        from_disk = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def call(source: Source) -> Result:
            return from_disk(source) if source.data is None else function(source)

        return call

    return decorate


def locate(media: Media) -> Source | tuple[Source, ...]:
    """The file of a medium, or its pictures in order where it is a folder or a list.

    Raises:
        MediaError: missing, empty, unreadable, a folder without pictures, or an address that is not read from here.
    """
    if media.data is not None:
        return _in_memory(media.data, name=media.name)
    if isinstance(media.path, tuple):
        if not media.path:
            raise MediaError("the list of frames is empty", where=media.name)
        return tuple(_locate_file(path) for path in media.path)
    if not media.path:
        raise MediaError("the path is empty", where=media.kind)
    path = local_path(media.path)
    if path is not None and os.path.isdir(path):  # which, unlike Path.is_dir, raises nothing
        return tuple(_locate_file(str(picture)) for picture in _pictures_in(path))
    return _locate_file(media.path)


@remembered(65_536)
def identity(source: Source) -> str:
    """Hex digest that changes when the content does.

    Up to WHOLE_HASH_BYTES every byte counts, so copies share one identity. Larger files take too long to read for a
    plan: size, change time and blocks spread over the file stand for them.
    """
    if source.data is not None:
        return hashlib.sha256(source.data).hexdigest()
    digest = hashlib.sha256()
    with source.open() as file:
        if source.num_bytes <= WHOLE_HASH_BYTES:
            digest.update(file.read())
            return digest.hexdigest()
        digest.update(f"{source.num_bytes} {source.mtime_ns}".encode())
        for block in range(NUM_BLOCKS):
            file.seek((source.num_bytes - BLOCK_BYTES) * block // (NUM_BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


@remembered(4096)
def _holds_more_jpegs(source: Source) -> bool:
    return is_jpeg_stream(source.head(MOST_JPEG_BYTES))


def first_bytes(source: Source) -> str:
    """The start of a file in a form that fits a message."""
    return repr(source.head(40))


def _in_memory(data: bytes, *, name: str) -> Source:
    if not data:
        raise MediaError("empty, 0 bytes", where=name, remedy="the upload or the row lost its content")
    return Source(name=name, path=None, data=data, num_bytes=len(data), mtime_ns=0)


def _locate_file(address: str) -> Source:
    if address.startswith("data:"):
        return _in_memory(_from_data_address(address), name=address[:40] + "..")
    path = local_path(address)
    if path is None:
        raise MediaError(
            "addresses other than file:// and data: are not read", where=address, remedy="download it first"
        )
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        problem = "a link whose target is missing" if os.path.islink(path) else f"cannot be read: {reason}"
        raise MediaError(problem, where=address, remedy="check the path and media_root") from None
    if path.is_dir():
        raise MediaError("a folder stands where a file is expected", where=address)
    if not path.is_file():
        raise MediaError("not a regular file", where=address)
    if status.st_size == 0:
        raise MediaError("empty file, size 0 bytes", where=address, remedy="download it again")
    num_bytes, mtime_ns, place = _place_of(status)
    return Source(name=address, path=str(path), data=None, num_bytes=num_bytes, mtime_ns=mtime_ns, place=place)


def _place_of(status: os.stat_result) -> tuple[int, int, tuple[int, int, int]]:
    return status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino, status.st_ctime_ns)


def is_address(path: str) -> bool:
    """Whether it is a URL or a data address, and no path."""
    return ADDRESS.match(path) is not None


def local_path(address: str) -> Path | None:
    """The path an address means; None where it is not on this machine."""
    if not is_address(address):
        return Path(address)
    parts = urlsplit(address)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        # A '#' or '?' in a file name is part of the name, not a fragment or a query.
        return Path(unquote(address.removeprefix("file://").removeprefix(parts.netloc)))
    return None


def _from_data_address(address: str) -> bytes:
    header, comma, body = address.partition(",")
    if not comma or not header.endswith(";base64"):
        raise MediaError("not a base64 data address (data:TYPE;base64,..)", where=address[:40] + "..")
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise MediaError(f"its base64 text is damaged: {error}", where=address[:40] + "..") from None


def _pictures_in(folder: Path) -> list[Path]:
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        raise MediaError(f"cannot be read: {error.strerror}", where=str(folder)) from None
    # hidden ones are notes of file managers, such as "._frame_1.jpg"
    pictures = [path for path in paths if path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")]
    if not pictures:
        raise MediaError("a folder without pictures", where=str(folder), remedy="give a file or a folder of frames")
    return sorted(pictures, key=lambda path: (*_natural_order(path.name), (0, path.name)))


def _natural_order(name: str) -> Iterator[tuple[int, str]]:
    """Digits count as numbers: frame_2 before frame_10."""
    for digits, text in re.findall(r"(\d+)|(\D+)", name):
        yield (int(digits), "") if digits else (-1, text)
