"""`easyvideor1 cache stats|verify|gc|export DIR`: look after a frame cache."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.video.cache import ENTRY_NAME, Entry, entries, evict, remove_abandoned
from easyvideor1.video.clip_file import FORMAT, DamagedClip, read_tensors
from easyvideor1.video.codecs import CODECS, codec_named, codec_of_file

SIZE_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
DAY_S = 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    stats = actions.add_parser("stats", help="how many entries of which kind and size")
    verify = actions.add_parser("verify", help="compare every entry with its checksum; exit code 1 if one is damaged")
    verify.add_argument(
        "--remove", action="store_true", help="remove damaged entries; they are decoded again when needed"
    )
    gc = actions.add_parser("gc", help="remove leftovers of killed writers, and entries by age or total size")
    gc.add_argument(
        "--max-bytes", type=size_bytes, metavar="N", help="keep at most this much, e.g. 500G (oldest use goes first)"
    )
    gc.add_argument("--unused-days", type=float, metavar="D", help="remove entries not used for this many days")
    export = actions.add_parser("export", help="copy the entries into another cache folder, packed in another way")
    export.add_argument("--out", required=True, metavar="DIR", help="the other folder")
    export.add_argument(
        "--codec", choices=list(CODECS), default="raw", help="how frames are packed there (default: raw)"
    )
    for action in (stats, verify, gc, export):
        action.add_argument("dir", metavar="DIR", help="folder of the frame cache")
        action.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Returns 1 if a damaged entry was found and kept."""
    if not Path(args.dir).is_dir():
        raise UsageError(f"{args.dir}: no such cache folder")
    action = {"stats": stats, "verify": verify, "gc": gc, "export": export}[args.action]
    result = action(args)
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' ')}: {_readable(name, value)}")
    return 1 if args.action == "verify" and result["damaged"] and not args.remove else 0


def stats(args: argparse.Namespace) -> dict[str, object]:
    """Entries, bytes and times of use, in all and by codec."""
    stored = list(entries(args.dir))
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


def verify(args: argparse.Namespace) -> dict[str, object]:
    """Read every byte of every entry of this version's format."""
    stored = sorted((entry for entry in entries(args.dir) if _is_current(entry)), key=lambda entry: entry.path)
    with ThreadPoolExecutor(usable_cores()) as threads:
        reasons = list(threads.map(_damage, stored))
    damaged = {str(entry.path): reason for entry, reason in zip(stored, reasons, strict=True) if reason}
    if args.remove:
        for path in damaged:
            Path(path).unlink(missing_ok=True)
    size = sum(entry.size_bytes for entry in stored)
    return {"entries": len(stored), "bytes": size, "damaged": damaged, "removed": len(damaged) if args.remove else 0}


def gc(args: argparse.Namespace) -> dict[str, object]:
    """Make room; what is mapped somewhere stays readable there."""
    leftovers = remove_abandoned(args.dir)
    stored = list(entries(args.dir))
    oldest_s = time.time() - args.unused_days * DAY_S if args.unused_days is not None else float("-inf")
    # Entries of another format version are never read again.
    useless = [entry for entry in stored if not _is_current(entry) or entry.used_at_s < oldest_s]
    for entry in useless:
        entry.path.unlink(missing_ok=True)
    removed, left_bytes = len(useless), sum(entry.size_bytes for entry in entries(args.dir))
    if args.max_bytes is not None:
        evicted, left_bytes = evict(args.dir, max_bytes=args.max_bytes)
        removed += evicted
    return {"removed_entries": removed, "removed_leftovers": leftovers, "bytes": left_bytes}


def export(args: argparse.Namespace) -> dict[str, object]:
    """Copy entries, repacked.

    Raises:
        DataError: a damaged entry, or a lossy one that would be passed off as exact.
    """
    codec = codec_named(args.codec)
    written, copied = 0, 0
    for entry in sorted(entries(args.dir), key=lambda entry: entry.path):
        if not _is_current(entry):
            continue
        source = codec_of_file(entry.path)
        if codec is not source and not source.is_lossless:
            raise DataError(
                f"its codec {source.name} is lossy; as {codec.name} it would pass for exact frames",
                where=str(entry.path),
                remedy="export with --codec jpeg, or preprocess again",
            )
        match = ENTRY_NAME.fullmatch(entry.path.name)
        assert match is not None
        target = Path(args.out) / entry.path.parent.name / f"{match['key']}.{codec.name}.v{FORMAT}.safetensors"
        if not target.exists():
            clip = source.read(entry.path)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                written += codec.write(target, clip)
            except OSError as error:
                raise UsageError(f"--out {args.out}: cannot be written: {error.strerror}") from None
            copied += 1
    return {"copied_entries": copied, "written_bytes": written}


def size_bytes(text: str) -> int:
    """Bytes of "500G" and its kin.

    >>> size_bytes("1.5G"), size_bytes("200MB"), size_bytes("12")
    (1500000000, 200000000, 12)
    """
    number = text.upper().removesuffix("B")
    unit = number[-1:] if number[-1:] in SIZE_UNITS else ""
    try:
        size = int(float(number.removesuffix(unit)) * SIZE_UNITS[unit])
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise argparse.ArgumentTypeError(f"a size is a number >= 0 with K, M, G or T, got '{text}'")
    return size


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
    match = ENTRY_NAME.fullmatch(entry.path.name)
    assert match is not None
    return match["codec"]


def _readable(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return "".join(f"\n  {key}: {_listed(item)}" for key, item in value.items()) or "none"
    if name.endswith("bytes") and isinstance(value, int):
        return f"{value / 1e6:.1f} MB"
    return str(value)


def _listed(item: object) -> str:
    if isinstance(item, Mapping):
        return ", ".join(f"{name} {_readable(name, value)}" for name, value in item.items())
    return str(item)
