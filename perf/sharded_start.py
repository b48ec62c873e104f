"""How much memory does a rank need to start? `python -m perf.sharded_start`

A random Qwen3-VL is written to disk in bfloat16; then two ranks, started by torchrun, load it as a run does (weights in
float32, sharded; `training/sharded.py`) with a reference model, and once more the way one would without a skeleton:
whole on every rank, then cut. The peak is of a rank's own memory (pages of files that are read are not counted), above
what it held before. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from easyvideor1.algo.algorithms import named_algorithm
from easyvideor1.config import ParallelConfig, RunConfig
from easyvideor1.config_tree import build
from easyvideor1.model.load import load_model
from easyvideor1.runs.models import load_models
from easyvideor1.training.forward import PackForward
from easyvideor1.training.ranks import Ranks, joined
from easyvideor1.training.sharded import shard
from perf.measure import release_memory
from perf.shared_prefix import build_model

SAMPLE_S = 0.002


def own_bytes() -> int:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def peak_of(call: Callable[[], object]) -> tuple[int, int]:
    """Most memory of this process during a call, and what is left after it, above what there was before."""
    release_memory()
    before = peak = own_bytes()
    is_done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_done.is_set():
            peak = max(peak, own_bytes())
            time.sleep(SAMPLE_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    kept = call()
    is_done.set()
    watcher.join()
    release_memory()
    held = own_bytes() - before
    del kept
    release_memory()
    return peak - before, held


def config_of(folder: Path) -> RunConfig:
    tree: dict[str, Any] = {
        "out": str(folder / "run"),
        "model": {"path": str(folder / "model"), "dtype": "bfloat16"},
        "data": {"train": []},
        "cache": {"dir": str(folder / "cache")},
        "train": {"steps": 1},
        "rollout": {"engine": "vllm"},  # no whole copy to sample from
        "algorithm": {"options": {"kl_coef": 0.1}},
    }
    return build(RunConfig, tree, where="perf.sharded_start")


def whole_then_cut(config: RunConfig, ranks: Ranks) -> PackForward:
    forward = PackForward(load_model(replace(config.model, dtype="float32")))
    shard(forward, ParallelConfig(), ranks=ranks, dtype=torch.bfloat16)
    return forward


def measure(folder: Path) -> None:
    """On each rank."""
    config = config_of(folder)
    plain = named_algorithm(config.algorithm)
    with_kl = replace(plain, kl_coef=0.1)
    with joined(timeout_s=600) as ranks:
        ways = {
            "parts": lambda: load_models(config, ranks, algorithm=plain, resume_from=None),
            "parts and reference": lambda: load_models(config, ranks, algorithm=with_kl, resume_from=None),
            "whole, then cut": lambda: whole_then_cut(config, ranks),
        }
        found = {name: peak_of(way) for name, way in ways.items()}
        every = ranks.gather(found, of="peaks")
        if ranks.is_first:
            most = {name: [max(item[name][i] for item in every) >> 20 for i in (0, 1)] for name in ways}
            (folder / "result.json").write_text(json.dumps(most))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=1024, help="width of the text model")
    parser.add_argument("--layers", type=int, default=16, help="text layers")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank-of", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.rank_of:
        measure(args.rank_of)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = build_model(hidden=args.hidden, layers=args.layers)
        sizes = [weight.numel() * 4 for weight in model.parameters()]
        model.to(torch.bfloat16).save_pretrained(folder / "model")
        del model
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(args.ranks)]
        subprocess.run([*launcher, "-m", "perf.sharded_start", "--rank-of", name], check=True)
        found = json.loads((folder / "result.json").read_text())
    result = {
        "benchmark": "sharded_start",
        "ranks": args.ranks,
        "parameters": sum(sizes) // 4,
        "whole_float32_mb": sum(sizes) >> 20,
        "part_mb": sum(sizes) // args.ranks >> 20,
        "largest_tensor_mb": max(sizes) >> 20,
        "peak_and_held_mb": found,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
