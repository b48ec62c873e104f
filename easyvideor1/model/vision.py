"""The vision tower: one call for all media of a pack, and kept output where the tower does not train."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.utils.generic import ModelOutput

from easyvideor1.model.families import vision_tower
from easyvideor1.types import Example

Features = Mapping[str, torch.Tensor]
"""Visual arguments of one prompt under the model's names (pixel_values, image_grid_thw, pixel_values_videos,
video_grid_thw), as data.vision_inputs.media_inputs makes them; only those the prompt has."""
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

    @property
    def zero(self) -> torch.Tensor:
        """A zero whose gradient, zeros, goes to all that the tokens were made by."""
        return torch.stack([part[:0].sum() for part in (self.first, *self.levels)]).sum()

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
    dealt: Mapping[str, tuple[int, ...]] | None = None
    """Where this is the share of one rank of several (`shares_of`): tokens of each kind that each of them has; None: it
    is the whole."""

    def to(self, device: torch.device | str) -> Seen:
        return Seen(by_kind={kind: tokens.to(device) for kind, tokens in self.by_kind.items()}, dealt=self.dealt)

    def num_tokens(self, kind: str) -> int:
        """Vision tokens of a kind in the whole prompt."""
        if self.dealt is not None:
            return sum(self.dealt.get(kind, ()))
        return len(self.by_kind[kind]) if kind in self.by_kind else 0


Media = Features | Seen
"""The visual inputs of one prompt for the tower, or what the tower made of them."""


class Tower:
    """The vision tower of a model in a run.

    Where none of its weights train, it looks at each example once in a step: rollout, old log-probs, reference and
    update take the same numbers, which lie in main memory meanwhile.
    """

    def __init__(self, model: Any, *, rank: int = 0, size: int = 1) -> None:
        """
        Args:
            rank: number of this process among those that compute each pack together.
            size: how many these are.
        """
        self._model, self._rank, self._size = model, rank, size
        self._seen: dict[Example, Seen] = {}
        self._shares: dict[Example, Seen] = {}
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
            self._shares.clear()

    def media(self, example: Example) -> Media:
        """The pixels of an example; within `kept`, what a frozen tower sees in them: of several ranks that compute a
        pack together, in this rank's share of them."""
        if not self._keeps:
            return example.features
        if self._size == 1:
            return self._whole(example)
        if example not in self._shares:
            self._shares[example] = self._share(example)
        return self._shares[example]

    def inputs(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Visual arguments of the model's forward for these examples in this order, on its device."""
        if self._keeps:
            seen = [self._whole(example).to(self._model.device) for example in examples]
            return {"mm_encoder_outputs": encoder_outputs(seen)}
        joined = join_inputs(example.features for example in examples)
        return {name: tensor.to(self._model.device) for name, tensor in joined.items()}

    def _whole(self, example: Example) -> Seen:
        if not example.features:
            return Seen(by_kind={})
        if example not in self._seen:
            self._seen[example] = self._look(example.features)
        return self._seen[example]

    def _share(self, example: Example) -> Seen:
        shares = [share for [share] in shares_of([example.features], size=self._size)]
        dealt = {
            kind: tuple(num_tokens(self._model, share.get(grid)) for share in shares)
            for kind, (_, grid) in KINDS.items()
            if grid in example.features
        }
        if example in self._seen:
            whole = self._seen[example].by_kind
            cut = {kind: whole[kind].split(list(of_kind))[self._rank] for kind, of_kind in dealt.items()}
            return Seen(by_kind=cut, dealt=dealt)
        own = shares[self._rank]
        return Seen(by_kind=self._look(own).by_kind if own else {}, dealt=dealt)

    def _look(self, features: Features) -> Seen:
        with torch.no_grad():
            [seen], _ = look(self._model, [features])
        return seen.to("cpu")


def look(model: Any, parts: Sequence[Features]) -> tuple[list[Seen], torch.Tensor | None]:
    """One call of the vision tower over all media of some prompts, see `see`.

    Returns:
        What was seen, per prompt; and, where there was nothing to see, a zero that the empty patch's gradient goes
        through, to be added to something.
    """
    tokens = see(model, parts)
    if not any(parts):
        return [Seen(by_kind={}) for _ in parts], tokens.zero
    places = [(kind, index) for kind, (_, grid) in KINDS.items() for index, part in enumerate(parts) if grid in part]
    sizes = [num_tokens(model, parts[index][KINDS[kind][1]]) for kind, index in places]
    by_part: list[dict[str, VisionTokens]] = [{} for _ in parts]
    for (kind, index), piece in zip(places, tokens.split(sizes), strict=True):
        by_part[index][kind] = piece
    return [Seen(by_kind=seen) for seen in by_part], None


def see(model: Any, parts: Sequence[Features]) -> VisionTokens:
    """One call of the vision tower over all media of some prompts: the tokens of the images of all of them, then those
    of the videos.

    Where they have none, it looks at one empty patch, so that every pack makes the same calls in the same order: all
    ranks of a sharded model then agree on their collectives, and every weight of the tower gets a gradient (`zero`).
    """
    weight = next(vision_tower(model).parameters())
    if not any(parts):
        tokens = _call(model, _empty_patches(model).to(weight), _empty_grid(model).to(weight.device))
        return tokens.split([0, len(tokens)])[0]
    patches = torch.cat([part[pixels] for pixels, _ in KINDS.values() for part in parts if pixels in part])
    grids = torch.cat([part[grid] for _, grid in KINDS.values() for part in parts if grid in part])
    return _call(model, patches.to(weight.device, weight.dtype), grids.to(weight.device))


def num_tokens(model: Any, grids: torch.Tensor | None) -> int:
    """Vision tokens of media with these grids, [media, 3] in patches each; None: of no media."""
    merged = model.config.vision_config.spatial_merge_size**2
    return 0 if grids is None else int(grids.prod(-1).sum()) // merged


def shares_of(parts: Sequence[Features], *, size: int) -> list[list[Features]]:
    """The media of some prompts, dealt to `size` ranks: consecutive temporal patches (an image is one), evenly by their
    number of patches; images of all prompts first, then videos.

    A tower sees no more than one temporal patch at once in all families, so that the shares give what the whole does.

    Returns:
        For each rank, of each prompt what it has of it, under the same names; only the kinds that it has some of.
    """
    shares: list[list[dict[str, torch.Tensor]]] = [[{} for _ in parts] for _ in range(size)]
    total = sum(int(part[grid].prod(-1).sum()) for _, grid in KINDS.values() for part in parts if grid in part)
    before = 0
    for pixels, grid in KINDS.values():
        for index, part in enumerate(parts):
            grids: list[list[list[int]]] = [[] for _ in range(size)]
            for num_frames, height, width in part[grid].tolist() if grid in part else []:
                area = height * width
                # Each goes where its middle falls; in halves of patches, so that all numbers are integers.
                middles = 2 * (before + area * np.arange(num_frames)) + area
                counts = np.bincount(size * middles // (2 * total), minlength=size)
                before += area * num_frames
                for of_rank, count in zip(grids, counts.tolist(), strict=True):
                    of_rank += [[count, height, width]] if count else []
            start = 0
            for rank, of_rank in enumerate(grids):
                if of_rank:
                    end = start + sum(t * h * w for t, h, w in of_rank)
                    shares[rank][index] |= {pixels: part[pixels][start:end], grid: torch.tensor(of_rank)}
                    start = end
    return [[*of_rank] for of_rank in shares]


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
