"""The demo's model from nothing: a byte-level BPE with Qwen's special tokens, and a tiny Qwen3-VL."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration

VOCABULARY = 640
SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
THINK_TOKENS = ("<think>", "</think>")
"""Texts that are one token each, as in Qwen3, but not special: they stay in decoded text."""

PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen's rule for cutting text before byte pairs are merged; every digit is a piece of its own."""

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for item in message.content -%}
{%- if item.type == 'image' -%}
<|vision_start|><|image_pad|><|vision_end|>
{%- elif item.type == 'video' -%}
<|vision_start|><|video_pad|><|vision_end|>
{%- else -%}
{{ item.text }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

PATCH_PX, MERGE, TEMPORAL_PATCH = 16, 2, 2


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `VOCABULARY` entries at most, learnt from the texts."""
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    bpe.decoder = decoders.ByteLevel()
    bpe.post_processor = processors.ByteLevel(trim_offsets=False)
    added = len(SPECIAL_TOKENS) + len(THINK_TOKENS)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - added, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL_TOKENS)})
    tokenizer.add_tokens(list(THINK_TOKENS))
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def new_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Qwen3VLForConditionalGeneration:
    """An untrained Qwen3-VL of about 1 M parameters, float32."""
    torch.manual_seed(seed)
    ids = tokenizer.get_vocab()
    config = Qwen3VLConfig(
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 128,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 2048,
            # Weights about four times larger than Transformers' default: at 0.02 so narrow a model hardly learns.
            "initializer_range": 0.08,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            "tie_word_embeddings": True,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "out_hidden_size": 128,
            "patch_size": PATCH_PX,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": TEMPORAL_PATCH,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0, 1],
            "initializer_range": 0.08,
        },
    )
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    return model


def save(model: Qwen3VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write weights, tokenizer, chat template and processor settings in Transformers' layout."""
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    cut = {
        "patch_size": PATCH_PX, "temporal_patch_size": TEMPORAL_PATCH, "merge_size": MERGE,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
    }  # fmt: skip
    image = {"size": {"shortest_edge": 4096, "longest_edge": 4096}, "processor_class": "Qwen3VLProcessor"}
    image |= {"image_processor_type": "Qwen2VLImageProcessor", **cut}
    video = {"size": {"shortest_edge": 4096, "longest_edge": 32768}, "processor_class": "Qwen3VLProcessor"}
    video |= {"video_processor_type": "Qwen3VLVideoProcessor", "fps": 2, "min_frames": 2, "max_frames": 8, **cut}
    (out / "preprocessor_config.json").write_text(json.dumps(image, indent=2) + "\n")
    (out / "video_preprocessor_config.json").write_text(json.dumps(video, indent=2) + "\n")
