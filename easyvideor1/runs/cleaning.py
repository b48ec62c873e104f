"""`easyvideor1 data clean`: the rows that can be used, written to a file of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.config import Settings
from easyvideor1.config_data import SourceConfig
from easyvideor1.data.check import CheckedData, CheckedFile
from easyvideor1.data.media_check import VerdictFile
from easyvideor1.data.media_fields import rebased
from easyvideor1.data.rows import Row
from easyvideor1.data.samples import renamed, repeated_ids
from easyvideor1.errors import DataError, UsageError
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.checking import examine
from easyvideor1.runs.converting import rejected_path


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """The result of cleaning data files."""

    num_good: int
    num_rejected: int
    num_renamed: int
    """Good rows whose id other rows had too."""
    rejected: Path
    """File of the rejected rows; written only if there are any."""


def clean(
    sources: Sequence[SourceConfig], settings: Settings, out: Path, *, verdicts: Path | None = None, workers: int
) -> Cleaned:
    """Write the rows that can be used, with unique ids and media paths that start from the new file's folder.

    The others are listed with what is wrong with them in a file beside it.

    Args:
        verdicts: as of `check_files`.

    Raises:
        DataError: a file cannot be read at all.
        UsageError: `out` is one of the files, or cannot be written; contradicting settings.
    """
    for source in sources:
        if out.exists() and Path(source.path).exists() and out.samefile(source.path):
            raise UsageError(f"--out {out} is one of the data files; name another file")
    known = VerdictFile(verdicts or Path(f"{sources[0].path}.verdicts.jsonl"))
    with RewardPool.from_config(settings.reward, thinking=False, max_response_tokens=0) as rewards:
        found = examine(sources, settings, rewards, known=known, workers=workers)
    bad = {(id(file), place) for file, place in found.bad_rows()}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        num_good = _write(out, _good_lines(found, out))
        rejected = rejected_path(out)
        if bad:
            _write(rejected, (_rejection(file, place) for file, place in found.bad_rows()))
        else:
            rejected.unlink(missing_ok=True)  # of an earlier run
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
    repeated = repeated_ids(id_ for file in found.files for id_ in file.columns.ids if id_)
    num_renamed = sum(
        file.columns.ids[place] in repeated
        for file in found.files
        for place in range(len(file.rows))
        if (id(file), place) not in bad
    )
    return Cleaned(num_good=num_good, num_rejected=len(bad), num_renamed=num_renamed, rejected=rejected)


def _good_lines(data: CheckedData, out: Path) -> Iterator[str]:
    """The line of each row that can be used, as it was where nothing has to change."""
    new_root = out.parent.resolve()
    for number, place in data.places():
        file = data.files[number]
        row = file.rows.row(place)
        if isinstance(row, DataError):
            raise row
        root = Path(file.source.media_root or Path(file.source.path).parent).resolve()
        fields = renamed(row.fields, file.ids[place])
        if root != new_root:
            fields = rebased(fields, old_root=root, new_root=new_root)
        yield _json(fields)


def _rejection(file: CheckedFile, place: int) -> str:
    row, where = file.rows.row(place), file.rows.where(place)
    reasons = [str(fault.error("")) for fault in file.faults(place)]
    line: dict[str, Any] = {"where": where, "id": file.ids[place], "reasons": reasons}
    if isinstance(row, Row):
        return _json(line | {"row": row.fields})
    content = file.rows.content(place)
    return _json(line if isinstance(content, DataError) else line | {"text": content.decode(errors="backslashreplace")})


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, lines: Iterator[str]) -> int:
    """Write lines in one step; returns how many."""
    draft, count = path.with_name(f".{path.name}.part"), 0
    try:
        with draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for line in lines:
                file.write(line + "\n")
                count += 1
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    return count
