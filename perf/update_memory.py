"""What does the memory of an update follow? `python -m perf.update_memory`

First the whole forward and backward of a group on a random Qwen3-VL, for several numbers of responses and bounds on the
tokens of a pack (`train.tokens_per_pack`): it should follow the bound, not the number of responses. Then the output
layer alone, forward and backward, for several numbers of tokens and vocabularies: it should follow neither (what grows
with the tokens is the gradient of their hidden states, what grows with the vocabulary is the weight's gradient; both
are listed). Peaks are above what was held before. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from typing import Any

import torch

from easyvideor1.training.head import CHUNK_BYTES, logprobs_and_entropy
from easyvideor1.training.logprobs import response_logprobs
from easyvideor1.training.pack import pack_groups
from perf.measure import measured, release_memory, return_freed_memory_at_once
from perf.shared_prefix import build_group, build_model

FRAMES = 15
"""Temporal patches of the video: a prompt of 1,024 tokens."""
VOCABULARIES = (32_768, 151_936)
HIDDEN_OF_HEAD = 64


def of_update(model: Any, *, lengths: Sequence[int], tokens_per_pack: int) -> dict[str, Any]:
    group, features = build_group(model, frames=FRAMES, lengths=lengths)
    batch = pack_groups([group], tokens_per_pack=tokens_per_pack)

    def update() -> None:
        for pack in batch.packs:
            logprobs, _ = response_logprobs(model, pack, {0: features})
            (logprobs * pack.tokens.advantages).sum().backward()

    model.zero_grad()
    release_memory()
    measure = measured(update)
    return {
        "responses": len(lengths),
        "response_tokens": lengths[0],
        "tokens_per_pack": tokens_per_pack,
        "packs": len(batch.packs),
        "largest_pack_tokens": max(pack.num_tokens for pack in batch.packs),
        "peak_mb": measure.peak_bytes >> 20,
        "cpu_s": round(measure.cpu_s, 1),
    }


def of_head(*, tokens: int, vocabulary: int) -> dict[str, Any]:
    hidden = torch.randn(tokens, HIDDEN_OF_HEAD, requires_grad=True)
    weight = torch.randn(vocabulary, HIDDEN_OF_HEAD, requires_grad=True)
    targets = torch.randint(0, vocabulary, (tokens,))

    def both() -> None:
        logprobs, _ = logprobs_and_entropy(hidden, weight, targets, temperature=1.0, with_entropy=True)
        logprobs.sum().backward()

    release_memory()
    measure = measured(both)
    return {
        "tokens": tokens,
        "vocabulary": vocabulary,
        "all_logits_mb": 4 * tokens * vocabulary >> 20,
        "gradients_mb": 4 * HIDDEN_OF_HEAD * (tokens + vocabulary) >> 20,
        "peak_mb": measure.peak_bytes >> 20,
        "cpu_s": round(measure.cpu_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--response", type=int, default=8192, help="tokens of each response")
    parser.add_argument("--responses", type=int, nargs="*", default=[4, 16], help="responses of the group")
    parser.add_argument("--bounds", type=int, nargs="*", default=[9_216, 18_432, 36_864], help="tokens of a pack")
    parser.add_argument("--tokens", type=int, nargs="*", default=[1_024, 4_096, 16_384], help="of the output layer")
    parser.add_argument("--hidden", type=int, default=128, help="width of the text model")
    parser.add_argument("--layers", type=int, default=3, help="text layers")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    return_freed_memory_at_once()
    head = []
    print("output layer: tokens  vocabulary  all logits  gradients  peak MB")
    for vocabulary in VOCABULARIES:
        for tokens in args.tokens:
            row = of_head(tokens=tokens, vocabulary=vocabulary)
            head.append(row)
            print(
                f"{tokens:20}  {vocabulary:10}  {row['all_logits_mb']:10}  {row['gradients_mb']:9}  {row['peak_mb']:7}",
                flush=True,
            )
    model = build_model(hidden=args.hidden, layers=args.layers)
    of_update(model, lengths=[8] * 2, tokens_per_pack=2048)  # first-time costs
    update = []
    print("update: responses x tokens  bound  packs  peak MB")
    for bound in args.bounds:
        for n in args.responses:
            row = of_update(model, lengths=[args.response] * n, tokens_per_pack=bound)
            update.append(row)
            print(f"{n:17} x {args.response:6}  {bound:5}  {row['packs']:5}  {row['peak_mb']:7}", flush=True)
    result = {
        "benchmark": "update_memory",
        "update": update,
        "head": head,
        "chunk_mb": CHUNK_BYTES >> 20,
        "hidden": args.hidden,
        "layers": args.layers,
        "threads": args.threads,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
