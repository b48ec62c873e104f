"""How the media of a recipe are looked at: frame budgets and the patch sizes of its model."""

from __future__ import annotations

import json
from collections.abc import Mapping

from easyvideor1.config import ModelConfig
from easyvideor1.config_data import DataConfig
from easyvideor1.errors import UsageError
from easyvideor1.runs.starting_model import model_files
from easyvideor1.types import FrameSpec, MediaKind, VisionSpec
from easyvideor1.video.sampling import vision_spec

DEFAULT_FAMILY: Mapping[str, object] = {
    "model_type": "qwen3_vl",
    "vision_config": {"patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2},
}
"""What tokens are counted for where no model is named: Qwen3-VL and Qwen3.5."""


def media_specs(data: DataConfig) -> dict[MediaKind, FrameSpec]:
    return {"video": data.video, "image": data.image}


def model_vision(model: ModelConfig | None) -> VisionSpec:
    """How a model cuts pixels into tokens, from its config.json; the model is not loaded.

    Raises:
        UsageError: its folder holds no readable configuration.
    """
    if model is None:
        return vision_spec(DEFAULT_FAMILY)
    path = model_files(model.path) / "config.json"
    try:
        return vision_spec(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the model's configuration: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}") from None
