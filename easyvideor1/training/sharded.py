"""A model shared by several ranks with FSDP2: each holds a part of the weights, gradients and optimizer state.

The weights are kept in float32, which makes them the masters that the optimizer works on; a layer is gathered, rounded
to the type that the model computes in, when its turn comes. Gradients are added up over ranks in float32.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from easyvideor1.config import ParallelConfig
from easyvideor1.errors import UsageError
from easyvideor1.model import lora
from easyvideor1.model.families import language_model, vision_tower
from easyvideor1.model.parts import fill, held_part, is_sharded, part_like
from easyvideor1.model.skeleton import StoredAdapters, StoredModel, base_name, origins
from easyvideor1.training.forward import PackForward
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.tensor_file import Parts


def shard(forward: PackForward, config: ParallelConfig, *, ranks: Ranks, dtype: torch.dtype) -> None:
    """Share the weights of a model among the ranks, in place; from here on they are DTensors.

    Every layer is gathered by itself, the embeddings and the output layer with the whole. A vision tower that does not
    train stays whole on every rank, so that each can look at what it has by itself.

    Args:
        forward: of a model in float32, the same on all ranks; it may be without its weights (`model.skeleton`), which
            each rank then reads (`read_weights`).
        dtype: what it computes in.

    Raises:
        UsageError: offloading without a GPU, or machines with unlike numbers of ranks for "hybrid".
    """
    if config.cpu_offload and not torch.cuda.is_available():
        raise UsageError("parallel.cpu_offload keeps weights out of a GPU's memory, but there is no GPU; leave it out")
    model = forward.model
    tower = vision_tower(model)
    layers: list[nn.Module] = [*language_model(model).layers]
    whole = set(tower.parameters())
    if any(weight.requires_grad for weight in whole):
        layers += [*tower.blocks]
        whole = set()
    else:
        for weight in whole:
            weight.data = weight.data.to(dtype)  # not `tower.to`, which would round the frequencies of positions too
    lower = dtype if dtype != torch.float32 else None
    options: dict[str, Any] = {
        "mesh": _mesh(config, ranks),
        "mp_policy": MixedPrecisionPolicy(param_dtype=lower, reduce_dtype=torch.float32 if lower else None),
        "offload_policy": CPUOffloadPolicy() if config.cpu_offload else OffloadPolicy(),
    }
    for layer in layers:
        if config.compile:
            layer.compile()
        fully_shard(layer, **options)
    if forward.value_head is not None:  # in float32, whatever the model computes in
        in_float32: dict[str, Any] = options | {"mp_policy": MixedPrecisionPolicy()}
        fully_shard(forward.value_head, **in_float32)
    is_idle = not any(weight.requires_grad for weight in model.parameters())
    # The root of a model that trains stays whole from its forward to its backward.
    fully_shard(forward, **options, reshard_after_forward=is_idle, ignored_params=whole)
    register_fsdp_forward_method(forward, "states")


@torch.no_grad()
def read_weights(forward: PackForward, stored: StoredModel, config: ParallelConfig) -> None:
    """Give a skeleton that is sharded its weights: this rank's parts, and one whole tensor at a time where the files
    hold something else than the model. New adapters begin as fresh ones.

    It holds no collective.

    Raises:
        UsageError: a weight is not there.
        RunError: a file cannot be read, or a weight has another shape.
    """
    model = forward.model
    _make_room(forward, config)
    by_name = {base_name(name): weight for name, weight in model.named_parameters() if lora.MARK not in name}
    with Parts(stored.files) as files:
        for name, origin in origins(model, files, where=stored.folder).items():
            weight = by_name[base_name(name)]
            if origin.convert is None:
                files.read_into(weight, origin.names[0])
            else:
                fill(weight, origin.convert([files.whole(part) for part in origin.names]))
    for adapters in stored.adapters:
        _merge(by_name, adapters)
    if lora.has_adapters(model):
        lora.begin_adapters(model)
    if forward.value_head is not None:
        forward.value_head.begin()


def _make_room(forward: PackForward, config: ParallelConfig) -> None:
    """Memory for the parts of this rank, in place of parts of nothing."""
    model = forward.model
    buffers = {name: buffer.clone() for name, buffer in forward.named_buffers()}
    forward.to_empty(device=torch.device("cpu") if config.cpu_offload else forward.device)
    if config.cpu_offload and not is_sharded(next(vision_tower(model).parameters())):
        vision_tower(model).to_empty(device=forward.device)
    for name, buffer in buffers.items():
        module, _, leaf = name.rpartition(".")
        setattr(forward.get_submodule(module), leaf, buffer.to(forward.device))
    model.tie_weights()


def _merge(weights: Mapping[str, torch.Tensor], adapters: StoredAdapters) -> None:
    with Parts([adapters.path]) as files:
        for name in files:
            before, first, after = name.partition(lora.FIRST)
            if first:
                product = files.whole(f"{before}{lora.SECOND}{after}").float() @ files.whole(name).float()
                weight = weights[f"{before}.weight"]
                held_part(weight).add_(part_like(weight, adapters.scale * product))


def _mesh(config: ParallelConfig, ranks: Ranks) -> DeviceMesh:
    """All ranks, or machines x ranks of a machine: weights are copied along the first axis, sharded along the last."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if config.shard == "full":
        return init_device_mesh(kind, (ranks.size,))
    per_copy = 1
    if config.shard == "hybrid":
        per_copy = int(os.environ.get("LOCAL_WORLD_SIZE", ranks.size))
        if ranks.size % per_copy:
            raise UsageError(
                f"parallel.shard=hybrid needs the same number of ranks on every machine, but {ranks.size} ranks are no "
                f"multiple of the {per_copy} on this one; start as many everywhere, or take parallel.shard=full"
            )
    return init_device_mesh(kind, (ranks.size // per_copy, per_copy), mesh_dim_names=("copies", "shards"))
