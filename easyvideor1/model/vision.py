"""The vision tower: one call for all media of a pack, and kept output where the tower does not train."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.utils.generic import ModelOutput

from easyvideor1.model.families import vision_tower
from easyvideor1.types import Example

Features = Mapping[str, torch.Tensor]
"""Visual arguments of one prompt under the model's names (pixel_values, image_grid_thw, pixel_values_videos,
video_grid_thw), as data.encode.media_inputs makes them; only those the prompt has."""
KINDS = {"image": ("pixel_values", "image_grid_thw"), "video": ("pixel_values_videos", "video_grid_thw")}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class VisionTokens:
    """The embeddings that replace the vision tokens of one kind in a prompt."""

    first: torch.Tensor
    """[tokens, hidden], beside the embeddings of the text."""
    levels: tuple[torch.Tensor, ...]
    """Outputs that are added after each of the first text layers (DeepStack, Qwen3-VL); none in other families."""

    def __len__(self) -> int:
        return len(self.first)

    def to(self, device: torch.device | str) -> VisionTokens:
        return VisionTokens(first=self.first.to(device), levels=tuple(level.to(device) for level in self.levels))

    def split(self, sizes: list[int]) -> list[VisionTokens]:
        parts = zip(self.first.split(sizes), *(level.split(sizes) for level in self.levels), strict=True)
        return [VisionTokens(first=first, levels=tuple(levels)) for first, *levels in parts]


@dataclass
class EncoderOutput(ModelOutput):
    """A vision tower's output as Transformers' forwards take it: tensors by medium or prompt, in order."""

    pooler_output: tuple[torch.Tensor, ...] | None = None
    deepstack_features: tuple[tuple[torch.Tensor, ...], ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Seen:
    """The output of the tower for the media of one prompt."""

    by_kind: Mapping[str, VisionTokens]
    """"image" and "video"; only those the prompt has."""

    def to(self, device: torch.device | str) -> Seen:
        return Seen(by_kind={kind: tokens.to(device) for kind, tokens in self.by_kind.items()})


Media = Features | Seen
"""The visual inputs of one prompt for the tower, or what the tower made of them."""


class Tower:
    """The vision tower of a model in a run.

    Where none of its weights train, it looks at each example once in a step: rollout, old log-probs, reference and
    update take the same numbers, which lie in main memory meanwhile.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._seen: dict[Example, Seen] = {}
        self._keeps = False

    @property
    def is_frozen(self) -> bool:
        return not any(weight.requires_grad for weight in vision_tower(self._model).parameters())

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what a frozen tower sees, until the end of the block."""
        self._keeps = self.is_frozen
        try:
            yield
        finally:
            self._keeps = False
            self._seen.clear()

    def media(self, example: Example) -> Media:
        """The pixels of an example; within `kept`, what a frozen tower sees in them."""
        if not self._keeps:
            return example.features
        if not example.features:
            return Seen(by_kind={})
        if example not in self._seen:
            with torch.no_grad():
                [seen], _ = look(self._model, [example.features])
            self._seen[example] = seen.to("cpu")
        return self._seen[example]

    def inputs(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Visual arguments of the model's forward for these examples in this order, on its device."""
        media = [self.media(example) for example in examples]
        seen = [item.to(self._model.device) for item in media if isinstance(item, Seen)]
        if seen:
            return {"mm_encoder_outputs": encoder_outputs(seen)}
        joined = join_inputs(item for item in media if not isinstance(item, Seen))
        return {name: tensor.to(self._model.device) for name, tensor in joined.items()}


def look(model: Any, parts: Sequence[Features]) -> tuple[list[Seen], torch.Tensor | None]:
    """One call of the vision tower over all media of some prompts, images and videos together.

    Where they have none, it looks at one empty patch, so that every pack makes the same calls in the same order: all
    ranks of a sharded model then agree on their collectives, and every weight of the tower gets a gradient.

    Returns:
        What was seen, per prompt; and a zero that the empty patch's gradient goes through, to be added to something.
    """
    weight = next(vision_tower(model).parameters())
    grids = {kind: [part[grid] for part in parts if grid in part] for kind, (_, grid) in KINDS.items()}
    if not any(grids.values()):
        tokens = _call(model, _empty_patches(model).to(weight), _empty_grid(model).to(weight.device))
        zero = 0.0 * torch.stack([part.sum() for part in (tokens.first, *tokens.levels)]).sum()
        return [Seen(by_kind={}) for _ in parts], zero
    patches = torch.cat([part[pixels] for pixels, _ in KINDS.values() for part in parts if pixels in part])
    in_order = [grid for of_kind in grids.values() for grid in of_kind]
    tokens = _call(model, patches.to(weight.device, weight.dtype), torch.cat(in_order).to(weight.device))
    patches_per_token = model.config.vision_config.spatial_merge_size**2
    pieces = iter(tokens.split([int(grid.prod(-1).sum()) // patches_per_token for grid in in_order]))
    by_part: list[dict[str, VisionTokens]] = [{} for _ in parts]
    for kind, (_, grid) in KINDS.items():
        for part, seen in zip(parts, by_part, strict=True):
            if grid in part:
                seen[kind] = next(pieces)
    return [Seen(by_kind=seen) for seen in by_part], None


def encoder_outputs(seen: Sequence[Seen]) -> dict[str, EncoderOutput]:
    """Transformers' `mm_encoder_outputs` for prompts one after another, or side by side in a batch."""
    outputs = {}
    for kind in KINDS:
        found = [item.by_kind[kind] for item in seen if kind in item.by_kind]
        if found:
            outputs[kind] = EncoderOutput(
                pooler_output=tuple(tokens.first for tokens in found),
                deepstack_features=tuple(zip(*(tokens.levels for tokens in found), strict=True)),
            )
    return outputs


def _call(model: Any, patches: torch.Tensor, grid_thw: torch.Tensor) -> VisionTokens:
    found = vision_tower(model)(patches, grid_thw=grid_thw, return_dict=True)
    return VisionTokens(first=found.pooler_output, levels=tuple(getattr(found, "deepstack_features", None) or ()))


def _empty_patches(model: Any) -> torch.Tensor:
    """Zero patches that make one token."""
    vision = model.config.vision_config
    values = getattr(vision, "in_channels", 3) * vision.temporal_patch_size * vision.patch_size**2
    return torch.zeros(vision.spatial_merge_size**2, values)


def _empty_grid(model: Any) -> torch.Tensor:
    merge = model.config.vision_config.spatial_merge_size
    return torch.tensor([[1, merge, merge]])


def join_inputs(parts: Iterable[Features]) -> dict[str, torch.Tensor]:
    """The vision inputs of several prompts, in order; what comes from one prompt only is handed on, not copied."""
    found: dict[str, list[torch.Tensor]] = {}
    for part in parts:
        for name, tensor in part.items():
            found.setdefault(name, []).append(tensor)
    return {name: tensors[0] if len(tensors) == 1 else torch.cat(tensors) for name, tensors in found.items()}
