"""How fast do the three engines sample? `OMP_NUM_THREADS=1 python -m perf.engines`, where vLLM is installed.

The demo's model samples 8 responses to each of its own training questions: by this project's loop over the actor's
modules, by vLLM in this process, and by one vLLM server on this machine, by turns in one run. Rates are tokens per
second of wall time (medians, and the lowest and highest); the last line is JSON. On a CPU they say what the engines
cost beside each other for a tiny model, and nothing about a GPU.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import torch

from easyvideor1.data.samples import read_samples
from easyvideor1.demo.dataset import build_dataset
from easyvideor1.demo.setup import MODEL, demo_config
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.runs.engines import engine_alone
from easyvideor1.runs.parts import opened
from easyvideor1.types import Example

N = 8
ENGINES = {
    "hf": [],
    "vllm": ["rollout.engine=vllm"],
    "vllm_server": ["rollout.engine=vllm_server", "rollout.vllm.start_servers=1"],
}


def rate(engine: Engine, asked: Sequence[Example], *, limit: int, seed: int) -> float:
    """Tokens per second."""
    sampling = Sampling(n=N, max_response_tokens=limit)
    start, tokens = time.perf_counter(), 0
    with engine.awake():
        for _, rollouts in engine.generate([Request(example=item, sampling=sampling, seed=seed) for item in asked]):
            tokens += sum(len(rollout.token_ids) for rollout in rollouts)
    return tokens / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=32, help="questions that are answered")
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each, after one to warm up")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rates: dict[str, list[float]] = {name: [] for name in ENGINES}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        build_dataset(Path(folder) / "data", 0)
        configs = {
            name: demo_config(Path(folder), seed=0, overrides=[*words, f"out={folder}/{name}"])
            for name, words in ENGINES.items()
        }
        parts = stack.enter_context(opened(configs["hf"]))
        asked = [parts.prepare(sample) for sample in read_samples(configs["hf"].data.train[0].path)[: args.prompts]]
        engines = {name: stack.enter_context(engine_alone(config, parts)) for name, config in configs.items()}
        limit = configs["hf"].rollout.max_response_tokens
        for turn in range(args.repeats + 1):
            for name, engine in engines.items():
                rates[name].append(rate(engine, asked, limit=limit, seed=turn))
    table = {
        name: {
            "tokens_per_s": round(statistics.median(found[1:])),
            "lowest": round(min(found[1:])),
            "highest": round(max(found[1:])),
        }
        for name, found in rates.items()
    }
    for name, row in table.items():
        print(name, row)
    versions = {name: version(name) for name in ("torch", "transformers")}
    print(json.dumps({"benchmark": "engines", "model": MODEL.name, "n": N, "prompts": args.prompts, "table": table} | {
        "machine": platform.machine(), **versions
    }))  # fmt: skip


if __name__ == "__main__":
    main()
