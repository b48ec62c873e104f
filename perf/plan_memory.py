"""Is the memory that `easyvideor1 plan` predicts what a run takes? `python -m perf.plan_memory`

The demo is planned, then trained for some steps in a process of its own, whose most resident memory is measured (Linux:
the kernel's high-water mark). Settings that move the prediction are changed one at a time: tokens of a pack, responses
under way, number type. `over_base` leaves out what Python and its libraries take before there is a model, which is
measured too. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from easyvideor1.demo.setup import demo_config, write_data
from easyvideor1.runs.planning import make_plan

CASES: dict[str, list[str]] = {
    "demo": [],
    "packs of 8,192 tokens": ["train.tokens_per_pack=8192", "train.prompts_per_step=48"],
    "activation checkpointing": ["model.gradient_checkpointing=true"],
}
IMPORTS = "import easyvideor1.runs.training, easyvideor1.cli.train, torch, transformers"
MIB = 1 << 20


def peak_bytes(words: Sequence[str]) -> int:
    """Most resident memory of a command."""
    child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    told = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{words}: {told.decode()[-2000:]}")
    return usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    base = peak_bytes(["-c", IMPORTS])
    print(f"libraries alone: {base // MIB} MiB")
    rows = {}
    for name, changes in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            write_data(out, seed=0)
            words = [f"train.steps={args.steps}", "data.validation=[]", "train.checkpoint_every=0", *changes]
            config = demo_config(out, seed=0, overrides=words)
            plan = make_plan(config, device="cpu", gpus=1)
            settings = [f"out={out}", f"model.path={config.model.path}", f"cache.dir={out}/cache", *words]
            settings += [f"data.train=[{{path: {out}/data/train.jsonl}}]"]
            measured = peak_bytes(["-m", "easyvideor1", "train", "demo", *settings])
        predicted = plan.memory.peak
        rows[name] = {
            "predicted_mib": predicted // MIB,
            "measured_mib": measured // MIB,
            "ratio": round(predicted / measured, 3),
            "over_base_ratio": round((predicted - plan.memory.base) / (measured - base), 3),
        }
        print(name, rows[name], flush=True)
    result = {"benchmark": "plan_memory", "libraries_mib": base // MIB, "cases": rows, "machine": platform.machine()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
