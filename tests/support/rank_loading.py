"""Models loaded by several ranks, for tests/training/test_sharded.py."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config_data import SourceConfig
from easyvideor1.records.folder import RunFolder
from easyvideor1.runs.models import load_models
from easyvideor1.training import shared_prefix, shelf
from easyvideor1.training.forward import PackForward
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.ranks import Ranks, joined
from support.made_trainer import made_config, made_trainer
from support.tiny_models import FAMILIES, tiny_case, tiny_model
from support.values import copied

CASES: Mapping[str, tuple[str, ...]] = {
    "qwen2_vl": (),
    "qwen2_5_vl": ("algorithm.options={kl_coef: 0.1}",),
    "qwen3_vl": ("parallel.shard=none",),
    "qwen3_vl_moe": (),
    "qwen3_5": ("model.freeze_vision_tower=true", "model.dtype=bfloat16"),
    "qwen3_5_moe": (),
    "tied": ("algorithm.options={kl_coef: 0.1}",),
    "old names": (),
    "new adapters": ("model.lora={rank: 2}",),
    "merged adapters": (),
    "adapters gone on with": ("model.lora={rank: 2}",),
}
"""Folder of a model -> overrides of the configuration."""


@dataclass
class Loaded:
    """A model as a rank has it, gathered; or what refused it."""

    tensors: dict[str, torch.Tensor]
    """Weights by all their names, and buffers."""
    trained: list[str]
    """Names of what an optimizer would get: a tied weight is one, with the gradients of both its uses."""
    reference: dict[str, torch.Tensor]
    logprobs: torch.Tensor | None
    error: str = ""


def load(folder: Path, name: str, ranks: Ranks) -> Loaded:
    config = made_config(folder / "run", f"model.path={folder / name}", "rollout.engine=vllm", *CASES.get(name, ()))
    resume_from = None
    if name == "adapters gone on with":
        resume_from = shelf.list_checkpoints(RunFolder(folder / "merged adapters").checkpoints)[-1]
    models = load_models(
        config,
        ranks,
        algorithm=fitting_algorithm(config),
        resume_from=resume_from,
    )
    assert models.sampler is None
    reference = getattr(models.reference, "_forward", None)
    return Loaded(
        tensors=tensors(models.policy),
        trained=[name for name, weight in models.policy.named_parameters() if weight.requires_grad],
        reference={} if reference is None else tensors(reference),
        logprobs=logprobs(models.policy),
    )


def tensors(forward: PackForward) -> dict[str, torch.Tensor]:
    named = dict(forward.model.named_parameters(remove_duplicate=False)) | dict(forward.model.named_buffers())
    return copied(named.items())


def logprobs(forward: PackForward) -> torch.Tensor:
    case = tiny_case(forward.model, name="a", lengths=[3, 4], images=[(1, 4, 4)])
    batch = pack_groups([case.group], tokens_per_pack=200, form=shared_prefix.pack_form(forward.model, shared=True))
    with torch.no_grad():
        return forward(batch.packs[0], {0: case.features}, temperature=1.0)[0]


def load_all(folder: Path, ranks: Ranks | None = None) -> dict[str, Loaded]:
    if ranks is None:
        with joined(timeout_s=300) as ranks:
            return load_all(folder, ranks)
    found = {name: load(folder, name, ranks) for name in CASES}
    for name in () if ranks.size == 1 else ("a weight is missing", "not a number", "no weights"):
        try:
            found[name] = load(folder, name, ranks)
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            found[name] = Loaded(
                tensors={}, trained=[], reference={}, logprobs=None, error=f"{type(error).__name__}: {error}"
            )
    return found


def write_models(folder: Path) -> None:
    """The folders that CASES names, and three that cannot be loaded."""
    for family in FAMILIES:
        tiny_model(family).to(torch.bfloat16).save_pretrained(folder / family, max_shard_size="100KB")
    tied = tiny_model("qwen2_5_vl")
    tied.config.tie_word_embeddings = tied.config.get_text_config().tie_word_embeddings = True
    tied.tie_weights()
    tied.save_pretrained(folder / "tied")
    plain = tiny_model("qwen2_vl")
    plain.save_pretrained(folder / "new adapters")
    write_with_old_names(folder / "new adapters", folder / "old names")
    base = folder / "base"
    tiny_model("qwen3_vl").save_pretrained(base)
    config = made_config(folder / "merged adapters", f"model.path={base}", "model.lora={rank: 2}", "train.steps=2")
    trainer = made_trainer(config)
    RunFolder(config.out).write_start(replace(config, data=replace(config.data, train=(SourceConfig(path="a.jsonl"),))))
    trainer.run()
    for name in ("a weight is missing", "not a number", "no weights", "adapters gone on with"):
        shutil.copytree(base, folder / name)
    stored = load_file(base / "model.safetensors")
    some = "model.language_model.layers.1.mlp.up_proj.weight"
    save_file(
        {key: value for key, value in stored.items() if key != some},
        folder / "a weight is missing" / "model.safetensors",
    )
    stored[some][-1, 3] = float("nan")  # in the part of the last rank
    save_file(stored, folder / "not a number" / "model.safetensors")
    (folder / "no weights" / "model.safetensors").unlink()


def write_with_old_names(folder: Path, out: Path) -> None:
    """As the first releases of the family named the weights, and as those of later ones are named in memory."""
    shutil.copytree(folder, out)
    stored = load_file(folder / "model.safetensors")
    assert {name.split(".")[0] for name in stored} == {"model", "visual", "lm_head"}
    renamed = {
        name.replace("visual.", "model.visual.", 1)
        if name.startswith("visual.")
        else name.replace("model.", "model.language_model.", 1)
        if name.startswith("model.")
        else name: value
        for name, value in stored.items()
    }
    save_file(renamed, out / "model.safetensors")
