"""How even is the work of a step over many ranks? `python -m perf.balance`

Batches of 256 groups of 8 responses to videos whose lengths have a long tail are dealt to simulated ranks, by the cost
of Qwen3-VL-8B. Video lengths are log-normal, sampled at 2 fps up to 128 frames of 262,144 pixels; responses are
log-normal up to 4,096 tokens. `imbalance` is the largest cost of a rank over the mean, the worst of all batches;
`above_bound` is the largest cost over what no deal can be below (the mean of whole groups, or the largest prompt with
one response, which cannot be cut). A second distribution of mostly short clips shows where that bound rules. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from easyvideor1.training.balance import Costs, GroupCost, deal

QWEN3_VL_8B = Costs(
    token=36 * (4096 * (4096 + 2 * 1024 + 4096) + 3 * 4096 * 12_288),
    pair=36 * 2 * 32 * 128,
    vision=4 * 27 * (4 * 1152 * 1152 + 2 * 1152 * 4304),
    output=151_936 * 4096,
)
"""36 layers of width 4,096 with 32 heads over 8 keys; a tower of 27 layers of width 1,152, 4 patches to a token."""
GROUPS, RESPONSES = 256, 8
TOKENS_PER_TEMPORAL_PATCH, TEXT_TOKENS, TIME_TOKENS = 252, 100, 8
"""Of two frames of 448 x 576 px; of the question; of a time mark."""
MEDIAN_RESPONSE_TOKENS, SPREAD_OF_RESPONSES = 600, 0.8
LIMITS = {8: 1.05, 32: 1.10, 256: 1.25}


def group(rng: np.random.Generator, *, median_s: float, spread: float) -> GroupCost:
    seconds = rng.lognormal(np.log(median_s), spread)
    patches = (int(np.clip(round(2 * seconds), 4, 128)) + 1) // 2
    vision = patches * TOKENS_PER_TEMPORAL_PATCH
    tokens = vision + TEXT_TOKENS + patches * TIME_TOKENS
    lengths = np.clip(rng.lognormal(np.log(MEDIAN_RESPONSE_TOKENS), SPREAD_OF_RESPONSES, RESPONSES), 16, 4096)
    return GroupCost(
        prompt=QWEN3_VL_8B.prompt(num_tokens=tokens, num_vision=vision),
        responses=tuple(QWEN3_VL_8B.response(int(length), num_prompt=tokens) for length in lengths),
    )


def measured(batches: Sequence[Sequence[GroupCost]], *, num_ranks: int) -> dict[str, Any]:
    imbalance, above, again, seconds = [], [], [], []
    for batch in batches:
        start = time.process_time()
        dealt = deal(batch, num_ranks=num_ranks)
        seconds.append(time.process_time() - start)
        whole = sum(group.whole for group in batch)
        bound = max(whole / num_ranks, max(group.prompt + min(group.responses) for group in batch))
        imbalance.append(dealt.imbalance)
        above.append(max(dealt.costs) / bound)
        again.append(sum(dealt.costs) / whole - 1)
    return {
        "ranks": num_ranks,
        "imbalance": round(max(imbalance), 4),
        "imbalance_mean": round(float(np.mean(imbalance)), 4),
        "above_bound": round(max(above), 4),
        "computed_again_frac": round(float(np.mean(again)), 4),
        "deal_cpu_s": round(float(np.mean(seconds)), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=200)
    args = parser.parse_args()
    table = []
    for name, median_s, spread in (("median 40 s", 40.0, 1.0), ("median 20 s", 20.0, 1.0)):
        rng = np.random.default_rng(0)
        batches = [[group(rng, median_s=median_s, spread=spread) for _ in range(GROUPS)] for _ in range(args.batches)]
        for num_ranks in LIMITS:
            table.append({"videos": name, **measured(batches, num_ranks=num_ranks)})
            print(table[-1], flush=True)
    first = {line["ranks"]: line["imbalance"] for line in table if line["videos"] == "median 40 s"}
    print(
        json.dumps(
            {
                "batches": args.batches,
                "max_imbalance": first,
                "within_limits": all(first[ranks] <= limit for ranks, limit in LIMITS.items()),
                "table": table,
                "machine": platform.machine(),
            }
        )
    )


if __name__ == "__main__":
    main()
