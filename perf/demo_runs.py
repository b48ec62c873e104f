"""Runs the CPU demo many times and tabulates validation accuracy before and after: seeds, controls, algorithms.

    python -m perf.demo_runs --out runs/demo grpo:0 grpo:1 grpo:2 lr0:0 shuffled:0 dapo:0 cold-grpo:0

A run is NAME:SEED. NAME is an algorithm, or a control: `lr0` (learning rate 0), `shuffled` (each training question
gets the gold answer of another one of its type and number of options). `cold-NAME` starts from `--cold-model`, which
never learnt the asked form. luffy, sft and `offline-ALGORITHM` put the trajectories of `--offline` into the groups.
Finished runs are not run again. The last line is JSON: {"runs": {NAME:SEED: {"greedy": [before, after], ..}}}.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from easyvideor1.demo.setup import write_data
from easyvideor1.report.read import read_metrics

NEED_OFFLINE = ("luffy", "sft")


def shuffle_gold(path: Path, *, seed: int) -> None:
    """Deal the answers of a data file anew among the rows of the same type and number of options."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    groups = defaultdict(list)
    for row in rows:
        groups[row["problem_type"], len(row["options"])].append(row)
    rng = random.Random(seed)
    for members in groups.values():
        answers = [row["answer"] for row in members]
        rng.shuffle(answers)
        for row, answer in zip(members, answers, strict=True):
            row["answer"] = answer
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def overrides(name: str, args: argparse.Namespace) -> list[str]:
    """The recipe's values that a run changes."""
    words = list(args.set)
    if name == "lr0":
        return [*words, "optimizer.learning_rate=0"]
    if name == "shuffled":
        return words
    algorithm = name.removeprefix("cold-").removeprefix("offline-")
    words.append(f"algorithm.name={algorithm}")
    if name.startswith("cold-"):
        words += [f"model.path={args.cold_model}", "train.stop.zero_reward_steps=0"]
    if algorithm in NEED_OFFLINE or "offline-" in name:
        words += ["offline.enable=true", f"offline.source={args.offline}"]
    return words


def run(spec: str, args: argparse.Namespace) -> dict[str, list[float]]:
    """Run one demo if it has not finished; validation figures before and after."""
    name, _, seed = spec.partition(":")
    out = args.out / f"{name}-{seed}"
    if not (out / "report.html").exists():
        data = out / "data"
        if not (data / "seed.txt").exists():
            write_data(out, seed=int(seed))
            if name == "shuffled":
                shuffle_gold(data / "train.jsonl", seed=int(seed))
        command = [sys.executable, "-m", "easyvideor1", "demo", "--out", str(out), "--seed", seed]
        with (args.out / f"{name}-{seed}.log").open("w") as log:
            subprocess.run(
                [*command, *overrides(name, args)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                check=True,
            )
    return figures(out)


def figures(out: Path) -> dict[str, list[float]]:
    rows = [row for row in read_metrics(out / "metrics.jsonl") if "validation/greedy_accuracy_frac" in row]
    steps = [row for row in read_metrics(out / "metrics.jsonl") if "time/step_s" in row]
    names = {
        "greedy": "validation/greedy_accuracy_frac",
        "sampled": "validation/sampled_accuracy_frac",
        "format": "validation/greedy_format_frac",
    }
    return {
        **{short: [rows[0][name], rows[-1][name]] for short, name in names.items() if name in rows[0]},
        "minutes": [sum(row["time/step_s"] for row in steps) / 60],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="NAME:SEED")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, one thread each")
    parser.add_argument(
        "--offline", type=Path, help="offline trajectories: collected.jsonl of `data filter`, or rows {id, response}"
    )
    parser.add_argument("--cold-model", type=Path, help="the start of cold-* runs")
    parser.add_argument("--set", nargs="*", default=[], metavar="a.b=c", help="values for every run")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.jobs) as pool:
        results = dict(zip(args.runs, pool.map(lambda spec: run(spec, args), args.runs), strict=True))
    print("| run | greedy before | after | sampled before | after | minutes of training |\n|---|---|---|---|---|---|")
    for spec, found in results.items():
        cells = [f"{100 * value:.1f}" for way in ("greedy", "sampled") for value in found.get(way, [float("nan")] * 2)]
        print(f"| {spec} | {' | '.join(cells)} | {found['minutes'][0]:.1f} |")
    print(json.dumps({"benchmark": "demo_runs", "runs": results}))


if __name__ == "__main__":
    main()
