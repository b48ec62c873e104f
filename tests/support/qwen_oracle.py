"""What Transformers' own classes make of a few prompts, as a folder of arrays; and the tiny models both sides share.

Run as a program: `python tests/data/qwen_oracle.py FOLDER`. Only there torchvision is imported: the video processors
need it, and its wheel does not load beside a CPU build of torch unless two operators are declared first.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from easyvideor1.types import FrameSpec, Media, MediaPlan, Sample, VisionSpec

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"]
SPECIAL += ["<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'text' %}{{ part.text }}"
    "{% else %}<|vision_start|><|{{ part.type }}_pad|><|vision_end|>{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXT_CONFIG = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
}
VISION_CONFIG = {
    "depth": 1,
    "hidden_size": 32,
    "embed_dim": 32,
    "num_heads": 2,
    "out_hidden_size": 32,
    "intermediate_size": 32,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "deepstack_visual_indexes": [0],
    "fullatt_block_indexes": [0],
}
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One medium of a case: its size in patches, and the frame numbers where it is a video."""

    height: int
    width: int
    indices: tuple[int, ...] = ()
    fps: float = 30.0
    total: int = 0

    @property
    def kind(self):
        return "video" if self.indices else "image"


CASES: dict[str, tuple[str, tuple[Picture, ...]]] = {
    "text": ("What is 12 + 30? Think in <think></think> first.", ()),
    "image": ("<image>Which colour is it?", (Picture(height=4, width=6),)),
    "video": (
        "Look: <video> When does it move?",
        (Picture(height=4, width=4, indices=(0, 15, 30, 45, 60, 75), fps=30, total=90),),
    ),
    "odd_frames": ("<video>How many?", (Picture(height=2, width=4, indices=(3, 10, 29), fps=29.97, total=61),)),
    "one_frame": ("<video>What is it?", (Picture(height=2, width=2, indices=(0,), fps=10, total=1),)),
    "uneven_times": (
        "<video>Order?",
        (Picture(height=2, width=2, indices=(0, 40, 500, 3070, 9999), fps=1000, total=20040),),
    ),
    "mixed": (
        "First <image> then <video>\nand <image><video> — naïve 'é' question",
        (
            Picture(height=2, width=4),
            Picture(height=4, width=2, indices=(0, 25, 50, 75), fps=25, total=100),
            Picture(height=6, width=2),
            Picture(height=2, width=6, indices=(0, 3, 6, 9, 12, 15, 18, 21), fps=24, total=24),
        ),
    ),
}


def config(family: str) -> dict:
    """A config.json of a tiny model of the family."""
    ids = {name: 300 + i for i, name in enumerate(SPECIAL)}
    patch_px = vision(family).patch_px
    text = dict(TEXT_CONFIG)
    if family.endswith("moe"):
        text |= {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32}
    if family.startswith("qwen3_5"):
        text |= {"layer_types": ["full_attention"]}
    return {
        "model_type": family,
        "text_config": text,
        "vision_config": VISION_CONFIG | {"patch_size": patch_px, "tokens_per_second": 2},
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def vision(family: str) -> VisionSpec:
    is_new = family.startswith("qwen3")
    return VisionSpec(
        family=family,
        patch_px=16 if is_new else 14,
        merge=2,
        temporal_patch=2,
        image_mean=HALF if is_new else CLIP_MEAN,
        image_std=HALF if is_new else CLIP_STD,
    )


def write_model_folder(folder: Path, family: str) -> None:
    """config.json, a byte-level BPE tokenizer with Qwen's control tokens, and a chat template."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    words = ["seconds", "user", "assistant", "system", "vision", "video", "image", "when", "which", "colour"]
    tokenizer.train_from_iterator([f"{word} <|{word}|> what is it" for word in words] * 4, trainer)
    filler = [f"<unused_{i}>" for i in range(300 - tokenizer.get_vocab_size())]
    tokenizer.add_tokens([AddedToken(token, special=False) for token in filler])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
    folder.mkdir(parents=True, exist_ok=True)
    fast.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config(family)))


def frames(name: str, family: str) -> list[np.ndarray]:
    """Random uint8 frames [T, 3, H, W] of a case's media."""
    random, patch_px = np.random.default_rng(len(name)), vision(family).patch_px
    return [
        random.integers(
            0, 256, (max(1, len(item.indices)), 3, item.height * patch_px, item.width * patch_px), dtype=np.uint8
        )
        for item in CASES[name][1]
    ]


def plan(item: Picture, spec: VisionSpec) -> MediaPlan:
    times_s = tuple(index / item.fps for index in item.indices) or (0.0,)
    grid_t = -(-len(times_s) // spec.temporal_patch)
    return MediaPlan(
        media=Media(kind=item.kind, path=f"clip.{item.kind}"),
        times_s=times_s,
        height=item.height * spec.patch_px,
        width=item.width * spec.patch_px,
        grid_thw=(grid_t, item.height, item.width),
        num_tokens=grid_t * item.height * item.width // spec.merge**2,
        spec=FrameSpec(),
        source_fps=item.fps,
        duration_s=item.total / item.fps,
        cache_key="",
    )


def sample_and_plans(name: str, spec: VisionSpec) -> tuple[Sample, list[MediaPlan], str]:
    text, items = CASES[name]
    plans = [plan(item, spec) for item in items]
    media = tuple(plan.media for plan in plans)
    sample = Sample(id=name, problem_type="open-ended", problem=text, gold="", media=media, where="rows.jsonl:7")
    return sample, plans, text


def declare_torchvision_operators() -> None:
    import torch

    if torch.version.cuda is None:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def main(out: Path) -> None:
    declare_torchvision_operators()
    import torch
    import transformers as hf

    images = {"patch_size": 14, "image_mean": list(CLIP_MEAN), "image_std": list(CLIP_STD)}
    new = {"patch_size": 16, "image_mean": list(HALF), "image_std": list(HALF)}
    classes = {
        "qwen2_vl": (hf.Qwen2VLProcessor, hf.Qwen2VLVideoProcessor, images, hf.Qwen2VLConfig, hf.Qwen2VLModel),
        "qwen2_5_vl": (
            hf.Qwen2_5_VLProcessor,
            hf.Qwen2VLVideoProcessor,
            images,
            hf.Qwen2_5_VLConfig,
            hf.Qwen2_5_VLModel,
        ),
        "qwen3_vl": (hf.Qwen3VLProcessor, hf.Qwen3VLVideoProcessor, new, hf.Qwen3VLConfig, hf.Qwen3VLModel),
        "qwen3_vl_moe": (hf.Qwen3VLProcessor, hf.Qwen3VLVideoProcessor, new, hf.Qwen3VLMoeConfig, hf.Qwen3VLMoeModel),
        "qwen3_5": (hf.Qwen3VLProcessor, hf.Qwen3VLVideoProcessor, new, hf.Qwen3_5Config, hf.Qwen3_5Model),
        "qwen3_5_moe": (hf.Qwen3VLProcessor, hf.Qwen3VLVideoProcessor, new, hf.Qwen3_5MoeConfig, hf.Qwen3_5MoeModel),
    }
    assert tuple(classes) == FAMILIES
    for family, (processor_class, video_class, sizes, config_class, model_class) in classes.items():
        folder = out / family
        write_model_folder(folder, family)
        processor = processor_class(
            image_processor=hf.Qwen2VLImageProcessor(**sizes),
            tokenizer=hf.AutoTokenizer.from_pretrained(folder),
            video_processor=video_class(**sizes),
            chat_template=TEMPLATE,
        )
        with torch.device("meta"):
            model = model_class(config_class(**{k: v for k, v in config(family).items() if k != "model_type"}))
        for name, (text, items) in CASES.items():
            inputs = run_processor(processor, text, items, frames(name, family))
            names = ("input_ids", "mm_token_type_ids", "image_grid_thw", "video_grid_thw", "second_per_grid_ts")
            position_ids, _ = model.get_rope_index(**{key: inputs[key] for key in names if key in inputs})
            arrays: dict[str, Any] = {
                key: value.numpy() for key, value in inputs.items() if isinstance(value, torch.Tensor)
            }
            published = by_the_published_rule(position_ids[:, 0].numpy(), arrays["mm_token_type_ids"][0])
            np.savez(folder / f"{name}.npz", position_ids=published, **arrays)


def by_the_published_rule(positions: np.ndarray, token_types: np.ndarray) -> np.ndarray:
    """The model's own positions, each piece moved to one after the largest before it (see data.positions)."""
    edges = [0, *(np.flatnonzero(np.diff(token_types)) + 1).tolist(), len(token_types)]
    moved, largest = positions.copy(), -1
    for start, end in itertools.pairwise(edges):
        moved[:, start:end] += largest + 1 - positions[0, start]
        largest = int(moved[:, start:end].max())
    return moved


def run_processor(processor, text: str, items: tuple[Picture, ...], clips: list[np.ndarray]):
    import re

    import torch

    parts = re.split("<(image|video)>", text)
    content = [{"type": part} if i % 2 else {"type": "text", "text": part} for i, part in enumerate(parts) if part]
    rendered = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    videos = [(item, clip) for item, clip in zip(items, clips, strict=True) if item.indices]
    images = [torch.from_numpy(clip[0]) for item, clip in zip(items, clips, strict=True) if not item.indices]
    metadata = [
        {"fps": item.fps, "total_num_frames": item.total, "frames_indices": list(item.indices), "duration": 0.0}
        for item, _ in videos
    ]
    more = {"video_metadata": metadata, "do_sample_frames": False} if videos else {}
    return processor(
        text=[rendered],
        images=images or None,
        videos=[torch.from_numpy(clip) for _, clip in videos] or None,
        do_resize=False,
        return_tensors="pt",
        **more,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
