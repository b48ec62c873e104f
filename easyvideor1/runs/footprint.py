"""The memory that a run needs on each GPU, part by part, by arithmetic over the widths of its model.

What stays (weights, gradients, the optimizer's numbers) is exact. What an update keeps for its backward is counted per
token and layer, from the tensors that autograd saves in Transformers' layers; tests compare it with what is saved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.model.sizes import Sizes
from easyvideor1.rollout.hf.engine import READ_TOKENS
from easyvideor1.runs.devices import Device
from easyvideor1.runs.planned_tokens import Tokens
from easyvideor1.training.head import CHUNK_BYTES
from easyvideor1.training.optimizers import MOMENT_BYTES, MOMENTS

F32 = 4
RESERVE_FRAC = 0.08
"""Share of a GPU's memory that the allocator cannot use."""
VLLM_FRAC = 0.9
"""Share of a GPU's memory that vLLM takes where its gpu_memory_utilization is not set."""
GRADIENTS, GRADIENTS_AGAIN = 0.5, 0.75
"""Gradients that exist in the backward as a share of what a layer keeps, usually and where layers are computed again
(measured on a CPU, as perf.update_memory does)."""
SAMPLING_COPIES = 4
"""Tensors over the vocabulary that exist at once while a token is sampled."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Bytes on one GPU, by part."""

    base: int
    """See Device.base_bytes."""
    lasting: Mapping[str, int]
    """What is there all the time."""
    update: Mapping[str, int]
    """What an update needs beside it."""
    rollout: Mapping[str, int]
    """What sampling needs beside it."""
    host: Mapping[str, int]
    """In main memory, for each rank."""
    overlaps: bool
    """An update and the sampling of the next step go on at once."""

    @property
    def peak(self) -> int:
        phases = sum(self.update.values()), sum(self.rollout.values())
        return self.base + sum(self.lasting.values()) + (sum(phases) if self.overlaps else max(phases))

    def fits(self, device: Device) -> bool:
        return self.peak <= usable_bytes(device)


def usable_bytes(device: Device) -> int:
    return round((1 - RESERVE_FRAC) * device.memory_bytes)


def footprint(
    config: RunConfig, sizes: Sizes, tokens: Tokens, *, response_tokens: int, ranks: int, device: Device, is_gpu: bool
) -> Footprint:
    """The memory of each rank.

    Args:
        response_tokens: mean length of a response.
        ranks: GPUs that share the training.
    """
    work = _Work(config, sizes, tokens, fitting_algorithm(config), response_tokens=response_tokens, ranks=ranks)
    return Footprint(
        base=device.base_bytes,
        lasting=work.lasting(),
        update=work.update(is_gpu=is_gpu),
        rollout=work.rollout(device),
        host=work.host(),
        overlaps=config.train.overlaps,
    )


@dataclass(frozen=True)
class _Work:
    config: RunConfig
    sizes: Sizes
    tokens: Tokens
    algorithm: Algorithm
    response_tokens: int
    ranks: int

    @property
    def _item(self) -> int:
        """Bytes of a number that the model computes in."""
        return F32 if self.config.model.dtype == "float32" else 2

    @property
    def _is_sharded(self) -> bool:
        return self.ranks > 1

    @property
    def _shards(self) -> int:
        """Ranks that share a weight."""
        return self.ranks if self.config.parallel.shard == "full" else 1

    def lasting(self) -> dict[str, int]:
        sizes, shards, item = self.sizes, self._shards, self._item
        all_weights = sizes.weights + sizes.adapters
        is_copied = item != F32 and not self._is_sharded
        held = F32 if self._is_sharded else item
        parts = {
            "weights": all_weights * held // shards,
            "float32 copies of the weights that train": sizes.trained * F32 if is_copied else 0,
            "gradients": sizes.trained * F32 // shards,
            "optimizer": _moment_bytes(self.config, sizes) // shards,
            "reference model": sizes.weights * held // shards if self._has_second_model else 0,
            "value head": (2 + len(MOMENTS)) * (sizes.hidden + 1) * F32 // shards if self.algorithm.needs_values else 0,
            "copy that samples": sizes.weights * item if self._has_copy else 0,
        }
        if self.config.parallel.cpu_offload and self._is_sharded:
            parts |= dict.fromkeys(("weights", "gradients", "optimizer", "reference model", "value head"), 0)
        return {name: size for name, size in parts.items() if size}

    @property
    def _has_second_model(self) -> bool:
        """With LoRA the reference is the model with its adapters off."""
        return self.algorithm.needs_reference and not self.config.model.lora

    @property
    def _has_copy(self) -> bool:
        return self.config.rollout.engine == "hf" and (self._is_sharded or self.config.train.overlaps)

    def update(self, *, is_gpu: bool) -> dict[str, int]:
        sizes, item = self.sizes, self._item
        num_tokens, num_patches, num_responses = self._pack()
        per_token = text_layer_bytes(sizes, item=item)
        per_patch = tower_layer_bytes(sizes, item=item)
        tower_trains = not self.config.model.freeze_vision_tower and self.config.model.lora is None
        # With activation checkpointing a layer keeps its input only, and one at a time is computed again.
        if self.config.model.gradient_checkpointing:
            text = num_tokens * (sizes.layers * sizes.hidden * item + (1 + GRADIENTS_AGAIN) * per_token)
            tower = num_patches * (sizes.tower_layers * sizes.tower_hidden * item + (1 + GRADIENTS_AGAIN) * per_patch)
        else:
            text = num_tokens * (sizes.layers + GRADIENTS) * per_token
            tower = num_patches * (sizes.tower_layers + GRADIENTS) * per_patch
        ends = num_tokens * (4 * item + F32) * sizes.hidden
        mergers = num_patches * 2 * sizes.mergers * sizes.tower_hidden * item
        made = self.algorithm
        has_full_kl = made.needs_reference and made.kl_kind == "full"
        logits = 2 + int(bool(made.entropy_coef)) + 2 * int(has_full_kl)
        of_output = sizes.vocabulary * sizes.hidden
        gathered = 2 * sizes.largest_layer + sizes.root * (1 + int(has_full_kl and self._trains_all))
        parts = {
            "activations, text": round(text + ends),
            "activations, vision tower": round(tower + mergers if tower_trains else num_patches * per_patch),
            "patches": num_patches * sizes.patch_values * item,
            # Hidden states in float32, and their directions.
            "states of the value head": 2 * num_responses * sizes.hidden * F32 if made.needs_values else 0,
            "logits": logits * min(CHUNK_BYTES, num_responses * sizes.vocabulary * F32),
            # In float32 where products of halves cannot be summed in it, and its gradient always.
            "output layer": of_output * F32 * (int(self._trains_all) + int(item != F32 and not is_gpu)),
            "gradients before they are added up": sizes.trained * item if item != F32 and not self._is_sharded else 0,
            "layers that are gathered": gathered * item if self._is_sharded else 0,
        }
        return {name: size for name, size in parts.items() if size}

    @property
    def _trains_all(self) -> bool:
        return self.config.model.lora is None

    def _pack(self) -> tuple[int, int, int]:
        """Tokens, patches and response tokens that this rank has of the largest pack."""
        n, together = self.config.rollout.n, self.config.parallel.sequence
        prompts = self.config.train.prompts_per_step / self.ranks * together
        of_group = self.tokens.prompt_mean + n * self.response_tokens
        largest = self.tokens.prompt_max + n * self.response_tokens
        num_tokens = round(min(self.config.train.tokens_per_pack, max(largest, prompts * of_group)))
        num_vision = max(self.tokens.vision_max, num_tokens * self.tokens.vision_mean / of_group)
        share = n * self.response_tokens / of_group
        num_patches = round(num_vision * self.sizes.patches_per_token)
        return num_tokens // together, num_patches // together, round(share * num_tokens) // together

    def rollout(self, device: Device) -> dict[str, int]:
        config, sizes, item = self.config, self.sizes, self._item
        if config.rollout.engine == "vllm_server":
            return {}  # servers have GPUs of their own
        if config.rollout.engine == "vllm":
            share = float(config.rollout.vllm.engine_args.get("gpu_memory_utilization", VLLM_FRAC))
            return {"vLLM (weights, KV cache)": round(share * device.memory_bytes)}
        held = self._kv_tokens()
        read = max(self.tokens.prompt_max, min(READ_TOKENS, held))
        patches = read * self.tokens.vision_mean / self.tokens.prompt_mean * sizes.patches_per_token
        parts = {
            "KV cache": held * sizes.attention_layers * 2 * sizes.key * item,
            "prompts that are read": round(read * (6 * sizes.hidden + 3 * sizes.inner + 2 * sizes.query) * item),
            "patches": round(patches * (sizes.patch_values + 12 * sizes.tower_hidden + 2 * sizes.tower_inner) * item),
            "logits": SAMPLING_COPIES * self.concurrent() * sizes.vocabulary * F32,
            "output layer in float32": sizes.vocabulary * sizes.hidden * F32 if item != F32 else 0,
        }
        return {name: size for name, size in parts.items() if size}

    def concurrent(self) -> int:
        """Responses that are sampled at once on this rank."""
        prompts = self.config.train.prompts_per_step / self.ranks
        return concurrent_responses(self.config, self.tokens, num_prompts=prompts, n=self.config.rollout.n)

    def _kv_tokens(self) -> int:
        rollout = self.config.rollout
        each = rollout.max_response_tokens + self.tokens.prompt_mean / rollout.n
        return round(self.concurrent() * each)

    def host(self) -> dict[str, int]:
        prompts = self.config.train.prompts_per_step / self.ranks
        of_step = prompts * self.tokens.example_bytes_mean
        offloaded = 0
        if self.config.parallel.cpu_offload and self._is_sharded:
            numbers = F32 * (self.sizes.weights + self.sizes.trained) + _moment_bytes(self.config, self.sizes)
            offloaded = numbers // self._shards
        return {
            # Ranks that compute a pack together all have its pixels.
            "frames and patches of a step": round(of_step * self.config.parallel.sequence),
            "the same of the step that is sampled ahead": round(self.config.train.overlaps * of_step),
            "the same, made ready for the next": round(min(of_step, self.config.data.ahead_mb * 2**20)),
            "weights and optimizer": offloaded,
        }


def checkpoint_bytes(config: RunConfig, sizes: Sizes, *, ranks: int) -> int:
    """Size of a checkpoint, all ranks together, up to its small files."""
    is_half = config.model.dtype != "float32" and ranks == 1  # shards are in float32
    weights = (2 if is_half else F32) * (sizes.weights if config.model.lora is None else sizes.adapters)
    if not config.train.checkpoint_optimizer:
        return weights
    return weights + _moment_bytes(config, sizes) + (F32 * sizes.trained if is_half else 0)


def _moment_bytes(config: RunConfig, sizes: Sizes) -> int:
    return math.ceil(len(MOMENTS) * sizes.trained * MOMENT_BYTES[config.optimizer.states])


def concurrent_responses(config: RunConfig, tokens: Tokens, *, num_prompts: float, n: int) -> int:
    """Number of responses that an engine samples at once, where it is asked some prompts n times each."""
    each = config.rollout.max_response_tokens + tokens.prompt_mean / n
    return max(1, min(int(config.rollout.tokens_per_batch / each), round(num_prompts * n)))


def text_layer_bytes(sizes: Sizes, *, item: int) -> int:
    """What a text layer keeps of a token for the backward.

    Of each of its two norms the input in float32 and the result; queries and keys before their norms and after their
    rotary positions; values and the output of attention; of the MLP gate, up and their product. In half precision,
    where norms, rotations and gates are Transformers' own, also the normalised values and what lies between.

    Args:
        item: bytes of a number that the model computes in.
    """
    if item == F32:
        return F32 * (4 * sizes.hidden + 3 * (sizes.query + sizes.key) + 3 * sizes.inner)
    norms = 2 * (F32 + 2 * item) * sizes.hidden
    attention = item * (4 * sizes.query + 5 * sizes.key) + F32 * (sizes.query + sizes.key)
    return norms + attention + 4 * item * sizes.inner


def tower_layer_bytes(sizes: Sizes, *, item: int) -> int:
    """What a layer of the vision tower keeps of a patch: norms, queries, keys and values before and after their rotary
    positions, the output of attention, and the MLP before and after its activation."""
    return item * (10 * sizes.tower_hidden + 2 * sizes.tower_inner)
