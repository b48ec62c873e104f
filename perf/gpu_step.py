"""How much faster is an update of a real model on a GPU? `python -m perf.gpu_step --size 2B`

One group of n responses to a prompt with a cached video of 128 frames on a random Qwen3-VL in bfloat16: answers of one
length, and a long tail (one long answer, the others an eighth of it). The other way is that of trainers on separate
rows without padding: one rollout per forward with its own prompt and its own run of the vision tower, old log-probs by
a pass of their own. Both ways make whole updates (forward, backward, AdamW on float32 weights), by turns in one run.

Also: attention on this device against the CPU's in float32, and a checkpoint restored on the device. `--size tiny
--device cpu` runs the same on any machine; there times are CPU seconds and no share of a peak is given. The last line
is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from easyvideor1.algo.algorithms import ALGORITHMS
from easyvideor1.algo.credit import normalizer, with_credit
from easyvideor1.config_train import OptimizerConfig
from easyvideor1.training import checkpoint, shared_prefix, shelf
from easyvideor1.training.attention import pack_attention
from easyvideor1.training.checkpoint import RunState
from easyvideor1.training.layout import GroupLayout, PackLayout
from easyvideor1.training.minibatch import Idle, Minibatch, minibatches
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.policy import Policy
from easyvideor1.types import Score
from perf.measure import measured, release_memory
from perf.shared_prefix import END, IMAGE, START, VIDEO, build_group

ALGORITHM = ALGORITHMS["grpo"]
BF16_PEAK_FLOPS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "B200": 2250e12}
"""Dense products of bfloat16 per second, by the makers' data sheets."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """Numbers of a model, those of the Qwen3-VL of this name."""

    hidden: int
    layers: int
    heads: int
    key_heads: int
    head_dim: int
    mlp: int
    vocabulary: int
    vision_layers: int
    vision_hidden: int
    vision_mlp: int
    vision_heads: int
    levels: tuple[int, ...]
    """Layers of the vision tower whose output goes into the first text layers."""


LARGE_TOWER = {
    "vision_layers": 24, "vision_hidden": 1024, "vision_mlp": 4096, "vision_heads": 16, "levels": (5, 11, 17)
}  # fmt: skip
SIZES = {
    "tiny": Size(
        hidden=128, layers=2, heads=4, key_heads=2, head_dim=32, mlp=256, vocabulary=2048,
        vision_layers=2, vision_hidden=64, vision_mlp=128, vision_heads=4, levels=(0,),
    ),
    "2B": Size(
        hidden=2048, layers=28, heads=16, key_heads=8, head_dim=128, mlp=6144, vocabulary=151_936, **LARGE_TOWER
    ),
    "4B": Size(
        hidden=2560, layers=36, heads=32, key_heads=8, head_dim=128, mlp=9728, vocabulary=151_936, **LARGE_TOWER
    ),
}  # fmt: skip


def build_model(size: Size, *, device: str, dtype: torch.dtype) -> Any:
    """Random weights, made on the device."""
    half = size.head_dim // 2
    side = 3 * half // 8
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": size.vocabulary,
            "hidden_size": size.hidden,
            "intermediate_size": size.mlp,
            "num_hidden_layers": size.layers,
            "num_attention_heads": size.heads,
            "num_key_value_heads": size.key_heads,
            "head_dim": size.head_dim,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True,
                "mrope_section": [half - 2 * side, side, side],
            },
        },
        vision_config={
            "depth": size.vision_layers,
            "hidden_size": size.vision_hidden,
            "intermediate_size": size.vision_mlp,
            "num_heads": size.vision_heads,
            "out_hidden_size": size.hidden,
            "deepstack_visual_indexes": list(size.levels),
        },
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
        vision_end_token_id=END,
        tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device(device):
        model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="sdpa", dtype=dtype)
    shared_prefix.enable(model)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


class Update:
    """One group on a model, and the two ways of making an update of it."""

    def __init__(self, model: Any, *, lengths: Sequence[int], frames: int, side: int) -> None:
        self.model = model
        group, self.features = build_group(model, frames=frames // 2, side=side, lengths=lengths)
        scores = tuple(Score(value=float(index % 2)) for index in range(len(lengths)))
        [self.group] = with_credit([replace(group, scores=scores)], ALGORITHM)
        self.longest = max(lengths)
        self.policy = Policy(
            model,
            algorithm=ALGORITHM,
            optimizer=OptimizerConfig(learning_rate=1e-6),
            total_steps=1,
            temperature=1.0,
        )

    @property
    def tokens_per_pack(self) -> int:
        """The bound of both ways: the longest rollout with its prompt, twice."""
        return 2 * (len(self.group.prompt) + self.longest)

    def ours(self) -> None:
        works = minibatches(
            [self.group],
            lambda index: self.features,
            ALGORITHM,
            num_updates=1,
            tokens_per_pack=self.tokens_per_pack,
            form="shared",
            max_response_tokens=self.longest,
        )
        self.policy.update(works, step=0)

    def separate(self) -> None:
        """A pack per rollout, old log-probs first."""
        alone = [
            replace(self.group, rollouts=(rollout,), scores=(score,), advantages=(advantage,), weights=(weight,))
            for rollout, score, advantage, weight in zip(
                self.group.rollouts, self.group.scores, self.group.advantages, self.group.weights, strict=True
            )
        ]
        work = Minibatch(
            batch=pack_groups(alone, tokens_per_pack=len(self.group.prompt) + self.longest, form="separate"),
            media=dict.fromkeys(range(len(alone)), self.features),
            normalizer=normalizer([self.group], ALGORITHM, max_response_tokens=self.longest),
            idle=Idle(),
        )
        self.policy._old_logprobs(work)
        self.policy.update([work], step=0)

    def flops(self) -> float:
        """Products of our update, 6 per weight of the text model and token, checkpointed layers not counted twice."""
        text = sum(weight.numel() for name, weight in self.model.named_parameters() if "language_model" in name)
        rollouts: Sequence[Any] = self.group.rollouts
        tokens = len(self.group.prompt) + sum(len(rollout.token_ids) for rollout in rollouts)
        return 6.0 * text * tokens


def timed(call: Callable[[], None], device: str) -> tuple[float, int]:
    """(seconds, peak bytes): wall time on a GPU, CPU time on a CPU."""
    if device == "cpu":
        release_memory()
        found = measured(call)
        return found.cpu_s, found.peak_bytes
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - started, torch.cuda.max_memory_allocated()


def attention_difference(device: str, dtype: torch.dtype) -> float:
    """Largest difference of output and gradients from the CPU's in float32, relative to the largest value."""
    layout = PackLayout.of([GroupLayout(num_prompt=300, lengths=(40, 7, 129)), GroupLayout(num_prompt=5, lengths=(3,))])
    rng = torch.Generator().manual_seed(0)
    num_tokens = layout.num_tokens
    heads = [torch.randn(num_tokens, count, 64, generator=rng) for count in (8, 2, 2)]
    weight = torch.randn(num_tokens, 8, 64, generator=rng)
    results = []
    for kind, where in ((torch.float32, "cpu"), (dtype, device)):
        query, key, value = leaves = [tensor.to(where, kind).requires_grad_() for tensor in heads]
        out = pack_attention(query, key, value, layout.to(where), scale=0.125)
        (out.float() * weight.to(where)).sum().backward()
        results.append([out.detach(), *(leaf.grad for leaf in leaves)])
    worst = 0.0
    for expected, found in zip(*results, strict=True):
        assert expected is not None
        assert found is not None
        worst = max(worst, ((found.float().cpu() - expected).abs().max() / expected.abs().max()).item())
    return worst


def resumes(update: Update, again: Callable[[], Any]) -> bool:
    """Whether a checkpoint gives a new model the same weights and moments, on the same device."""
    policy = update.policy
    state = RunState(step=1, cursor=0, validated_step=-1)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.Saver(Path(folder), keep=1).save(
            model=policy.model, masters=policy.masters, optimizer=policy.optimizer, state=state
        )
        saved = shelf.list_checkpoints(Path(folder))[-1]
        model = again()
        stored = type(model).from_pretrained(saved / "model", dtype=model.dtype, local_files_only=True)
        model.load_state_dict(stored.state_dict())
        other = Policy(model, algorithm=ALGORITHM, optimizer=OptimizerConfig(), total_steps=1, temperature=1.0)
        checkpoint.load_optimizer(saved, masters=other.masters, optimizer=other.optimizer)
    weights = zip(policy.model.parameters(), model.parameters(), strict=True)
    same = all(torch.equal(first, second) for first, second in weights)
    moments = [
        [optimizer.state[weight]["exp_avg"] for weight in masters.by_name.values() if weight in optimizer.state]
        for masters, optimizer in ((policy.masters, policy.optimizer), (other.masters, other.optimizer))
    ]
    return same and all(
        first.device == second.device and torch.equal(first, second) for first, second in zip(*moments, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="2B")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--n", type=int, default=8, help="responses of the group")
    parser.add_argument("--frames", type=int, default=128, help="frames of the video")
    parser.add_argument("--side", type=int, default=16, help="patches of a frame's side")
    parser.add_argument("--equal", type=int, default=512, help="tokens of each answer")
    parser.add_argument("--tail", type=int, default=4096, help="tokens of the long answer of a long tail")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each way, after one to warm up")
    args = parser.parse_args()
    dtype = torch.bfloat16 if args.device != "cpu" else torch.float32
    torch.manual_seed(0)

    def new_model() -> Any:
        return build_model(SIZES[args.size], device=args.device, dtype=dtype)

    model, table = new_model(), []
    cases = {"equal": [args.equal] * args.n, "long tail": [args.tail] + [args.tail // 8] * (args.n - 1)}
    update: Update | None = None
    for name, lengths in cases.items():
        update = None  # its optimizer's memory is free before the next one's is taken
        update = Update(model, lengths=lengths, frames=args.frames, side=args.side)
        table.append({"answers": name, **_compared(update, args)})
        print(table[-1])
    assert update is not None
    result = {
        "benchmark": "gpu_step",
        "device": torch.cuda.get_device_name() if args.device != "cpu" else platform.machine(),
        "size": args.size,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "n": args.n,
        "speedup": min(row["speedup"] for row in table),
        "table": table,
        "attention_max_rel_diff": attention_difference(args.device, dtype),
        "resumes": resumes(update, new_model),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


def _compared(update: Update, args: argparse.Namespace) -> dict[str, Any]:
    ways = {"separate": update.separate, "ours": update.ours}
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
    for _ in range(args.repeats + 1):
        for name, way in ways.items():
            found[name].append(timed(way, args.device))
    seconds = {name: statistics.median(item[0] for item in times[1:]) for name, times in found.items()}
    prompt, lengths = len(update.group.prompt), [len(rollout.token_ids) for rollout in update.group.rollouts]
    row = {
        "prompt_tokens": prompt,
        "answer_tokens": [max(lengths), min(lengths)],
        "speedup": round(seconds["separate"] / seconds["ours"], 2),
        "separate_s": round(seconds["separate"], 3),
        "ours_s": round(seconds["ours"], 3),
        "separate_peak_mb": max(item[1] for item in found["separate"]) >> 20,
        "peak_mb": max(item[1] for item in found["ours"]) >> 20,
        "answer_tokens_per_s": round(sum(lengths) / seconds["ours"]),
    }
    name = torch.cuda.get_device_name() if args.device != "cpu" else ""
    peak = next((flops for card, flops in BF16_PEAK_FLOPS.items() if card in name), None)
    if peak is not None:
        row["share_of_bf16_peak"] = round(update.flops() / seconds["ours"] / peak, 3)
    return row


if __name__ == "__main__":
    main()
