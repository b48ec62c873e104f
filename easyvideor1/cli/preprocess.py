"""`easyvideor1 preprocess DATA.. --cache DIR`: decode every video of a data set once, ahead of training."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from easyvideor1.cli.settings import add_settings, add_worker_arguments, data_sources, read_settings
from easyvideor1.runs.preprocessing import Preprocessed, Workers, counts, preprocess

EXAMPLES = ("easyvideor1 preprocess demo-run/data/train.jsonl --cache frames data.video.max_frames=8",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Decode, sample and resize every distinct video and image of a data set into the frame cache. "
        "Run the same command again after an interruption: what is stored is reused."
    )
    add_settings(parser)
    parser.add_argument("--shard", metavar="I/N", help="do only the I-th of N equal parts, I from 1 (job arrays)")
    parser.add_argument("--ray", nargs="?", const="", metavar="ADDRESS", help="run on a Ray cluster (extra: ray)")
    parser.add_argument("--failed", metavar="FILE", help="where failures are written (default: failed.jsonl in DIR)")
    parser.add_argument("--json", action="store_true", help="print the summary as one line of JSON")
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Returns 0 if every medium is in the cache, 1 if some failed."""
    settings = read_settings(args)
    done = preprocess(
        data_sources(args, settings),
        settings,
        workers=Workers(processes=args.workers, ray=args.ray),
        shard=args.shard,
        failed_file=Path(args.failed) if args.failed else None,
    )
    if args.json:
        print(json.dumps(done.as_values()))
    else:
        _print(done)
    return 1 if done.summary.failed else 0


def _print(done: Preprocessed) -> None:
    found = done.summary
    pace = f"{found.decoded_s:.0f} s of media in {done.wall_s:.1f} s" if found.done else f"{done.wall_s:.1f} s"
    print(f"{counts(found)}; {found.written_bytes / 1e6:.1f} MB written; {pace}")
    if found.evicted:
        print(f"warning: {found.evicted} entries were removed again; cache.max_bytes is too small for these data")
    if found.failed:
        print(f"reasons: {done.failed_file}")
