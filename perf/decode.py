"""What does decoding cost? `python -m perf.decode`

Clips made of a real one (30 s, 3 min and 10 min of 720p H.264, 30 s of HEVC and AV1, 10 s of 4K), each decoded, sampled
and resized by us and by `qwen_vl_utils.fetch_video` with its fastest reader, by turns in one run, each side in a
process of its own. Ratios are of CPU seconds (all threads), ours / theirs, of the medians.

Needs what `perf.data_path` needs. The last line is JSON:
    decode_ratio     by clip
    peak_mb          most memory of ours above its start, by clip, in a process that has decoded nothing before
    kept_mb          the frames that are kept, part of that peak
    plan_cpu_ms      planning the file for the first time in a process that has planned another one
A 20-minute clip is decoded by us alone: its memory counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perf.clips import LONGEST, real_clips, repeated
from perf.data_path import Sides, Work


@dataclass(frozen=True, kw_only=True)
class Made:
    """How a clip is made of the real one."""

    duration_s: float
    codec: str = "libx264"
    size: tuple[int, int] | None = None
    is_compared: bool = True
    """Whether the other side decodes it too."""


CLIPS = {
    "h264_720p_30s": Made(duration_s=30),
    "h264_720p_3min": Made(duration_s=180),
    "h264_720p_10min": Made(duration_s=600),
    "h264_4k_10s": Made(duration_s=10, size=(3840, 2160)),
    "hevc_720p_30s": Made(duration_s=30, codec="libx265"),
    "av1_720p_30s": Made(duration_s=30, codec="libsvtav1"),
    "h264_720p_20min": Made(duration_s=1200, is_compared=False),
}
MB = 1e6


def measure(sides: Sides, name: str, work: Work, *, rounds: int, is_compared: bool) -> dict[str, float]:
    """Figures of one clip; the first round warms both sides up and gives the peak."""
    source = real_clips()["carphone_pristine"]
    sides.restart()
    sides.ask("ours", "plan", work=Work(video=source, folder=work.folder))
    plan = sides.ask("ours", "plan", work=work)
    first = sides.ask("ours", "decode", work=work)
    for number in range(rounds + 1):
        if number and is_compared:
            sides.note(name, "theirs", sides.ask("theirs", "on_the_fly", work=work, keep=False)[0])
        if number:
            sides.note(name, "ours", sides.ask("ours", "decode", work=work))
        elif is_compared:
            sides.ask("theirs", "on_the_fly", work=work, keep=False)
    planned = work.plan
    figures = {
        "plan_cpu_ms": 1e3 * plan.cpu_s,
        "peak_mb": first.peak_bytes / MB,
        "kept_mb": len(planned.times_s) * 3 * planned.height * planned.width / MB,
        "our_cpu_s": sides.cpu(name, "ours"),
    }
    if is_compared:
        figures["their_cpu_s"] = sides.cpu(name, "theirs")
        figures["decode_ratio"] = figures["our_cpu_s"] / figures["their_cpu_s"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds, after one to warm up")
    parser.add_argument("--clips", nargs="*", default=list(CLIPS), choices=CLIPS, metavar="CLIP", help=", ".join(CLIPS))
    parser.add_argument("--dir", help="folder for files (default: a temporary one)")
    args = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=args.dir) as temporary:
        sides = Sides()
        try:
            for name in args.clips:
                made, video = CLIPS[name], Path(temporary) / f"{name}.mp4"
                source = real_clips()[LONGEST.removesuffix(".mp4")]
                repeated(source, video, duration_s=made.duration_s, codec=made.codec, size=made.size)
                work = Work(video=video, folder=Path(temporary))
                found[name] = measure(sides, name, work, rounds=args.rounds, is_compared=made.is_compared)
                print(name, "  ".join(f"{what} {value:.4g}" for what, value in found[name].items()), flush=True)
                video.unlink()
        finally:
            sides.close()
    keys = ("decode_ratio", "peak_mb", "kept_mb", "plan_cpu_ms")
    columns = {key: {name: figures[key] for name, figures in found.items() if key in figures} for key in keys}
    print(json.dumps({"benchmark": "decode", "rounds": args.rounds, **columns}))


if __name__ == "__main__":
    main()
