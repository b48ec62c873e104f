"""How long does a run take before its first step? `python -m perf.start`

Rows of text, and rows over as many distinct small clips, are read and checked as `train` does it (runs/samples.py:
load_samples), each time in a fresh process: first with nothing remembered, then again. The last line is JSON; per kind:
    first_s, second_s          seconds of `load_samples` (medians of the rounds)
    first_cpu_s, second_cpu_s  CPU seconds of the process and its workers in that time
    second_from_launch_s       with the imports, the tokenizer and the reward processes, from the start of Python
    first_peak_mb, second_peak_mb   most memory of all processes together (proportional set size), imports included
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import easyvideor1
from easyvideor1.demo.clips import Scene, Thing, write_clip
from easyvideor1.recipe import load_config

MODEL = Path(easyvideor1.__file__).parent / "demo" / "model"
WORDS = ("what", "where", "when", "person", "opens", "closes", "door", "table", "red", "left", "after", "walks", "with")
SAMPLED_S = 0.25
MB = 1e6


def text_rows(count: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Questions of about 400 bytes in four types, every fourth one with options; nothing to see."""
    rng = random.Random(0)
    for number in range(count):
        kind = ("multiple choice", "numerical", "math", "open-ended")[number % 4]
        said = " ".join(rng.choices(WORDS, k=60))
        row: dict[str, Any] = {"problem_id": f"row-{number}", "problem_type": kind, "problem": f"{number}: {said}?"}
        if kind == "multiple choice":
            row["options"] = [f"{letter}. {' '.join(rng.choices(WORDS, k=4))}" for letter in "ABCD"]
        golds = {
            "multiple choice": rng.choice("ABCD"),
            "numerical": str(rng.randrange(1000)),
            "math": f"\\frac{{{rng.randrange(1, 99)}}}{{{rng.randrange(1, 99)}}}",
            "open-ended": " ".join(rng.choices(WORDS, k=5)),
        }
        yield row | {"answer": golds[kind], "data_source": "made"}


def clip_rows(count: int, folder: Path) -> Iterator[dict[str, Any]]:
    """A question about each of some clips of four seconds, which differ in a few bytes that nobody decodes."""
    ball = Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.2, dx_per_s=0.1)
    first = folder / "first.mp4"
    write_clip(Scene(things=(ball,), duration_s=4.0, background="plain", shade=60, texture_seed=0), first, side_px=64)
    content = first.read_bytes()
    for number in range(count):
        (folder / f"{number}.mp4").write_bytes(content + b"\0\0\0\x0cfree" + number.to_bytes(4, "big"))
        yield {
            "problem_id": f"clip-{number}",
            "problem": f"<video>How often does the ball turn in clip {number}?",
            "problem_type": "numerical",
            "answer": str(number % 7),
            "videos": [f"{number}.mp4"],
        }


MAKERS: dict[str, Callable[[int, Path], Iterator[dict[str, Any]]]] = {"text": text_rows, "clips": clip_rows}


def write_recipe(folder: Path, kind: str, count: int) -> Path:
    """The recipe of a run over some made rows, and the rows."""
    rows, recipe = folder / "rows.jsonl", folder / "run.yaml"
    with rows.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in MAKERS[kind](count, folder))
    tree = {
        "out": str(folder / "run"),
        "model": {"path": str(MODEL)},
        "data": {"train": [{"path": str(rows)}]},
        "cache": {"dir": str(folder / "cache")},
        "train": {"steps": 1},
    }
    recipe.write_text(json.dumps(tree))  # JSON is YAML
    return recipe


def load(recipe: str) -> dict[str, float]:
    """What `load_samples` of a run costs in this process and its workers."""
    from easyvideor1.runs.parts import opened  # imports torch, which only the measured process should pay for
    from easyvideor1.runs.samples import load_samples

    config = load_config(recipe, [])
    with opened(config) as parts:
        cpu_s, start_s = _own_cpu_s(), time.perf_counter()
        samples, _ = load_samples(config, parts, on_bad=None, check=lambda sources: None)
        wall_s = time.perf_counter() - start_s
        cpu_s = _own_cpu_s() - cpu_s
    # The workers of the check have ended by now; those of the pools that stay do nothing.
    return {"wall_s": wall_s, "cpu_s": cpu_s, "rows": len(samples)}


def _own_cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def start(recipe: Path) -> dict[str, float]:
    """One start in a fresh process."""
    launched_s = time.perf_counter()
    command = [sys.executable, "-m", "perf.start", "--load", str(recipe)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak_bytes = 0
    while process.poll() is None:
        peak_bytes = max(peak_bytes, sum(map(_proportional_bytes, _tree_of(process.pid))))
        time.sleep(SAMPLED_S)
    assert process.stdout is not None
    said = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"the start failed: {said}")
    return json.loads(said.splitlines()[-1]) | {
        "from_launch_s": time.perf_counter() - launched_s,
        "peak_mb": peak_bytes / MB,
    }


def _tree_of(pid: int) -> list[int]:
    """A process and all that it started (Linux only)."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:  # it has just ended
                continue
    return found


def _proportional_bytes(pid: int) -> int:
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def measure(kind: str, count: int, rounds: int) -> dict[str, float]:
    """Medians over first and second starts."""
    found: dict[str, list[dict[str, float]]] = {"first": [], "second": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        recipe = write_recipe(folder, kind, count)
        for _ in range(rounds):
            shutil.rmtree(folder / "cache", ignore_errors=True)
            for name, starts in found.items():
                starts.append(start(recipe))
                shown = ", ".join(f"{key} {value:.1f}" for key, value in starts[-1].items())
                print(f"{kind}, {name} start: {shown}", flush=True)
    return {
        "rows": count,
        **{
            f"{name}_{key}".removesuffix("_wall_s") + ("_s" if key == "wall_s" else ""): round(
                statistics.median(one[key] for one in starts), 2
            )
            for name, starts in found.items()
            for key in ("wall_s", "cpu_s", "from_launch_s", "peak_mb")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=int, default=200_000, metavar="ROWS")
    parser.add_argument("--clips", type=int, default=20_000, metavar="ROWS")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--load", metavar="RECIPE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        print(json.dumps(load(args.load)))
        return
    counts = {kind: count for kind, count in (("text", args.text), ("clips", args.clips)) if count}
    print(json.dumps({"benchmark": "start"} | {kind: measure(kind, n, args.rounds) for kind, n in counts.items()}))


if __name__ == "__main__":
    main()
