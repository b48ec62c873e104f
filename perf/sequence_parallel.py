"""What does a rank keep for the backward of a pack that several compute together? `python -m perf.sequence_parallel`

Forward and backward of one pack (a video, a prompt and its responses) on a random Qwen3-VL that every rank has whole:
by one process, and by `--ranks` processes with sequence parallelism. Of each rank: the bytes that autograd saves (each
piece of memory once, weights left out), the peak of its memory above what was held before, CPU seconds, and how far its
log-probs are from those of one process. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from easyvideor1.config import ParallelConfig
from easyvideor1.training import sequence
from easyvideor1.training.forward import PackForward
from easyvideor1.training.pack import pack_groups
from easyvideor1.training.ranks import Ranks, joined
from perf.measure import measured, release_memory, return_freed_memory_at_once
from perf.shared_prefix import build_group, build_model

TOKENS_PER_FRAME = 66


def measure(folder: Path, ranks: Ranks) -> None:
    """On each rank; the first one of one process leaves its log-probs for the others."""
    options = json.loads((folder / "options.json").read_text())
    torch.manual_seed(0)
    model = build_model(hidden=options["hidden"], layers=options["layers"])
    group, features = build_group(model, frames=options["frames"], lengths=[options["response"]] * options["n"])
    [pack] = pack_groups([group], tokens_per_pack=1 << 20).packs
    forward = PackForward(model, sequence=sequence.join(ranks, ParallelConfig(sequence=ranks.size)))
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in weights:
            saved[memory.data_ptr()] = memory.nbytes()
        return tensor

    def update() -> torch.Tensor:
        logprobs = forward(pack, {0: features}, temperature=1.0, with_entropy=True).logprobs
        (logprobs * pack.tokens.advantages).sum().backward()
        return logprobs.detach()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logprobs = update()
    model.zero_grad(set_to_none=False)
    release_memory()
    found = measured(update)
    if ranks.size == 1:
        torch.save(logprobs, folder / "logprobs.pt")
    expected = torch.load(folder / "logprobs.pt", weights_only=True)
    own = {
        "tokens": pack.num_tokens,
        "saved_mb": round(sum(saved.values()) / 2**20, 1),
        "peak_mb": found.peak_bytes >> 20,
        "cpu_s": round(found.cpu_s, 2),
        "distance": float((logprobs - expected).abs().max()),
    }
    of_all = ranks.gather(own, of="measures")
    if ranks.is_first:
        (folder / f"result{ranks.size}.json").write_text(json.dumps(of_all))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=256, help="width of the text model")
    parser.add_argument("--layers", type=int, default=4, help="text layers")
    parser.add_argument("--tokens", type=int, default=4096, help="of the video")
    parser.add_argument("--response", type=int, default=512, help="tokens of each response")
    parser.add_argument("--responses", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank-of", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    return_freed_memory_at_once()
    if args.rank_of:
        with joined(timeout_s=600) as ranks:
            measure(args.rank_of, ranks)
        return
    options: dict[str, Any] = {
        "hidden": args.hidden,
        "layers": args.layers,
        "frames": args.tokens // TOKENS_PER_FRAME,
        "response": args.response,
        "n": args.responses,
    }
    found = {}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "options.json").write_text(json.dumps(options))
        for size in (1, args.ranks):
            launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size)]
            subprocess.run([*launcher, "-m", "perf.sequence_parallel", "--rank-of", name], check=True)
            found[size] = json.loads((Path(name) / f"result{size}.json").read_text())
            for rank, row in enumerate(found[size]):
                print(f"{size} ranks, rank {rank}: {row}", flush=True)
    [alone] = found[1]
    together = found[args.ranks]
    result = {
        "benchmark": "sequence_parallel",
        **options,
        "ranks": args.ranks,
        "alone": alone,
        "together": together,
        "saved_ratio": round(alone["saved_mb"] / max(row["saved_mb"] for row in together), 2),
        "peak_ratio": round(alone["peak_mb"] / max(row["peak_mb"] for row in together), 2),
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
