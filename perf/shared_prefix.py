"""How much faster is a group computed with its prompt once? `python -m perf.shared_prefix`

One group of n responses to one video prompt on a random Qwen3-VL: forward and backward of the policy-gradient sum, in
packs with the prompt once and in packs of separate rows, by turns in one run; both get the same bound on the tokens of
a pack, which the whole group just fills. Times are CPU seconds of this process (medians), memory is the peak above what
was held before. `--responses 64 512 2048 4096 --tail` adds a table over prompts and answer lengths, equal ones and
long-tailed ones (one long answer, the others an eighth of it). The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from easyvideor1.model.vision import Features
from easyvideor1.training import shared_prefix
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import Batch, pack_groups
from easyvideor1.types import Group, Prompt, Rollout, Sample, StopReason
from perf.measure import measured, release_memory

IMAGE, VIDEO, START, END = 500, 501, 502, 503
PATCH, MERGE, TEMPORAL_PATCH = 16, 2, 2
TABLE_FRAMES = (15, 31, 61)
"""Temporal patches of the table's videos: prompts of 1,038, 2,110 and 4,120 tokens."""
TURN_BUDGET_S = 20.0
"""CPU time of the turns of one case of the table; there are at least two."""


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
        image_token_id=IMAGE,
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


def build_group(
    model: Any, *, frames: int = 0, images: int = 0, lengths: Sequence[int], side: int = 16, seed: int = 0
) -> tuple[Group, Features]:
    """A group with a response of each length, and its vision inputs.

    Args:
        frames: temporal patches of a video, side x side patches each; 0: no video.
        images: images of the same size.
    """
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 400, 16).tolist()
    for _ in range(images):
        ids += [START] + [IMAGE] * (side // MERGE) ** 2 + [END]
    for _ in range(frames):
        ids += [10, START] + [VIDEO] * (side // MERGE) ** 2 + [END]
    ids += [7, 8, 9]
    types = np.array([{IMAGE: 1, VIDEO: 2}.get(token, 0) for token in ids])
    features: dict[str, torch.Tensor] = {}
    for num, rows, pixels, grid in (
        (images, [[1, side, side]] * images, "pixel_values", "image_grid_thw"),
        (frames, [[frames, side, side]], "pixel_values_videos", "video_grid_thw"),
    ):
        if num:
            patches = rng.normal(size=(num * side * side, 3 * TEMPORAL_PATCH * PATCH**2)).astype(np.float32)
            features |= {pixels: torch.from_numpy(patches), grid: torch.tensor(rows)}
    positions, _ = model.model.get_rope_index(
        torch.tensor([ids]),
        mm_token_type_ids=torch.from_numpy(types)[None],
        image_grid_thw=features.get("image_grid_thw"),
        video_grid_thw=features.get("video_grid_thw"),
    )
    prompt = Prompt(
        sample=Sample(id=f"benchmark {seed}", problem_type="numerical", problem="", gold=""),
        text="",
        input_ids=np.array(ids),
        token_types=types,
        position_ids=positions[:, 0].numpy(),
        plans=(),
    )
    rollouts = tuple(
        Rollout(
            token_ids=tuple(rng.integers(0, 400, length).tolist()),
            text="",
            logprobs=None,
            stop_reason=StopReason.LENGTH,
        )
        for length in lengths
    )
    n = len(lengths)
    group = Group(prompt=prompt, rollouts=rollouts, advantages=tuple(rng.normal(size=n)), weights=(1.0,) * n)
    return group, features


@dataclass(frozen=True, kw_only=True, eq=False)
class Turn:
    """One forward and backward of a whole group."""

    logprobs: torch.Tensor
    """[tokens of all responses], rollout by rollout."""
    gradients: dict[str, torch.Tensor]
    cpu_s: float
    peak_bytes: int


def run(model: Any, batch: Batch, features: Features) -> Turn:
    def forward_and_backward() -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = []
        for pack in batch.packs:
            logprobs, _ = response_logprobs(model, pack, {0: features})
            (logprobs * pack.tokens.advantages).sum().backward()
            found.append((pack.tokens.sequence, logprobs.detach()))
        return found

    model.zero_grad()
    measure = measured(forward_and_backward)
    order = torch.cat([sequence for sequence, _ in measure.value]).argsort(stable=True)
    return Turn(
        logprobs=torch.cat([logprobs for _, logprobs in measure.value])[order],
        gradients={name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None},
        cpu_s=measure.cpu_s,
        peak_bytes=measure.peak_bytes,
    )


def compare(model: Any, *, frames: int, lengths: Sequence[int], turns: int | None) -> dict[str, Any]:
    """Both ways by turns, after a first turn for the numbers; `turns` None: as many as the budget allows."""
    group, features = build_group(model, frames=frames, lengths=lengths)
    bound = len(group.prompt) + sum(lengths)
    batches = {
        "separate": pack_groups([group], tokens_per_pack=bound, form="separate"),
        "shared": pack_groups([group], tokens_per_pack=bound, form="shared"),
    }
    first = {}
    for name, batch in batches.items():
        release_memory()
        first[name] = run(model, batch, features)
    if turns is None:
        turns = max(2, min(5, int(TURN_BUDGET_S / sum(turn.cpu_s for turn in first.values()))))
    cpu_s: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(turns):
        for name, batch in batches.items():
            cpu_s[name].append(run(model, batch, features).cpu_s)
    medians = {name: statistics.median(times) for name, times in cpu_s.items()}
    ratios = sorted(a / b for a, b in zip(cpu_s["separate"], cpu_s["shared"], strict=True))
    separate, shared = first["separate"], first["shared"]
    return {
        "prompt_tokens": len(group.prompt),
        "response_tokens": lengths[0] if len(set(lengths)) == 1 else list(lengths),
        "speedup": round(medians["separate"] / medians["shared"], 2),
        "speedup_range": [round(ratios[0], 2), round(ratios[-1], 2)],
        "memory_ratio": round(shared.peak_bytes / separate.peak_bytes, 2),
        "max_logprob_diff": (separate.logprobs - shared.logprobs).abs().max().item(),
        "max_grad_rel_diff": max(
            ((shared.gradients[name] - grad).norm() / (grad.norm() + 1e-12)).item()
            for name, grad in separate.gradients.items()
        ),
        "separate_cpu_s": round(medians["separate"], 3),
        "shared_cpu_s": round(medians["shared"], 3),
        "separate_peak_mb": separate.peak_bytes >> 20,
        "shared_peak_mb": shared.peak_bytes >> 20,
        "computed_tokens": {name: batch.num_tokens for name, batch in batches.items()},
        "turns": turns,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=8, help="responses of the group")
    parser.add_argument("--response", type=int, default=48, help="tokens of each response of the first case")
    parser.add_argument("--frames", type=int, default=8, help="temporal patches of its video, 67 tokens each")
    parser.add_argument("--responses", type=int, nargs="*", default=[], help="answer lengths of the table")
    parser.add_argument(
        "--table-frames",
        type=int,
        nargs="*",
        default=TABLE_FRAMES,
        help="temporal patches of its videos, 67 tokens each",
    )
    parser.add_argument("--tail", action="store_true", help="the table has long-tailed answers as well as equal ones")
    parser.add_argument("--hidden", type=int, default=256, help="width of the text model")
    parser.add_argument("--layers", type=int, default=3, help="text layers")
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each way in the first case")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = build_model(hidden=args.hidden, layers=args.layers)
    first = compare(model, frames=args.frames, lengths=[args.response] * args.n, turns=args.repeats)
    table = []
    print("prompt  answers             speedup  (range)        memory  log-probs  gradients")
    for frames in args.table_frames if args.responses else ():
        for length in args.responses:
            shapes = [[length] * args.n]
            if args.tail:
                shapes.append([length, *[max(1, length // 8)] * (args.n - 1)])
            for lengths in shapes:
                row = compare(model, frames=frames, lengths=lengths, turns=None)
                table.append(row)
                name = f"{args.n} x {length}" if len(set(lengths)) == 1 else f"{length} + {args.n - 1} x {lengths[1]}"
                print(
                    f"{row['prompt_tokens']:6}  {name:18}  {row['speedup']:6.2f}   {row['speedup_range']!s:14}"
                    f" {row['memory_ratio']:5.2f}   {row['max_logprob_diff']:.1e}    {row['max_grad_rel_diff']:.1e}",
                    flush=True,
                )
    result = {
        "benchmark": "shared_prefix",
        **first,
        "max_logprob_diff": max(row["max_logprob_diff"] for row in [first, *table]),
        "max_grad_rel_diff": max(row["max_grad_rel_diff"] for row in [first, *table]),
        "table": table,
        "n": args.n,
        "hidden": args.hidden,
        "layers": args.layers,
        "parameters": sum(p.numel() for p in model.parameters()),
        "threads": args.threads,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
