"""How fast are rollouts sampled beside Transformers' generate? `OMP_NUM_THREADS=1 python -m perf.rollout`

The demo's model samples 8 responses to each of its own training questions, by this project's engine and by
`generate(num_return_sequences=8)` in padded batches, by turns in one run: responses as long as the model makes them,
and of a fixed length. Times are CPU seconds of this process (medians); the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.samples import read_samples
from easyvideor1.demo.dataset import build_dataset
from easyvideor1.demo.setup import MODEL, demo_config
from easyvideor1.model.load import load_model
from easyvideor1.model.vision import join_inputs
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.parts import opened
from easyvideor1.types import Example
from perf.measure import Measure, measured

N = 8
FIXED = (40, 256)
"""Tokens of responses that may not end themselves."""


def examples(count: int, folder: Path) -> tuple[list[Example], Any]:
    """The first questions of the demo's training data, and the encoder."""
    build_dataset(folder / "data", 0)
    config = demo_config(folder, seed=0, overrides=[])
    source: SourceConfig = config.data.train[0]
    with opened(config) as parts:
        samples = read_samples(source.path)[:count]
        return [parts.prepare(sample) for sample in samples], parts.encoder


def by_engine(engine: HFEngine, asked: Sequence[Example], *, limit: int, seed: int) -> int:
    """Number of tokens that were sampled."""
    sampling = Sampling(n=N, max_response_tokens=limit)
    with engine.awake():
        groups = engine.generate([Request(example=item, sampling=sampling, seed=seed) for item in asked])
        return sum(len(rollout.token_ids) for _, rollouts in groups for rollout in rollouts)


def by_generate(model: Any, encoder: Any, asked: Sequence[Example], *, limit: int, prompts: int, ends: bool) -> int:
    model.eval()
    banned = [*encoder.banned_ids, *(() if ends else encoder.end_ids)]
    num_tokens = 0
    for start in range(0, len(asked), prompts):
        batch = asked[start : start + prompts]
        length = max(len(item.prompt) for item in batch)
        ids, mask = torch.full((len(batch), length), encoder.pad_id), torch.zeros(len(batch), length, dtype=torch.int64)
        types = torch.zeros(len(batch), length, dtype=torch.int64)
        for row, item in enumerate(batch):
            ids[row, length - len(item.prompt) :] = torch.from_numpy(item.prompt.input_ids)
            mask[row, length - len(item.prompt) :] = 1
            types[row, length - len(item.prompt) :] = torch.from_numpy(item.prompt.token_types)
        with torch.no_grad():
            sequences = model.generate(
                input_ids=ids,
                attention_mask=mask,
                mm_token_type_ids=types,
                **join_inputs(item.features for item in batch),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                num_return_sequences=N,
                max_new_tokens=limit,
                suppress_tokens=banned,
                eos_token_id=list(encoder.end_ids),
                pad_token_id=encoder.pad_id,
            )
        responses = sequences[:, length:]
        is_end = torch.isin(responses, torch.tensor(encoder.end_ids))
        num_tokens += int((is_end.cumsum(1) - is_end.long() == 0).sum())
    return num_tokens


def per_token(measures: Sequence[Measure[int]]) -> float:
    """CPU seconds per token."""
    return statistics.median(item.cpu_s / item.value for item in measures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=64, help="questions that are answered")
    parser.add_argument("--batch", type=int, default=16, help="questions of a batch of generate")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each, after one to warm up")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = demo_config(Path(folder), seed=0, overrides=[])
        asked, encoder = examples(args.prompts, Path(folder))
    model = load_model(config.model)
    table = []
    for limit, ends in ((config.rollout.max_response_tokens, True), *((tokens, False) for tokens in FIXED)):
        part = asked if ends else asked[: args.batch]
        engine = HFEngine(model, encoder, tokens_per_batch=config.rollout.tokens_per_batch)
        ours: list[Measure[int]] = []
        theirs: list[Measure[int]] = []
        for turn in range(args.repeats + 1):
            banned = encoder.banned_ids
            if not ends:
                encoder.banned_ids = (*banned, *encoder.end_ids)
                engine = HFEngine(model, encoder, tokens_per_batch=config.rollout.tokens_per_batch)
            ours.append(measured(partial(by_engine, engine, part, limit=limit, seed=turn)))
            encoder.banned_ids = banned
            theirs.append(
                measured(partial(by_generate, model, encoder, part, limit=limit, prompts=args.batch, ends=ends))
            )
        ours, theirs = ours[1:], theirs[1:]
        table.append(
            {
                "responses": "as the model ends them" if ends else limit,
                "prompt_tokens_mean": round(statistics.mean(len(item.prompt) for item in part), 1),
                "response_tokens_mean": round(statistics.mean(item.value for item in ours) / len(part) / N, 1),
                "tokens_per_cpu_s": round(1 / per_token(ours)),
                "generate_tokens_per_cpu_s": round(1 / per_token(theirs)),
                "ratio": round(per_token(theirs) / per_token(ours), 2),
                "peak_mb": round(max(item.peak_bytes for item in ours) / 2**20),
                "generate_peak_mb": round(max(item.peak_bytes for item in theirs) / 2**20),
            }
        )
        print(table[-1])
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    print(json.dumps({"benchmark": "rollout", "model": MODEL.name, "n": N, "table": table, **versions} | {
        "machine": platform.machine()
    }))  # fmt: skip


if __name__ == "__main__":
    main()
