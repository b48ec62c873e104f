"""`easyvideor1 cache gc DIR`: make room, by last use, by size, or by the frame settings that entries were made for."""

from __future__ import annotations

import argparse
from pathlib import Path

from easyvideor1.errors import UsageError
from easyvideor1.video import settings_upkeep, upkeep

SIZE_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def add_arguments(gc: argparse.ArgumentParser) -> None:
    gc.add_argument(
        "--max-bytes",
        type=size_bytes,
        metavar="N",
        help="keep at most this much, e.g. 500G, by last use",
    )
    gc.add_argument(
        "--unused-days", "--older-than", type=float, metavar="D", help="remove entries not used for this many days"
    )
    gc.add_argument("--settings", action="store_true", help="only list the frame settings that entries were made for")
    gc.add_argument(
        "--delete", action="append", default=[], metavar="WORDS", help="remove a setting, e.g. 'fps=2 max_frames=128'"
    )
    gc.add_argument("--keep", action="append", default=[], metavar="WORDS", help="keep a setting and remove all others")
    gc.add_argument("--yes", action="store_true", help="remove what --delete and --keep choose, not only list it")


def collect(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """What was removed, or would be."""
    if not (args.settings or args.delete or args.keep):
        return upkeep.collect_garbage(folder, max_bytes=args.max_bytes, unused_days=args.unused_days)
    if args.max_bytes is not None:
        raise UsageError(
            "--max-bytes goes by last use over all settings; run it without --settings, --delete and --keep"
        )
    is_dry = args.settings or not args.yes
    found = settings_upkeep.remove_by_setting(
        folder, delete=args.delete, keep=args.keep, unused_days=args.unused_days, is_dry=is_dry
    )
    if found["chosen_entries"] and is_dry and not args.json:
        print("nothing is removed yet; the same command with --yes removes the chosen entries")
    return found


def size_bytes(text: str) -> int:
    """Number of bytes that a text such as "500G" means.

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
