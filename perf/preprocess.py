"""How does `easyvideor1 preprocess` scale over worker processes? `python -m perf.preprocess`

Some 30-second clips of 720p H.264, each in the data file many times, go into an empty cache with one worker and with
two, by turns; start-up counts. The last line is JSON:
    wall_speedup   time with one worker / with two, of the medians; says little on a busy machine
    cpu_speedup    2 * CPU seconds with one worker / with two: what two free cores would give
    decodes        entries written per run, to compare with the number of clips
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perf.clips import LONGEST, real_clips, repeated

ROWS_PER_CLIP = 50


def write_data(folder: Path, *, clips: int) -> Path:
    """Clips that differ in a few bytes nobody decodes, and a data file of questions about them."""
    first = repeated(real_clips()[LONGEST.removesuffix(".mp4")], folder / "first.mp4", duration_s=30)
    rows = []
    for number in range(clips):
        path = shutil.copy(first, folder / f"{number}.mp4")
        with open(path, "ab") as file:
            file.write(b"\0\0\0\x0cfree" + number.to_bytes(4, "big"))
        question = {"problem": "<video>Who?", "answer": "1", "problem_type": "numerical", "videos": [f"{number}.mp4"]}
        rows += [question | {"problem_id": f"{number}-{row}"} for row in range(ROWS_PER_CLIP)]
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return data


def preprocess(data: Path, cache: Path, *, workers: int) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds of all processes, entries written."""
    command = [sys.executable, "-m", "easyvideor1", "preprocess", str(data), "--cache", str(cache)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, "--workers", str(workers)], check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    entries = len(list(cache.rglob("*.safetensors")))
    shutil.rmtree(cache)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    found: dict[int, list[tuple[float, float, int]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = write_data(folder, clips=args.clips)
        for _ in range(args.rounds):
            for workers, runs in found.items():
                runs.append(preprocess(data, folder / "cache", workers=workers))
                print(
                    f"{workers} workers: {runs[-1][0]:.1f} s, {runs[-1][1]:.1f} CPU s, {runs[-1][2]} entries",
                    flush=True,
                )
    wall_s, cpu_s = (
        {count: statistics.median(run[i] for run in runs) for count, runs in found.items()} for i in (0, 1)
    )
    result = {
        "benchmark": "preprocess",
        "wall_speedup": wall_s[1] / wall_s[2],
        "cpu_speedup": 2 * cpu_s[1] / cpu_s[2],
        "decodes": sorted({run[2] for runs in found.values() for run in runs}),
        "clips": args.clips,
        "rows": args.clips * ROWS_PER_CLIP,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
