"""`easyvideor1 cache stats|verify|gc|export DIR`: look after a frame cache; `cache import` fills it with frames that
EasyVideoR1 stored."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from easyvideor1.cli import cache_gc
from easyvideor1.cli.settings import add_settings, add_worker_arguments, data_sources, read_settings
from easyvideor1.errors import UsageError
from easyvideor1.video import upkeep
from easyvideor1.video.codecs import CODECS

EXAMPLES = ("easyvideor1 cache stats demo-run/cache",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    stats = actions.add_parser("stats", help="count entries and bytes, by codec")
    verify = actions.add_parser("verify", help="compare every entry with its checksum; exit code 1 if one is damaged")
    verify.add_argument(
        "--remove", action="store_true", help="remove damaged entries; they are decoded again when needed"
    )
    gc = actions.add_parser("gc", help="remove leftovers of killed writers, and entries by age, size or setting")
    cache_gc.add_arguments(gc)
    export = actions.add_parser("export", help="copy the entries into another cache folder, packed in another way")
    export.add_argument("--out", required=True, metavar="DIR", help="the other folder")
    export.add_argument(
        "--codec", choices=list(CODECS), default="raw", help="how frames are packed there (default: raw)"
    )
    importing = actions.add_parser("import", help="take over frames that EasyVideoR1 stored as .pt files")
    importing.add_argument("folder", type=Path, metavar="PT_DIR", help="folder that `preprocessed_video` starts from")
    add_settings(importing)
    importing.add_argument("--data", action="append", default=[], metavar="FILE", help="data file; may be repeated")
    importing.add_argument("--json", action="store_true", help="print one line of JSON")
    add_worker_arguments(importing)
    for action in (stats, verify, gc, export):
        action.add_argument("dir", metavar="DIR", help="folder of the frame cache")
        action.add_argument("--json", action="store_true", help="print one line of JSON")


def run(args: argparse.Namespace) -> int:
    """Returns 1 if a damaged entry was found and kept."""
    if args.action == "import":
        return _import(args)
    folder = Path(args.dir)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such cache folder")
    match args.action:
        case "stats":
            result = upkeep.stats(folder)
        case "verify":
            result = upkeep.verify(folder, remove=args.remove)
        case "gc":
            result = cache_gc.collect(args, folder)
        case _:
            result = upkeep.export(folder, Path(args.out), codec=args.codec)
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name.replace('_', ' ')}: {_readable(name, value)}")
    return 1 if args.action == "verify" and result["damaged"] and not args.remove else 0


def _import(args: argparse.Namespace) -> int:
    """Returns 1 where frames could not be taken over."""
    from easyvideor1.runs.taking_over import take_over

    args.words = [*args.words, *args.data]
    settings = read_settings(args)
    done = take_over(data_sources(args, settings), settings, args.folder, workers=args.workers)
    if args.json:
        print(json.dumps(asdict(done)))
    else:
        print(
            f"{done.rows} rows name stored frames: {done.imported} files taken over, {done.reused} were there already, "
            f"{len(done.failed)} failed; {done.gone} of the videos are gone, and their frames stand in for them"
        )
    return 1 if done.failed else 0


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
