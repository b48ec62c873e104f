"""One forward of the model over a pack -> log-probability of every response token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from easyvideor1.data.encode import join_inputs
from easyvideor1.errors import MismatchError
from easyvideor1.model.families import shares_prefix
from easyvideor1.training.pack import Pack
from easyvideor1.training.shared_prefix import PackLayout

Features = Mapping[str, torch.Tensor]
"""Visual arguments of one prompt under the model's names (pixel_values, image_grid_thw, pixel_values_videos,
video_grid_thw), as data.encode.media_inputs makes them; only those the prompt has."""


def response_logprobs(
    model: Any,
    pack: Pack,
    features: Mapping[int, Features],
    *,
    temperature: float = 1.0,
    entropy_gradients: bool = False,
    keep_vision_in_graph: bool = False,
    chunk_tokens: int = 1024,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability and entropy of every response token of a pack, in the pack's flat order.

    The vision tower runs once per segment: once per group with a shared prefix, once per rollout without. Where the
    layers cannot keep the sequences of a pack apart (see `families.shares_prefix`) each runs by itself, on what one run
    of the vision tower per group gives.
    Under FSDP2 call this from the forward of the sharded root module, for it reaches into the model.

    Args:
        model: a Qwen2-VL, Qwen2.5-VL, Qwen3-VL or Qwen3.5 `ForConditionalGeneration`, after `shared_prefix.enable`.
        features: group index -> its visual arguments; groups without media may be left out.
        temperature: divides the logits.
        entropy_gradients: let gradients flow through the entropy, which keeps more of the logits for backward.
        keep_vision_in_graph: run the vision tower on one empty patch, with weight zero, where the pack has no media,
            so that all ranks of a sharded model do the same collectives.
        chunk_tokens: logits exist for at most this many tokens at once; with more, backward computes them again.

    Returns:
        (log-probs [N] float32, entropy in nats [N] float32).

    Raises:
        MismatchError: a prompt's placeholders and its features differ in number; names the sample.
    """
    inputs = _visual_inputs(model.config, pack, features)
    if shares_prefix(model) or pack.layout.is_one_sequence:
        hidden = model.model(
            input_ids=pack.input_ids, position_ids=pack.position_ids, use_cache=False, pack_layout=pack.layout, **inputs
        ).last_hidden_state[0]
    else:
        hidden = _hidden_one_by_one(model, pack, features)
    if keep_vision_in_graph and not inputs:
        hidden = hidden + 0.0 * _empty_vision(model)
    hidden_N = hidden[pack.predictors]
    if len(hidden_N) <= chunk_tokens:
        return _logprobs_and_entropy(model.lm_head, hidden_N, pack.tokens.token_ids, temperature, entropy_gradients)
    chunks = [
        checkpoint(_logprobs_and_entropy, model.lm_head, *chunk, temperature, entropy_gradients, use_reentrant=False)
        for chunk in zip(hidden_N.split(chunk_tokens), pack.tokens.token_ids.split(chunk_tokens), strict=True)
    ]
    return torch.cat([logprobs for logprobs, _ in chunks]), torch.cat([entropy for _, entropy in chunks])


def _logprobs_and_entropy(
    lm_head: Callable[[torch.Tensor], torch.Tensor],
    hidden: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    entropy_gradients: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = lm_head(hidden).float() / temperature
    log_total = logits.logsumexp(-1)
    logprobs = logits.gather(-1, targets[:, None]).squeeze(-1) - log_total
    with torch.set_grad_enabled(entropy_gradients and torch.is_grad_enabled()):
        entropy = log_total - ((logits - log_total[:, None]).exp() * logits).sum(-1)
    return logprobs, entropy


def _hidden_one_by_one(model: Any, pack: Pack, features: Mapping[int, Features]) -> torch.Tensor:
    """[L, hidden] of a pack whose segments are sequences of their own, each in a forward of its own."""
    assert all(len(group.lengths) == 1 for group in pack.layout.groups), "this model needs a segment per response"
    sizes = [segment.num_tokens for segment in pack.segments]
    encoded = {
        group: _encoded(model, features.get(group, {})) for group in dict.fromkeys(s.group for s in pack.segments)
    }
    return torch.cat(
        [
            model.model(
                input_ids=ids,
                position_ids=positions,
                use_cache=False,
                pack_layout=PackLayout(groups=(layout,)),
                mm_encoder_outputs=encoded[segment.group],
            ).last_hidden_state[0]
            for segment, layout, ids, positions in zip(
                pack.segments,
                pack.layout.groups,
                pack.input_ids.split(sizes, 1),
                pack.position_ids.split(sizes, 2),
                strict=True,
            )
        ]
    )


def _encoded(model: Any, features: Features) -> dict[str, Any]:
    """What the vision tower makes of a prompt's media, as the model's forward takes it."""
    inputs = {name: tensor.to(model.device) for name, tensor in features.items()}
    encoded = {}
    if "pixel_values" in inputs:
        encoded["image"] = model.model.get_image_features(inputs["pixel_values"], inputs["image_grid_thw"])
    if "pixel_values_videos" in inputs:
        encoded["video"] = model.model.get_video_features(inputs["pixel_values_videos"], inputs["video_grid_thw"])
    return encoded


def _visual_inputs(config: Any, pack: Pack, features: Mapping[int, Features]) -> dict[str, torch.Tensor]:
    """The visual arguments of the model's forward: the media of each segment, in the order of the pack."""
    parts = [features.get(segment.group, {}) for segment in pack.segments]
    merge = config.vision_config.spatial_merge_size
    ids_by_segment = pack.input_ids[0].split([segment.num_tokens for segment in pack.segments])
    kinds = (
        ("image", config.image_token_id, "pixel_values", "image_grid_thw"),
        ("video", config.video_token_id, "pixel_values_videos", "video_grid_thw"),
    )
    for segment, ids, part in zip(pack.segments, ids_by_segment, parts, strict=True):
        for kind, token, patches, grid in kinds:
            _check_counts(segment.sample_id, kind, int((ids == token).sum()), part.get(patches), part.get(grid), merge)
    return {name: tensor.to(pack.input_ids.device) for name, tensor in join_inputs(parts).items()}


def _check_counts(
    sample_id: str, kind: str, placeholders: int, patches: torch.Tensor | None, grid: torch.Tensor | None, merge: int
) -> None:
    from_grid = 0 if grid is None else int(grid.prod(-1).sum())
    num_patches = 0 if patches is None else len(patches)
    if num_patches != from_grid or placeholders * merge**2 != from_grid:
        raise MismatchError(
            f"{placeholders} {kind} placeholders need {placeholders * merge**2} patches, but there are {num_patches}, "
            f"and the grid {[] if grid is None else grid.tolist()} has {from_grid}",
            where=f"sample {sample_id}",
            remedy="build the prompt and its patches from the same plan; a response must not hold vision tokens",
        )


def _empty_vision(model: Any) -> torch.Tensor:
    """A scalar through every weight of the vision tower, from zero patches that make one token."""
    vision = model.config.vision_config
    merge = vision.spatial_merge_size
    values = getattr(vision, "in_channels", 3) * vision.temporal_patch_size * vision.patch_size**2
    weight = model.lm_head.weight
    features = model.model.get_image_features(
        torch.zeros(merge**2, values, device=weight.device), torch.tensor([[1, merge, merge]], device=weight.device)
    )
    deepstack = [part for layer in getattr(features, "deepstack_features", None) or [] for part in layer]
    return sum(part.sum() for part in [*features.pooler_output, *deepstack])  # type: ignore[return-value]
