"""Random models of the real Transformers classes, small enough for tests, and groups of prompts and responses."""

from dataclasses import dataclass

import numpy as np
import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from easyvideor1.training.vision import Features
from easyvideor1.types import Group, Prompt, Rollout, Sample, StopReason

IMAGE, VIDEO, START, END = 90, 91, 92, 93
NUM_TEXT_IDS = 80
PATCH_VALUES = 3 * 2 * 4 * 4
ROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
TEXT = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
VISION = {"depth": 2, "num_heads": 2, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}
MARKERS = {"image_token_id": IMAGE, "video_token_id": VIDEO, "vision_start_token_id": START, "vision_end_token_id": END}


def tiny_model(family: str, seed: int = 0):
    """A model whose weights are large enough that log-probs depend visibly on every token and position."""
    torch.manual_seed(seed)
    if family == "qwen3_vl":
        text = TEXT | {"head_dim": 16, "rope_parameters": ROPE | {"mrope_interleaved": True}}
        vision = VISION | {"hidden_size": 16, "intermediate_size": 32, "out_hidden_size": 64}
        vision |= {"num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
        config = Qwen3VLConfig(text_config=text, vision_config=vision, **MARKERS)
        kind = Qwen3VLForConditionalGeneration
    elif family == "qwen2_5_vl":
        vision = VISION | {"hidden_size": 16, "intermediate_size": 32, "out_hidden_size": 64}
        vision |= {"fullatt_block_indexes": [1], "window_size": 16}
        config = Qwen2_5_VLConfig(text_config=TEXT | {"rope_parameters": ROPE}, vision_config=vision, **MARKERS)
        kind = Qwen2_5_VLForConditionalGeneration
    elif family == "qwen2_vl":
        vision = VISION | {"embed_dim": 16, "hidden_size": 64, "mlp_ratio": 2}
        config = Qwen2VLConfig(text_config=TEXT | {"rope_parameters": ROPE}, vision_config=vision, **MARKERS)
        kind = Qwen2VLForConditionalGeneration
    elif family == "qwen3_5":
        text = TEXT | {"head_dim": 16, "rope_parameters": ROPE | {"partial_rotary_factor": 1.0}}
        text |= {"layer_types": ["linear_attention", "full_attention"]}
        text |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
        text |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
        vision = VISION | {"hidden_size": 16, "intermediate_size": 32, "out_hidden_size": 64}
        vision |= {"num_position_embeddings": 16}
        config = Qwen3_5Config(text_config=text, vision_config=vision, **MARKERS)
        kind = Qwen3_5ForConditionalGeneration
    else:
        raise ValueError(family)
    config.tie_word_embeddings = False
    model = kind._from_config(config, attn_implementation="sdpa").train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(6)
    return model


@dataclass
class Case:
    """A group and its visual arguments."""

    group: Group
    features: Features


def tiny_case(model, *, name: str, lengths: list[int], images=(), videos=(), text_len: int = 5, seed: int = 0) -> Case:
    """A group with random tokens: some text, the images, the videos, some text.

    Args:
        lengths: tokens of each response.
        images, videos: grids (t, h, w) in patches.
    """
    rng = np.random.default_rng(seed)
    one_block_per_frame = model.config.model_type in ("qwen3_vl", "qwen3_5")
    ids: list[int] = rng.integers(0, NUM_TEXT_IDS, text_len).tolist()
    for t, h, w in images:
        ids += [START] + [IMAGE] * (t * h * w // 4) + [END]
    for t, h, w in videos:
        if one_block_per_frame:
            for frame in range(t):
                ids += [10 + frame, START] + [VIDEO] * (h * w // 4) + [END]
        else:
            ids += [START] + [VIDEO] * (t * h * w // 4) + [END]
    ids += rng.integers(0, NUM_TEXT_IDS, 3).tolist()
    types = np.array([{IMAGE: 1, VIDEO: 2}.get(token, 0) for token in ids])
    features: dict[str, torch.Tensor] = {}
    if images:
        features |= {"pixel_values": _patches(images, rng), "image_grid_thw": torch.tensor(images)}
    if videos:
        features |= {"pixel_values_videos": _patches(videos, rng), "video_grid_thw": torch.tensor(videos)}
    positions, _ = model.model.get_rope_index(
        torch.tensor([ids]),
        mm_token_type_ids=torch.tensor(types)[None],
        image_grid_thw=features.get("image_grid_thw"),
        video_grid_thw=features.get("video_grid_thw"),
    )
    prompt = Prompt(
        sample=Sample(id=name, problem_type="numerical", problem="", gold=""),
        text="",
        input_ids=np.array(ids),
        token_types=types,
        position_ids=positions[:, 0].numpy(),
        plans=(),
    )
    rollouts = tuple(
        Rollout(
            token_ids=tuple(rng.integers(0, NUM_TEXT_IDS, length).tolist()),
            text="",
            logprobs=tuple(rng.normal(size=length).tolist()),
            stop_reason=StopReason.EOS,
        )
        for length in lengths
    )
    advantages = tuple(rng.normal(size=len(lengths)).tolist())
    group = Group(prompt=prompt, rollouts=rollouts, advantages=advantages, weights=(1.0,) * len(lengths))
    return Case(group=group, features=features)


def _patches(grids, rng) -> torch.Tensor | None:
    if not grids:
        return None
    count = sum(t * h * w for t, h, w in grids)
    return torch.from_numpy(rng.normal(size=(count, PATCH_VALUES)).astype(np.float32))


def plain_logprobs(model, case: Case) -> list[torch.Tensor]:
    """[N] log-probs of each response by an ordinary padded batch, positions left to Transformers."""
    prompt, n = case.group.prompt, len(case.group.rollouts)
    lengths = [len(rollout.token_ids) for rollout in case.group.rollouts]
    total = len(prompt) + max(lengths)
    ids, mask = torch.zeros(n, total, dtype=torch.int64), torch.zeros(n, total, dtype=torch.int64)
    types = torch.zeros(n, total, dtype=torch.int64)
    for i, rollout in enumerate(case.group.rollouts):
        sequence = prompt.input_ids.tolist() + list(rollout.token_ids)
        ids[i, : len(sequence)], mask[i, : len(sequence)] = torch.tensor(sequence), 1
        types[i, : len(prompt)] = torch.from_numpy(prompt.token_types)

    logits = model(
        input_ids=ids,
        attention_mask=mask,
        mm_token_type_ids=types,
        use_cache=False,
        **{name: tensor.repeat(n, 1) for name, tensor in case.features.items()},
    ).logits
    start = len(prompt)
    return [
        logits[i, start - 1 : start - 1 + length]
        .log_softmax(-1)
        .gather(-1, ids[i, start : start + length, None])
        .squeeze(-1)
        for i, length in enumerate(lengths)
    ]
