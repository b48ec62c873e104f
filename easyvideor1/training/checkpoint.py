"""Checkpoints of a single-process run: weights, optimizer and data position, each save whole or absent.

There is no random state: all that is random in a step is drawn from seeds made of the run's seed and the step.

A checkpoint is a folder `step-000012` holding `model/` (Transformers' format, loads on its own) or LoRA adapters,
`optimizer.safetensors` and `state.json`. It is written under a temporary name and renamed, so a folder of that name is
always complete.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from easyvideor1.errors import RunError
from easyvideor1.model import lora
from easyvideor1.model.weights import full_tensors
from easyvideor1.training.masters import MasterWeights
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.stopping import Trend

PREFIX = "step-"


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run stands after a finished step."""

    step: int
    """Finished updates; also the version of the weights."""
    cursor: int
    """Place in the endless order of samples that the next step starts from."""
    validated_step: int
    """Last step whose validation is in the records; -1: none."""
    best_accuracy_frac: float = -1.0
    """Best greedy validation accuracy so far; -1.0: none."""
    trend: Trend = field(default_factory=Trend)
    """What the stopping rules remember."""


def save(
    folder: Path,
    *,
    model: PreTrainedModel,
    masters: MasterWeights,
    optimizer: torch.optim.Optimizer,
    state: RunState,
    keep: int,
    ranks: Ranks | None = None,
) -> Path:
    """Write one checkpoint, then delete all but the newest `keep`. Of several ranks the first writes what all gather.

    Raises:
        RunError: the disk is too small for it; older checkpoints are left as they are.
    """
    ranks = ranks or Ranks()
    weights = dict(full_tensors(model.state_dict().items()))
    moments = dict(full_tensors(_optimizer_tensors(masters, optimizer).items()))
    final = folder / f"{PREFIX}{state.step:06d}"
    with ranks.agree("checkpoint"):
        if ranks.is_first:
            _write(final, model=model, weights=weights, moments=moments, masters=masters, state=state)
            for old in list_checkpoints(folder)[:-keep]:
                shutil.rmtree(old)
    return final


def _write(
    final: Path,
    *,
    model: PreTrainedModel,
    weights: dict[str, torch.Tensor],
    moments: dict[str, torch.Tensor],
    masters: MasterWeights,
    state: RunState,
) -> None:
    folder = final.parent
    folder.mkdir(parents=True, exist_ok=True)
    stored = [
        *weights.values(),
        *masters.copies.values(),
        *masters.by_name.values(),
        *masters.by_name.values(),
    ]
    need_bytes = sum(tensor.numel() * tensor.element_size() for tensor in stored)  # AdamW has two moments per weight
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < need_bytes:
        raise RunError(f"{folder}: a checkpoint needs about {need_bytes >> 20} MiB, {free_bytes >> 20} MiB are free")
    draft = folder / f".{final.name}.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    if lora.has_adapters(model):
        adapters = {name: tensor.contiguous() for name, tensor in weights.items() if lora.MARK in name}
        save_file(adapters, draft / lora.ADAPTERS)
    else:
        model.save_pretrained(draft / "model", state_dict=weights)
    save_file(moments, draft / "optimizer.safetensors")
    (draft / "state.json").write_text(json.dumps(asdict(state)))
    for path in [*draft.rglob("*"), draft]:
        _fsync(path)
    shutil.rmtree(final, ignore_errors=True)
    draft.rename(final)
    _fsync(folder)


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob(f"{PREFIX}*") if (path / "state.json").exists())


def load_state(checkpoint: Path) -> RunState:
    fields = json.loads((checkpoint / "state.json").read_text())
    return RunState(**fields | {"trend": Trend(**fields["trend"])})


def mark_best(checkpoint: Path) -> None:
    """Keep a copy of a checkpoint as `best`, whatever becomes of it."""
    best, draft = checkpoint.parent / "best", checkpoint.parent / ".best.tmp"
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(checkpoint, draft, copy_function=os.link)  # the files are never written to again
    shutil.rmtree(best, ignore_errors=True)
    draft.rename(best)


def best_accuracy(folder: Path) -> float:
    """Validation accuracy of the checkpoint that is marked as best; -1.0: none is."""
    best = folder / "best"
    return load_state(best).best_accuracy_frac if (best / "state.json").exists() else -1.0


def load_weights(checkpoint: Path, *, model: PreTrainedModel) -> None:
    """Put the stored weights, or adapters, into a model of the same shape."""
    if lora.has_adapters(model):
        lora.load_adapters(model, checkpoint)
        return
    # Through the class, which knows the names that older layouts of the same model are stored under.
    stored = type(model).from_pretrained(checkpoint / "model", dtype=model.dtype, local_files_only=True)
    model.load_state_dict(stored.state_dict())


def load_optimizer(checkpoint: Path, *, masters: MasterWeights, optimizer: torch.optim.Optimizer) -> None:
    """Put the stored moments, step counts and float32 weights back."""
    tensors = load_file(checkpoint / "optimizer.safetensors")
    for name, weight in masters.by_name.items():
        stored = {
            key.split("/")[-1]: value for key, value in tensors.items() if key.rsplit("/", 1)[0] == f"adam/{name}"
        }
        if stored:
            optimizer.state[weight] = {key: _placed(value, weight) for key, value in stored.items()}
    with torch.no_grad():
        for name, copy in masters.copies.items():
            copy.copy_(tensors[f"master/{name}"])


def _placed(value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A value as its weight is: sharded over the ranks, or whole."""
    if value.shape != weight.shape or not hasattr(weight, "full_tensor"):
        return value
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(weight, DTensor)
    return distribute_tensor(value, weight.device_mesh, weight.placements, src_data_rank=None)


def _optimizer_tensors(masters: MasterWeights, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, weight in masters.by_name.items():
        for key, value in optimizer.state.get(weight, {}).items():
            tensors[f"adam/{name}/{key}"] = value.contiguous()
    return tensors | {f"master/{name}": copy.detach().contiguous() for name, copy in masters.copies.items()}


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
