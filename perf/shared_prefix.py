"""How much faster is a group computed with its prompt once? `python -m perf.shared_prefix`

One group of n responses to one video prompt on a random Qwen3-VL: forward and backward of the policy-gradient sum, as
one shared pack and as n separate packs packed together, by turns in one run. Times are CPU seconds of this process
(medians); the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from typing import Any

import numpy as np
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from easyvideor1.training import shared_prefix
from easyvideor1.training.logprobs import Features, response_logprobs
from easyvideor1.training.pack import Batch, pack_groups
from easyvideor1.types import Group, Prompt, Rollout, Sample, StopReason

VIDEO, START, END = 501, 502, 503
PATCH, MERGE, TEMPORAL_PATCH = 16, 2, 2


def build_model(*, hidden: int, layers: int) -> Any:
    """Random weights; two vision layers of 64."""
    heads, head_dim = 8, hidden // 8
    sections = [head_dim // 2 - 2 * (3 * head_dim // 16), 3 * head_dim // 16, 3 * head_dim // 16]
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": 512,
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": 2,
            "head_dim": head_dim,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_interleaved": True,
                "mrope_section": sections,
            },
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 192,
            "num_heads": 4,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": TEMPORAL_PATCH,
            "out_hidden_size": hidden,
            "deepstack_visual_indexes": [0],
            "num_position_embeddings": 256,
        },
        image_token_id=500,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="sdpa").train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(4)  # so that log-probs depend visibly on what a token may see
    shared_prefix.enable(model)
    return model


def build_group(model: Any, *, frames: int, side: int, n: int, response: int) -> tuple[Group, Features]:
    """A video of `frames` temporal patches, side x side patches each, and n responses of equal length."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 400, 16).tolist()
    for _ in range(frames):
        ids += [10, START] + [VIDEO] * (side // MERGE) ** 2 + [END]
    ids += [7, 8, 9]
    types = np.where(np.array(ids) == VIDEO, 2, 0)
    grid = torch.tensor([[frames, side, side]])
    positions, _ = model.model.get_rope_index(
        torch.tensor([ids]), mm_token_type_ids=torch.from_numpy(types)[None], video_grid_thw=grid
    )
    prompt = Prompt(
        sample=Sample(id="benchmark", problem_type="numerical", problem="", gold=""),
        text="",
        input_ids=np.array(ids),
        token_types=types,
        position_ids=positions[:, 0].numpy(),
        plans=(),
    )
    rollouts = tuple(
        Rollout(
            token_ids=tuple(rng.integers(0, 400, response).tolist()),
            text="",
            logprobs=None,
            stop_reason=StopReason.LENGTH,
        )
        for _ in range(n)
    )
    group = Group(prompt=prompt, rollouts=rollouts, advantages=tuple(rng.normal(size=n)), weights=(1.0,) * n)
    patches = rng.normal(size=(frames * side * side, 3 * TEMPORAL_PATCH * PATCH**2)).astype(np.float32)
    return group, {"pixel_values_videos": torch.from_numpy(patches), "video_grid_thw": grid}


def run(model: Any, batch: Batch, features: Features) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Forward and backward of all packs; returns log-probs by rollout, [n * response], and gradients."""
    model.zero_grad()
    found = []
    for pack in batch.packs:
        logprobs, _ = response_logprobs(model, pack, {0: features})
        (logprobs * pack.tokens.advantages).sum().backward()
        found.append((pack.tokens.sequence, logprobs.detach()))
    order = torch.cat([sequence for sequence, _ in found]).argsort(stable=True)
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return torch.cat([logprobs for _, logprobs in found])[order], gradients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=8, help="responses of the group")
    parser.add_argument("--response", type=int, default=48, help="tokens of each response")
    parser.add_argument("--frames", type=int, default=8, help="temporal patches of the video, 67 tokens each")
    parser.add_argument("--hidden", type=int, default=256, help="width of the text model")
    parser.add_argument("--layers", type=int, default=3, help="text layers")
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each way, after one for the comparison")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = build_model(hidden=args.hidden, layers=args.layers)
    group, features = build_group(model, frames=args.frames, side=16, n=args.n, response=args.response)
    separate_pack = 2 * (len(group.prompt) + args.response)
    batches = {
        "separate": pack_groups([group], tokens_per_pack=separate_pack, shared_prefix=False),
        "shared": pack_groups([group], tokens_per_pack=1, shared_prefix=True),
    }
    (separate, separate_grads), (shared, shared_grads) = (run(model, batch, features) for batch in batches.values())
    seconds: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(args.repeats):
        for name, batch in batches.items():
            start = time.process_time()
            run(model, batch, features)
            seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratios = sorted(a / b for a, b in zip(seconds["separate"], seconds["shared"], strict=True))
    result = {
        "benchmark": "shared_prefix",
        "speedup": round(medians["separate"] / medians["shared"], 2),
        "speedup_range": [round(ratios[0], 2), round(ratios[-1], 2)],
        "max_logprob_diff": (separate - shared).abs().max().item(),
        "max_grad_rel_diff": max(
            ((shared_grads[name] - grad).norm() / (grad.norm() + 1e-12)).item() for name, grad in separate_grads.items()
        ),
        "separate_cpu_s": round(medians["separate"], 3),
        "shared_cpu_s": round(medians["shared"], 3),
        "n": args.n,
        "prompt_tokens": len(group.prompt),
        "response_tokens": args.response,
        "computed_tokens": {name: batch.num_tokens for name, batch in batches.items()},
        "hidden": args.hidden,
        "layers": args.layers,
        "parameters": sum(p.numel() for p in model.parameters()),
        "repeats": args.repeats,
        "threads": args.threads,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
