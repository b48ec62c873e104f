"""Random models of the real Transformers classes, small enough for tests, and groups of prompts and responses."""

import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from easyvideor1.data.positions import IMAGE as IMAGE_TYPE
from easyvideor1.data.positions import TEXT as TEXT_TYPE
from easyvideor1.data.positions import VIDEO as VIDEO_TYPE
from easyvideor1.data.positions import Run, positions
from easyvideor1.model.families import family as family_named
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


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
TOWER = VISION | {"hidden_size": 16, "intermediate_size": 32, "out_hidden_size": 64}
OLD_TEXT = TEXT | {"rope_parameters": ROPE}
QWEN3_TEXT = TEXT | {"head_dim": 16, "rope_parameters": ROPE | {"mrope_interleaved": True}}
QWEN3_5_TEXT = TEXT | {"head_dim": 16, "rope_parameters": ROPE | {"partial_rotary_factor": 1.0}} | LINEAR
SQUARE = {"num_position_embeddings": 16}
CONFIGS = {
    "qwen2_vl": (OLD_TEXT, VISION | {"embed_dim": 16, "hidden_size": 64, "mlp_ratio": 2}),
    "qwen2_5_vl": (OLD_TEXT, TOWER | {"fullatt_block_indexes": [1], "window_size": 16}),
    "qwen3_vl": (QWEN3_TEXT, TOWER | SQUARE | {"deepstack_visual_indexes": [0]}),
    "qwen3_vl_moe": (QWEN3_TEXT | EXPERTS, TOWER | SQUARE | {"deepstack_visual_indexes": [0]}),
    "qwen3_5": (QWEN3_5_TEXT, TOWER | SQUARE),
    "qwen3_5_moe": (QWEN3_5_TEXT | EXPERTS | {"shared_expert_intermediate_size": 48}, TOWER | SQUARE),
}
FAMILIES = tuple(CONFIGS)


def tiny_model(family: str, seed: int = 0, heads: tuple[int, int] | None = None) -> Any:
    """A model whose weights are large enough that log-probs depend visibly on every token and position.

    Args:
        heads: query heads, and key-value heads; None: 4 and 2.
    """
    model, random_state = _built(family, seed, heads)
    torch.set_rng_state(random_state)
    return copy.deepcopy(model)


@cache
def _built(family: str, seed: int, heads: tuple[int, int] | None) -> tuple[Any, torch.Tensor]:
    """The model, which is only copied, and the state of PyTorch's random numbers after its making."""
    torch.manual_seed(seed)
    text, vision = CONFIGS[family]
    if heads is not None:
        text = text | {"num_attention_heads": heads[0], "num_key_value_heads": heads[1]}
    config = AutoConfig.for_model(family, text_config=dict(text), vision_config=dict(vision), **MARKERS)
    config.tie_word_embeddings = False
    model = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa").train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(6)
    return model, torch.get_rng_state()


@dataclass
class Case:
    """A group and its visual arguments."""

    group: Group
    features: dict[str, torch.Tensor]


def tiny_case(model, *, name: str, lengths: list[int], images=(), videos=(), text_len: int = 5, seed: int = 0) -> Case:
    """A group with random tokens: some text, the images, the videos, some text.

    Args:
        lengths: tokens of each response.
        images, videos: grids (t, h, w) in patches.
    """
    rng = np.random.default_rng(seed)
    shows_times = family_named(model.config.model_type).video_time == "timestamps"
    ids: list[int] = []
    runs: list[Run] = []

    def add(tokens: list[int], grid: tuple[int, int, int] | None = None) -> None:
        kind = {IMAGE: IMAGE_TYPE, VIDEO: VIDEO_TYPE}.get(tokens[0], TEXT_TYPE)
        runs.append(Run(token_type=kind, num_tokens=len(tokens), grid_thw=grid or (0, 0, 0)))
        ids.extend(tokens)

    add(rng.integers(0, NUM_TEXT_IDS, text_len).tolist())
    for t, h, w in images:
        add([START])
        add([IMAGE] * (t * h * w // 4), (t, h // 2, w // 2))
        add([END])
    for t, h, w in videos:
        for frame, steps in enumerate([1] * t if shows_times else [t]):
            add([10 + frame, START] if shows_times else [START])
            add([VIDEO] * (steps * h * w // 4), (steps, h // 2, w // 2))
            add([END])
    add(rng.integers(0, NUM_TEXT_IDS, 3).tolist())
    types = np.array([{IMAGE: 1, VIDEO: 2}.get(token, 0) for token in ids])
    features: dict[str, torch.Tensor] = {}
    if images:
        features |= {"pixel_values": _patches(images, rng), "image_grid_thw": torch.tensor(images)}
    if videos:
        features |= {"pixel_values_videos": _patches(videos, rng), "video_grid_thw": torch.tensor(videos)}
    prompt = Prompt(
        sample=Sample(id=name, problem_type="numerical", problem="", gold=""),
        text="",
        input_ids=np.array(ids),
        token_types=types,
        position_ids=positions(runs),
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


def _patches(grids, rng) -> torch.Tensor:
    count = sum(t * h * w for t, h, w in grids)
    return torch.from_numpy(rng.normal(size=(count, PATCH_VALUES)).astype(np.float32))


def plain_logprobs(model, case: Case) -> list[torch.Tensor]:
    """[N] log-probs of each response by an ordinary padded batch.

    Positions are left to Transformers where it follows the published rule (see data.positions).
    """
    prompt, n = case.group.prompt, len(case.group.rollouts)
    lengths = [len(rollout.token_ids) for rollout in case.group.rollouts]
    total = len(prompt) + max(lengths)
    ids, mask = torch.zeros(n, total, dtype=torch.int64), torch.zeros(n, total, dtype=torch.int64)
    types = torch.zeros(n, total, dtype=torch.int64)
    after = torch.arange(max(lengths)).expand(3, -1) + prompt.next_position
    position_ids = torch.cat([torch.from_numpy(prompt.position_ids), after], 1)[:, None].expand(3, n, -1)
    told = {"mm_token_type_ids": types}
    if family_named(model.config.model_type).video_time != "timestamps":
        told = {"position_ids": position_ids}
    for i, rollout in enumerate(case.group.rollouts):
        sequence = prompt.input_ids.tolist() + list(rollout.token_ids)
        ids[i, : len(sequence)], mask[i, : len(sequence)] = torch.tensor(sequence), 1
        types[i, : len(prompt)] = torch.from_numpy(prompt.token_types)
    logits = model(
        input_ids=ids,
        attention_mask=mask,
        **told,
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
