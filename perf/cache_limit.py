"""What a limit on the size of a frame cache costs a write: a large cache, writes with and without `max_bytes` in turn.

python -m perf.cache_limit [--entries 50000] [--writes 200] [--dir DIR]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan
from easyvideor1.video.cache import FrameCache

SHAPE = (4, 3, 64, 64)
LIMIT_BYTES = 10**12


def key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def plan_of(name: str) -> MediaPlan:
    return MediaPlan(
        media=Media(kind="video", path=name),
        times_s=(0.0, 0.5, 1.0, 1.5),
        height=64,
        width=64,
        grid_thw=(2, 4, 4),
        num_tokens=8,
        spec=FrameSpec(),
        source_fps=2.0,
        duration_s=2.0,
        cache_key=key(name),
    )


def fill(dir: Path, num_entries: int) -> None:
    for number in range(256):
        (dir / f"{number:02x}").mkdir()
    for number in range(num_entries):
        name = key(f"old {number}")
        (dir / name[:2] / f"{name}.raw.v1.safetensors").write_bytes(bytes(1000))


def write_s(dir: Path, name: str, max_bytes: int | None, clip: Clip) -> float:
    """One clip, as a preprocessing worker stores it: the cache is opened for it."""
    started = time.perf_counter()
    FrameCache(dir, max_bytes=max_bytes, decode=lambda plan: clip).load(plan_of(name))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--dir", help="folder to make the cache in (default: the system's temporary folder)")
    args = parser.parse_args()
    clip = Clip(
        frames=np.zeros(SHAPE, np.uint8), times_s=(0.0, 0.5, 1.0, 1.5), source_fps=2.0, duration_s=2.0, backend="none"
    )
    root = Path(tempfile.mkdtemp(dir=args.dir))
    try:
        fill(root, args.entries)
        times_s: dict[int | None, list[float]] = {None: [], LIMIT_BYTES: []}
        for number in range(args.writes):
            for limit, found in times_s.items():
                found.append(write_s(root, f"{number} {limit}", limit, clip))
    finally:
        shutil.rmtree(root)
    sums = {limit: sum(found) for limit, found in times_s.items()}
    result = {
        "entries": args.entries,
        "writes": args.writes,
        "median_ms": round(1e3 * statistics.median(times_s[None]), 3),
        "median_with_limit_ms": round(1e3 * statistics.median(times_s[LIMIT_BYTES]), 3),
        "first_with_limit_ms": round(1e3 * times_s[LIMIT_BYTES][0], 3),
        "ratio": round(sums[LIMIT_BYTES] / sums[None], 3),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
