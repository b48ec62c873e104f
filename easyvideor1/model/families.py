"""The differences between model families that can be trained here; no other module distinguishes families.

A family is a Transformers `model_type`. All are `ForConditionalGeneration` classes of one build: a vision tower whose
tokens stand in a language model with three-dimensional rotary positions, under the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from easyvideor1.errors import UsageError

VideoTime = Literal["timestamps", "seconds", "steps"]
"""How a video tells its time. timestamps: each temporal patch is a grid of its own after its time as text; seconds: one
grid, whose positions in time grow with the seconds; steps: one grid, they grow by one per temporal patch."""
Triple = tuple[float, float, float]

CLIP: tuple[Triple, Triple] = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
HALF: tuple[Triple, Triple] = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """A family, and what its configuration files mean where they leave a value out."""

    video_time: VideoTime
    patch_px: int
    mean_std: tuple[Triple, Triple]
    """Mean and standard deviation of the pixels of each colour, in [0, 1]."""


FAMILIES: dict[str, Family] = {
    "qwen2_vl": Family(video_time="steps", patch_px=14, mean_std=CLIP),
    "qwen2_5_vl": Family(video_time="seconds", patch_px=14, mean_std=CLIP),
    "qwen3_vl": Family(video_time="timestamps", patch_px=16, mean_std=HALF),
    "qwen3_vl_moe": Family(video_time="timestamps", patch_px=16, mean_std=HALF),
    "qwen3_5": Family(video_time="timestamps", patch_px=16, mean_std=HALF),
    "qwen3_5_moe": Family(video_time="timestamps", patch_px=16, mean_std=HALF),
}
POSITIONS_PER_S = 4
"""Positions per second where a family has the video time "seconds" and its configuration leaves
`vision_config.tokens_per_second` out: the default of Transformers' Qwen2_5_VLVisionConfig."""


def family(model_type: str) -> Family:
    """Raises UsageError for a model that is none of them."""
    if model_type not in FAMILIES:
        raise UsageError(f"config.json: model_type '{model_type}' is not supported; known: {', '.join(FAMILIES)}")
    return FAMILIES[model_type]


def vision_tower(model: Any) -> Any:
    """The module that makes patches into tokens."""
    return model.model.visual


def language_model(model: Any) -> Any:
    """The module with the text layers (`layers`), token embeddings, rotary positions and last norm."""
    return model.model.language_model


def is_language_weight(name: str) -> bool:
    """Whether a parameter or module of this name belongs to the language model."""
    return name.startswith("model.language_model.")


def layer_kinds(model: Any) -> tuple[str, ...]:
    """Kind of each text layer: "full_attention", or "linear_attention" (a state that runs along the sequence).

    Raises:
        UsageError: the model has layers with sliding-window attention.
    """
    config = model.config.get_text_config()
    kinds = tuple(getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers)
    if "sliding_attention" in kinds:
        raise UsageError(
            "this model uses sliding-window attention, which is not supported; set use_sliding_window to false in its "
            "config.json if it was trained without"
        )
    assert set(kinds) <= {"full_attention", "linear_attention"}, kinds
    return kinds


def shares_prefix(model: Any) -> bool:
    """Whether all layers can compute a prompt once for several responses that follow it in the same sequence.

    A linear-attention layer cannot: its state would run from one response into the next.
    """
    return "linear_attention" not in layer_kinds(model)
