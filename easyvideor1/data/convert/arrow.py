"""Parquet and Arrow files (pyarrow), a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

from easyvideor1.errors import DataError

BATCH_ROWS = 64
"""Rows may hold whole pictures."""
ARROW_FILE, PARQUET = b"ARROW1", b"PAR1"


def read_container(path: Path) -> Iterator[dict[str, Any]]:
    """Every row as plain values; what a table fills up with nulls is left out.

    Raises:
        DataError: the file is damaged or of another kind.
    """
    try:
        with path.open("rb") as file:
            head = file.read(8)
        for batch in _batches(path, head):
            for fields in batch.to_pylist():
                yield {name: without_nulls(value) for name, value in fields.items() if value is not None}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"cannot be read: {reason}", where=str(path), remedy="get the file again") from None


def _batches(path: Path, head: bytes) -> Iterator[pa.RecordBatch]:
    if head.startswith(PARQUET):
        yield from pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=BATCH_ROWS)
    elif head.startswith(ARROW_FILE):
        reader = pyarrow.ipc.open_file(pa.memory_map(str(path)))
        for number in range(reader.num_record_batches):
            yield from _slices(reader.get_batch(number))
    else:
        for batch in pyarrow.ipc.open_stream(pa.memory_map(str(path))):
            yield from _slices(batch)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, BATCH_ROWS) for start in range(0, batch.num_rows, BATCH_ROWS))


def without_nulls(value: Any) -> Any:
    """A value without the keys that a table gave every object because one of them had it.

    >>> without_nulls([{"type": "text", "text": "What?", "video": None}])
    [{'type': 'text', 'text': 'What?'}]
    """
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
