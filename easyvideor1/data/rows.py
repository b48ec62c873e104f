"""The one reader of data files: JSON objects, one per line or in one list, plain or gzipped.

A file is gone through once to find where its rows stand; a row is parsed when it is asked for, so that a data set of
any size costs a few bytes per row until then.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import threading
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import xxhash

from easyvideor1.data.shapes import convert_command, foreign_file
from easyvideor1.errors import DataError

BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"
COPY_BYTES = 1 << 20
REMEDY = "correct the line; `easyvideor1 data clean` writes the rows that can be used"
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a data file, or an item of its list, before any check of its fields."""

    where: str
    """ "file:line" or "file[place]"."""
    fields: dict[str, Any]


class RowFile:
    """The rows of one data file by place.

    Attributes:
        digests: uint64 [N], of the bytes of each row.

    Raises:
        DataError: the file cannot be read, holds no rows, or is of another kind; names that kind and what to do.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._offsets, self._lengths, self._lines = array("q"), array("q"), array("q")
        self._broken: DataError | None = None
        """What ends a list too early; it then stands in the last place."""
        found = array("Q")
        try:
            self._file = open_plain(self.path)
            self._is_list = self._find_rows(found)
        except OSError as error:
            raise DataError(f"cannot read the data file: {error.strerror}", where=str(path)) from None
        if not len(self):
            raise DataError(
                "no rows", where=str(path), remedy="the file must hold JSON objects, one per line or in one list"
            )
        self.digests = np.array(found, np.uint64)

    def __len__(self) -> int:
        return len(self._offsets)

    def where(self, place: int) -> str:
        """What messages call the row at a place, counted from 0."""
        if self._broken is not None and place == len(self) - 1:
            return str(self.path)
        return f"{self.path}[{self._lines[place]}]" if self._is_list else f"{self.path}:{self._lines[place]}"

    def num_bytes(self, place: int) -> int:
        """Size of a row."""
        return self._lengths[place]

    def content(self, place: int) -> bytes | DataError:
        """The bytes of a row, or how the list breaks off there.

        Raises:
            DataError: the file was changed since it was opened.
        """
        if self._broken is not None and place == len(self) - 1:
            return self._broken
        with self._lock:
            self._file.seek(self._offsets[place])
            content = self._file.read(self._lengths[place])
        if xxhash.xxh3_64_intdigest(content) != int(self.digests[place]):
            raise DataError(
                "the data file was changed while it was in use", where=self.where(place), remedy="start again"
            )
        return content

    def row(self, place: int) -> Row | DataError:
        """The row at a place, or what is wrong with its line."""
        return parse(self.content(place), where=self.where(place))

    def __iter__(self) -> Iterator[Row | DataError]:
        return (self.row(place) for place in range(len(self)))

    def _find_rows(self, digests: array) -> bool:
        """Fill the columns; True where the file holds one list."""
        offset, number = 0, 0
        for content in self._file:
            start = len(BOM) if number == 0 and content.startswith(BOM) else 0
            # A file of another system may end its lines with a carriage return alone.
            lines = content[start:].splitlines(keepends=True) if b"\r" in content else [content[start:]]
            offset += start
            for line in lines:
                number += 1
                bare = line.strip()
                if bare and not len(self):
                    if bare.startswith(b"["):
                        self._find_items(digests)
                        return True
                    _refuse_other_kinds(self.path, bare, self._file)
                if bare:
                    row = line.rstrip(b"\r\n")
                    self._add(offset, len(row), number, xxhash.xxh3_64_intdigest(row), digests)
                offset += len(line)
        return False

    def _find_items(self, digests: array) -> None:
        """The items of a file that is one JSON list."""
        self._file.seek(0)
        content = self._file.read()
        skipped = len(BOM) if content.startswith(BOM) else 0
        try:
            text = content[skipped:].decode()
        except UnicodeDecodeError as error:
            raise _not_utf8(content, error.start + skipped, where=str(self.path)) from None
        is_ascii, decoder = text.isascii(), json.JSONDecoder()
        place = _after_space(text, _after_space(text, 0) + 1)
        offset, counted = skipped, 0  # bytes before the character number `counted`
        if text[place : place + 1] == "]":
            return
        try:
            while True:
                _, end = decoder.raw_decode(text, place)
                offset += place - counted if is_ascii else len(text[counted:place].encode())
                length = end - place if is_ascii else len(text[place:end].encode())
                digest = xxhash.xxh3_64_intdigest(content[offset : offset + length])
                self._add(offset, length, len(self), digest, digests)
                offset, counted = offset + length, end
                place = _after_space(text, end)
                if text[place : place + 1] != ",":
                    break
                place = _after_space(text, place + 1)
            if text[place : place + 1] != "]":
                raise json.JSONDecodeError("Expecting ',' or ']'", text, place)
            if _after_space(text, place + 1) != len(text):
                raise json.JSONDecodeError("Extra data", text, _after_space(text, place + 1))
        except (ValueError, RecursionError) as error:
            self._broken = broken_json(error, where=str(self.path))
            self._add(offset, 0, len(self), xxhash.xxh3_64_intdigest(str(self._broken).encode()), digests)

    def _add(self, offset: int, length: int, number: int, digest: int, digests: array) -> None:
        self._offsets.append(offset)
        self._lengths.append(length)
        self._lines.append(number)
        digests.append(digest)


def read_rows(path: str | Path) -> Iterator[Row]:
    """Every row of a file, before any check of its fields.

    Raises:
        DataError: an unreadable file or line.
    """
    for row in RowFile(path):
        if isinstance(row, DataError):
            raise row
        yield row


def parse(content: bytes | DataError, *, where: str) -> Row | DataError:
    """The row in the bytes of a line, or what is wrong with them."""
    if isinstance(content, DataError):
        return content
    try:
        text = content.decode()
        fields = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # halves of characters, which no file and no tokenizer can take
            json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        return _not_utf8(content, error.start, where=where)
    except UnicodeEncodeError as error:
        half = f"half a character, \\u{ord(error.object[error.start]):x}"
        return DataError(half, where=where, remedy="write the whole character, or leave it out")
    except (ValueError, RecursionError) as error:
        return broken_json(error, where=where)
    if isinstance(fields, dict):
        return Row(where, fields)
    return no_object(fields, where=where)


def no_object(value: Any, *, where: str) -> DataError:
    """The error of a line or an item that is no JSON object."""
    remedy = 'such as {"problem": "..", "problem_type": "..", "answer": ".."}'
    return DataError(f"a row is a JSON object, got {type(value).__name__}", where=where, remedy=remedy)


def open_plain(path: Path) -> IO[bytes]:
    """The file, or its content where it is gzipped."""
    if path.is_dir():
        raise foreign_file(path, b"") or DataError("a folder stands where a data file is expected", where=str(path))
    file = path.open("rb")
    if file.read(len(GZIP)) != GZIP:
        file.seek(0)
        return file
    file.seek(0)
    plain = tempfile.TemporaryFile()  # noqa: SIM115 - it is open as long as the rows are
    try:
        with file, gzip.open(file) as packed:
            while block := packed.read(COPY_BYTES):
                plain.write(block)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"damaged gzip file: {error}", where=str(path), remedy="get the file again") from None
    plain.seek(0)
    return plain


def _refuse_other_kinds(path: Path, line: bytes, file: IO[bytes]) -> None:
    """Raise where the first line shows that the file holds no rows of JSON, or one object that is spread over lines."""
    foreign = foreign_file(path, line)
    if foreign is not None:
        raise foreign
    if not line.startswith(b"{") or line.endswith(b"}"):
        return
    place = file.tell()
    file.seek(0)
    whole = parse(file.read().removeprefix(BOM), where=str(path))
    file.seek(place)
    if isinstance(whole, Row):
        raise DataError(
            f"one JSON object with the keys {', '.join(list(whole.fields)[:4])}, where rows are expected",
            where=str(path),
            remedy=f"write a list of objects, or try: {convert_command(path)}",
        )


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    assert match is not None, place
    return match.end()


def _not_utf8(content: bytes, start: int, *, where: str) -> DataError:
    line = content.count(b"\n", 0, start) + 1
    place = f"line {line}, byte {start}" if line > 1 else f"byte {start}"
    return DataError(f"not UTF-8 text at {place}", where=where, remedy="save the file as UTF-8")


def broken_json(error: ValueError | RecursionError, *, where: str) -> DataError:
    """What the decoder found wrong, in words."""
    if isinstance(error, RecursionError):
        return DataError("broken JSON: nested too deeply", where=where, remedy=REMEDY)
    if not isinstance(error, json.JSONDecodeError):
        return DataError("broken JSON: a number of thousands of digits", where=where, remedy=REMEDY)
    line = f"line {error.lineno}, " if error.lineno > 1 else ""
    rest = error.doc[error.pos :].lstrip()
    remedy = REMEDY
    if error.msg == "Extra data" and rest.startswith("{"):
        remedy = "two rows on one line: begin a new line for each"
    elif rest.startswith("'") and "property name" in error.msg:
        remedy = "this is Python's notation: write the row with json.dumps"
    return DataError(f"broken JSON: {error.msg} at {line}column {error.colno}", where=where, remedy=remedy)
