"""Is loading hidden behind sampling and training, and sampling behind training? `python -m perf.pipeline`

The real trainer over the demo's data, with decoding, sampling and updates that sleep instead of working, so that two
cores are enough to see what waits for what. Frames are never in a cache. With `l` seconds of loading in all samples of
a step, `w` workers, `r` of sampling and `t` of training, a step cannot be shorter than

    async_level 0:  max(l / w, r + t)        async_level 1:  max(l / w, r, t)

`over_limit` is the mean time of the steps after the first two over that; `before` is the time without anything made
ahead (data.ahead_mb=0, one worker). The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.data.samples import read_samples
from easyvideor1.demo.dataset import build_dataset
from easyvideor1.demo.setup import demo_config
from easyvideor1.records.tally import Tally
from easyvideor1.report.read import read_metrics
from easyvideor1.report.terminal import open_progress
from easyvideor1.rollout.engine import Request
from easyvideor1.runs.models import load_models
from easyvideor1.runs.parts import Parts, opened
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks
from easyvideor1.training.trainer import Trainer
from easyvideor1.types import Clip, MediaPlan, Rollout, Score, StopReason
from easyvideor1.video.decode import decode

PROMPTS = 16
CASES: dict[str, dict[str, Any]] = {
    "loading is less than the rest": {"load_s": 4.0, "rollout_s": 1.5, "train_s": 1.0},
    "loading is more than the rest": {"load_s": 12.0, "rollout_s": 1.0, "train_s": 1.0},
    "sampling beside training": {"load_s": 2.0, "rollout_s": 2.0, "train_s": 1.5, "level": 1},
    "training beside sampling": {"load_s": 2.0, "rollout_s": 1.5, "train_s": 2.0, "level": 1},
}
WORKERS = 4


class SleepingEngine:
    """Answers of two tokens, all after so many seconds."""

    def __init__(self, rollout_s: float) -> None:
        self._rollout_s, self._version = rollout_s, 0
        self.banned_hits, self.needs_still_actor = 0, False

    def awake(self) -> Any:
        return contextlib.nullcontext()

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        asked = [request for request in requests if request is not None]
        time.sleep(self._rollout_s)
        for place, request in enumerate(asked):
            rollout = Rollout(
                token_ids=(1, 2),
                text="A",
                logprobs=(-1.0, -1.0),
                stop_reason=StopReason.EOS,
                weights_version=self._version,
            )
            yield place, (rollout,) * request.sampling.n

    def load_weights(self, tensors: object, *, version: int) -> None:
        self._version = version


class SlowClips:
    """Decodes each clip once, and takes as long every time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[str, Clip] = {}

    def load(self, plan: MediaPlan) -> Clip:
        if plan.cache_key not in self._known:
            self._known[plan.cache_key] = decode(plan)
        time.sleep(self._seconds)
        return self._known[plan.cache_key]


def alternating(items: Any) -> list[Score]:
    return [Score(value=place % 2, parts={"accuracy": place % 2, "format": 1.0}) for place in range(len(items))]


def step_s(folder: Path, name: str, words: list[str], *, load_s: float, rollout_s: float, train_s: float) -> float:
    """Mean time of the steps after the first two."""
    config = demo_config(folder, seed=0, overrides=[*words, f"out={folder / name}", "data.validation=[]"])
    with opened(config) as parts:
        trainer = made(config, parts, load_s=load_s, rollout_s=rollout_s, train_s=train_s)
        trainer.run()
    found = [record for record in read_metrics(folder / name / "metrics.jsonl") if "time/step_s" in record]
    return statistics.fmean(record["time/step_s"] for record in found[2:])


def made(config: Any, parts: Parts, *, load_s: float, rollout_s: float, train_s: float) -> Trainer:
    algorithm = fitting_algorithm(config)
    ranks = Ranks()
    models = load_models(config, ranks, algorithm=algorithm, resume_from=None)
    policy = Policy(
        models.policy,
        algorithm=algorithm,
        optimizer=config.optimizer,
        total_steps=config.train.steps,
        temperature=1.0,
        ranks=ranks,
    )

    def update(minibatches: object, *, step: int, passes: int) -> Tally:
        time.sleep(train_s)
        tally = Tally()
        tally.add("update/model_tokens", total=1.0)
        return tally

    policy.update = update  # type: ignore[method-assign]
    samples = [sample for sample in read_samples(config.data.train[0].path) if sample.media]  # each is loaded
    slow = SlowClips(load_s / PROMPTS)
    for sample in samples:
        for plan in parts.prepare.prompt(sample).plans:
            slow._known.setdefault(plan.cache_key, decode(plan))
    parts.prepare._clips = slow
    return Trainer(
        config,
        samples=samples,
        prepare=parts.prepare,
        engine=SleepingEngine(rollout_s),
        policy=policy,
        algorithm=algorithm,
        score=alternating,
        evaluate=None,
        progress=open_progress(title="pipeline", total_steps=config.train.steps, console=Console(quiet=True)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7)
    args = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_dataset(folder / "data", 0)
        usual = [f"train.steps={args.steps}", f"train.prompts_per_step={PROMPTS}", "train.checkpoint_every=0"]
        for number, (title, case) in enumerate(CASES.items()):
            seconds, level = {key: value for key, value in case.items() if key != "level"}, case.get("level", 0)
            load_s, rollout_s, train_s = seconds.values()
            work = max(rollout_s, train_s) if level else rollout_s + train_s
            limit = max(load_s / WORKERS, work)
            words = [*usual, f"data.workers={WORKERS}", f"train.async_level={level}"]
            found = step_s(folder, f"now{number}", words, **seconds)
            plain = [*usual, "data.workers=1", "data.ahead_mb=0", "train.steps=4"]
            before = step_s(folder, f"before{number}", plain, **seconds)
            rows[title] = {
                **case, "limit_s": round(limit, 2), "step_s": round(found, 2),
                "over_limit": round(found / limit, 3), "before_s": round(before, 2),
            }  # fmt: skip
            print(title, rows[title], flush=True)
    result = {"benchmark": "pipeline", "prompts": PROMPTS, "workers": WORKERS, "cases": rows}
    print(json.dumps(result | {"machine": platform.machine()}))


if __name__ == "__main__":
    main()
