"""Training runs with rollouts by vLLM itself on one or more ranks, for tests/rollout/vllm/test_real_ranks.py."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file

from easyvideor1.cli import main
from easyvideor1.config_tree import to_tree
from easyvideor1.demo.setup import demo_config, write_data
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.training import shelf

STEPS = 4
NUM_QUESTIONS = 6
"""Of validation."""


def write_recipe(data: Path, out: Path, *overrides: str) -> str:
    """A recipe of a few steps over the data of the demo, which are written once; returns its path.

    Args:
        data: folder for the data, the questions of validation cut short.
    """
    if not (data / "data").exists():
        write_data(data, seed=0)
        questions = data / "data" / "validation.jsonl"
        questions.write_text("".join(questions.read_text().splitlines(keepends=True)[:NUM_QUESTIONS]))
    limits: Mapping[str, Any] = {
        "engine_args": {"kv_cache_memory_bytes": 64 << 20},
        "check_every": 1,
        "max_logprob_gap": 1e-4,
    }
    config = demo_config(
        data,
        seed=0,
        overrides=[
            f"out={out}",
            f"train.steps={STEPS}",
            "train.prompts_per_step=8",
            "train.validate_every=2",
            "train.validation_samples=2",
            "train.checkpoint_every=0",
            "optimizer.learning_rate=0.001",
            "optimizer.warmup_steps=0",
            *(f"rollout.vllm.{key}={json.dumps(value)}" for key, value in limits.items()),
            *overrides,
        ],
    )
    path = out.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(to_tree(config)))
    return str(path)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run left behind."""

    metrics: list[dict[str, Any]]
    rollouts: list[dict[str, Any]]
    weights: dict[str, torch.Tensor]
    logs: list[str]
    """Of each rank."""


def train(words: Sequence[str], stale: bool = False) -> int:
    """The command, in this process.

    Args:
        stale: the engine of the second rank keeps the weights that it began with.
    """
    from easyvideor1.rollout.vllm.core import VLLMCore

    if stale and os.environ.get("RANK") == "1":
        load = VLLMCore.load

        def forgetting(core: VLLMCore, tensors: Any) -> None:
            if getattr(core, "has_loaded", False):
                return
            core.has_loaded = True  # type: ignore[attr-defined]
            load(core, tensors)

        VLLMCore.load = forgetting  # type: ignore[method-assign]
    return main(["train", *words])


def read_run(out: Path) -> Run:
    lines = (out / "rollouts" / "rollouts.jsonl").read_text().splitlines()
    model = shelf.list_checkpoints(out / "checkpoints")[-1] / "model"
    return Run(
        metrics=[record for record in comparable(read_metrics(out / "metrics.jsonl")) if "loss/total" in record],
        rollouts=[json.loads(line) for line in lines],
        weights={name: tensor for file in model.glob("*.safetensors") for name, tensor in load_file(file).items()},
        logs=[path.read_text() for path in (out / "log.txt", *sorted(out.glob("log.*.txt"))) if path.exists()],
    )
