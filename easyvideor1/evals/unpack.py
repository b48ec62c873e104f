"""The authors' downloads unpacked: zips, tars and tars in parts, without ever writing outside of the target."""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from easyvideor1.errors import DataError

_PART = re.compile(r"(?P<whole>.+?\.(?:tar(?:\.gz)?|tgz|zip))[._-]?(?:part[._-]?)?(?P<number>[a-z]{2}|\d{2,3})$")
_ARCHIVE = re.compile(r".+\.(?:zip|tar|tar\.gz|tgz)$")
KEPT = re.compile(r".+\.(?:json|jsonl|parquet|csv|tsv|txt|srt|mp4|mkv|webm|avi|mov|png|jpe?g)$", re.IGNORECASE)
"""Endings of files that are copied from a download as they are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unpacked:
    """The result of unpacking a download."""

    num_files: int
    num_kept: int
    """Files that were there already, with the same size."""
    archives: tuple[str, ...]
    refused: tuple[str, ...]
    """Members that would have been written outside of the target, or are links or devices."""


def unpack(raw: Path, out: Path, *, progress: Callable[[str], None] = lambda name: None) -> Unpacked:
    """Unpack every archive of a download into a folder, and link or copy its other files there.

    Run again after an interruption: a file that is whole is not written twice.

    Raises:
        DataError: the download does not exist, an archive is damaged or a part of it is missing.
    """
    if not raw.is_dir():
        raise DataError("the folder of the download does not exist", where=str(raw))
    out.mkdir(parents=True, exist_ok=True)
    counts = {"new": 0, "kept": 0}
    refused: list[str] = []
    archives: list[str] = []
    for group in archive_groups(raw):
        name = group[0].relative_to(raw).as_posix()
        progress(name)
        archives.append(name)
        target = out / group[0].parent.relative_to(raw)
        with _opened(group) as file:
            for member, size, content in _members(file, group[0], refused):
                _write(target / member, size, content, counts)
    for path in sorted(raw.rglob("*")):
        if path.is_file() and KEPT.fullmatch(path.name) and not _ARCHIVE.fullmatch(path.name):
            _place(path, out / path.relative_to(raw), counts)
    return Unpacked(num_files=counts["new"], num_kept=counts["kept"], archives=tuple(archives), refused=tuple(refused))


def archive_groups(raw: Path) -> list[list[Path]]:
    """The archives of a download, each with its parts in order.

    Raises:
        DataError: a part in the middle is missing.
    """
    groups: dict[Path, list[tuple[int, Path]]] = {}
    for path in sorted(raw.rglob("*")):
        part = _PART.fullmatch(path.name)
        if path.is_file() and part:
            groups.setdefault(path.with_name(part["whole"]), []).append((_number(part["number"]), path))
        elif path.is_file() and _ARCHIVE.fullmatch(path.name):
            groups.setdefault(path, []).append((-1, path))
    found = []
    for whole, parts in sorted(groups.items()):
        numbers = [number for number, _ in sorted(parts) if number >= 0]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise DataError(f"a part is missing: {len(numbers)} of them, not one after the other", where=str(whole))
        found.append([path for number, path in sorted(parts) if number >= 0 or not numbers])
    return found


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    return (ord(text[0]) - ord("a")) * 26 + ord(text[1]) - ord("a")


class _Joined(io.RawIOBase):
    """The parts of a file, read one after the other; can seek, as zip files need."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts = list(parts)
        sizes = [part.stat().st_size for part in parts]
        self._starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._starts[-1]}[whence]
        self._place = max(0, base + offset)
        return self._place

    def readinto(self, buffer) -> int:  # type: ignore[override] - a buffer is whatever the reader brings
        for number, part in enumerate(self._parts):
            start, end = self._starts[number], self._starts[number + 1]
            if start <= self._place < end:
                with part.open("rb") as file:
                    file.seek(self._place - start)
                    content = file.read(min(len(buffer), end - self._place))
                buffer[: len(content)] = content
                self._place += len(content)
                return len(content)
        return 0


def _opened(parts: Sequence[Path]) -> BinaryIO:
    return parts[0].open("rb") if len(parts) == 1 else io.BufferedReader(_Joined(parts), 1 << 20)  # type: ignore[return-value]


def _members(file: BinaryIO, name: Path, refused: list[str]) -> Iterator[tuple[str, int, BinaryIO]]:
    """Safe path, size and content of every file in an archive."""
    try:
        if ".zip" in name.name:
            with zipfile.ZipFile(file) as archive:
                for info in archive.infolist():
                    is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
                    path = None if is_link else _safe(info.filename)
                    if not info.is_dir() and path is None:
                        refused.append(info.filename)
                    elif not info.is_dir() and path is not None:
                        with archive.open(info) as content:
                            yield path, info.file_size, content  # type: ignore[misc]
        else:
            with tarfile.open(fileobj=file, mode="r|*") as archive:
                for member in archive:
                    path, content = _safe(member.name), archive.extractfile(member) if member.isfile() else None
                    if path is not None and content is not None:
                        yield path, member.size, content  # type: ignore[misc]
                    elif not member.isdir():
                        refused.append(member.name)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"damaged archive: {error}", where=str(name), remedy="download it again") from None


def _safe(name: str) -> str | None:
    """The path of a member below the target; None where it would leave it."""
    path = PurePosixPath(name.replace("\\", "/"))
    parts = [part for part in path.parts if part != "."]
    return None if path.is_absolute() or ".." in parts or not parts or ":" in parts[0] else "/".join(parts)


def _write(path: Path, size: int, content: BinaryIO, counts: dict[str, int]) -> None:
    """Write a file whole or not at all; one of the same size is taken for it."""
    if path.exists() and path.stat().st_size == size:
        counts["kept"] += 1
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)
    os.replace(part, path)
    counts["new"] += 1


def _place(source: Path, path: Path, counts: dict[str, int]) -> None:
    """A file of the download at its place: a hard link where the disk allows one, else a copy."""
    if path.exists() and path.stat().st_size == source.stat().st_size:
        counts["kept"] += 1
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path)
    except OSError:
        shutil.copy2(source, path)
    counts["new"] += 1
