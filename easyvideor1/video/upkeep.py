"""Maintenance of a frame cache: contents, damaged entries, entries to remove, copies in another codec."""

from __future__ import annotations

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.video.cache import ENTRY_NAME, Entry, entries, evict, remove_abandoned
from easyvideor1.video.clip_file import FORMAT, DamagedClip, read_tensors
from easyvideor1.video.codecs import codec_named, codec_of_file
from easyvideor1.video.origins import HEADER_NAME, Origins, read_made_of

DAY_S = 86_400.0


def stats(folder: Path) -> dict[str, object]:
    """Entries, bytes and times of use, in all and by codec."""
    stored = list(entries(folder))
    by_codec: dict[str, Counter[str]] = {}
    for entry in stored:
        counts = by_codec.setdefault(_codec_name(entry), Counter())
        counts.update(entries=1, bytes=entry.size_bytes)
    now_s = time.time()
    return {
        "entries": len(stored),
        "bytes": sum(entry.size_bytes for entry in stored),
        "by_codec": {name: dict(counts) for name, counts in sorted(by_codec.items())},
        "other_format": sum(not _is_current(entry) for entry in stored),
        "unused_for_days_max": round(max(((now_s - entry.used_at_s) / DAY_S for entry in stored), default=0.0), 3),
    }


def verify(folder: Path, *, remove: bool) -> dict[str, object]:
    """Read every byte of every entry of this version's format; with `remove`, damaged ones go."""
    stored = sorted((entry for entry in entries(folder) if _is_current(entry)), key=lambda entry: entry.path)
    with ThreadPoolExecutor(usable_cores()) as threads:
        reasons = list(threads.map(_damage, stored))
    damaged = {str(entry.path): reason for entry, reason in zip(stored, reasons, strict=True) if reason}
    if remove:
        for path in damaged:
            Path(path).unlink(missing_ok=True)
    size = sum(entry.size_bytes for entry in stored)
    return {"entries": len(stored), "bytes": size, "damaged": damaged, "removed": len(damaged) if remove else 0}


def collect_garbage(folder: Path, *, max_bytes: int | None, unused_days: float | None) -> dict[str, object]:
    """Make room; what is mapped somewhere stays readable there."""
    leftovers = remove_abandoned(folder)
    oldest_s = time.time() - unused_days * DAY_S if unused_days is not None else float("-inf")
    # Entries of another format version are never read again.
    useless = [entry for entry in entries(folder) if not _is_current(entry) or entry.used_at_s < oldest_s]
    for entry in useless:
        entry.path.unlink(missing_ok=True)
    removed, left_bytes = len(useless), sum(entry.size_bytes for entry in entries(folder))
    Origins(folder).remove_gone({_key(entry) for entry in entries(folder)})
    if max_bytes is not None:
        evicted, left_bytes = evict(folder, max_bytes=max_bytes)
        removed += evicted
    return {"removed_entries": removed, "removed_leftovers": leftovers, "bytes": left_bytes}


def export(folder: Path, out: Path, *, codec: str) -> dict[str, object]:
    """Copy entries, repacked.

    Raises:
        DataError: a damaged entry, or a lossy one that would be passed off as exact.
        UsageError: the other folder cannot be written.
    """
    packing = codec_named(codec)
    written, copied = 0, 0
    for entry in sorted(entries(folder), key=lambda entry: entry.path):
        if not _is_current(entry):
            continue
        source = codec_of_file(entry.path)
        if packing is not source and not source.is_lossless:
            raise DataError(
                f"its codec {source.name} is lossy; as {packing.name} it would pass for exact frames",
                where=str(entry.path),
                remedy="export with --codec jpeg, or preprocess again",
            )
        target = out / entry.path.parent.name / f"{_key(entry)}.{packing.name}.v{FORMAT}.safetensors"
        if not target.exists():
            clip, made = source.read(entry.path), read_made_of(entry.path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                written += packing.write(target, clip, extra={HEADER_NAME: made.text} if made else None)
                if made is not None:
                    Origins(out).note(made, _key(entry))
            except OSError as error:
                raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from None
            copied += 1
    return {"copied_entries": copied, "written_bytes": written}


def _damage(entry: Entry) -> str | None:
    try:
        read_tensors(entry.path)
    except DamagedClip as damage:
        return damage.problem
    except FileNotFoundError:
        return None  # evicted since it was listed
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def _is_current(entry: Entry) -> bool:
    return entry.path.name.endswith(f".v{FORMAT}.safetensors")


def _codec_name(entry: Entry) -> str:
    return _named(entry)["codec"]


def _key(entry: Entry) -> str:
    return _named(entry)["key"]


def _named(entry: Entry) -> re.Match[str]:
    match = ENTRY_NAME.fullmatch(entry.path.name)
    assert match is not None, entry.path
    return match
