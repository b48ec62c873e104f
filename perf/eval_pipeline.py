"""How fast are benchmarks answered? `python -m perf.eval_pipeline`

On clips of several minutes, in one run, page cache warm for everybody:
(a) overlap: real decoding, and an engine that sleeps per token with 8 slots as a GPU would. The limit is the largest of
    CPU seconds of loading / workers, seconds of the engine, and all CPU seconds / cores, each measured alone in that
    round; `pipeline_over_limit` is the time of both together over it.
(b) work avoided: a plain synchronous loop as a user would write it (decode, process, generate in batches) against ours,
    same decoder, engine and model, at 1, 3 and 15 questions per video, frames not in the cache (cold) and in it (warm).
    `speedup` compares wall time, `cpu_ratio` the CPU seconds of all processes, which other work on the machine does
    not change. At 15 questions only every tenth video is asked about, or the plain loop would take most of the time.
(c) counts: decodes, runs of the vision tower and readings of the beginning of prompts, beside the number of videos.

The last line is JSON: medians over the rounds, the least and the most of them as `KEY_range`.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from easyvideor1.config_data import CacheConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.data.vision_inputs import media_inputs
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.evals.asking import Asking, Counts, sampling_of
from easyvideor1.evals.benchmark import Item
from easyvideor1.evals.grading import Worth
from easyvideor1.evals.protocol import Decoding, Protocol, Template
from easyvideor1.evals.schedule import Group, groups_of, ordered, tasks_of
from easyvideor1.jobs.ahead import Ahead, Budget
from easyvideor1.jobs.worker import usable_cores
from easyvideor1.rollout.engine import Engine, Request
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.eval_loads import load_group, sample_of
from easyvideor1.types import Example, FrameSpec, Media, Rollout, Sample, StopReason
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.decode import decode
from easyvideor1.video.pool import DecodePool
from easyvideor1.video.sampling import plan_media
from easyvideor1.video.stored import StoreClip
from perf.clips import real_clips, repeated

SPEC = FrameSpec(fps=2.0, min_frames=4, max_frames=64, min_pixels=4096, max_pixels=8192)
SLOTS = 8
BATCH = 8
QUESTIONS = (1, 3, 15)
FEWER_FROM = 15
"""Questions per video from which on only every tenth video is asked about."""
RESPONSE_TOKENS = 8
SIZE = (160, 90)
SOURCES = ("bikes", "bigbuckbunny", "carphone_pristine")
SLEPT_TOKENS = 40


class SleepingEngine:
    """Answers of a fixed length from `SLOTS` slots that get one token per tick; the processor is free meanwhile."""

    def __init__(self, *, token_s: float) -> None:
        self._token_s = token_s
        self.banned_hits, self.needs_still_actor = 0, False

    def awake(self) -> Any:
        return nullcontext()

    def generate(self, requests: Iterable[Request | None]) -> Iterator[tuple[int, tuple[Rollout, ...]]]:
        source, active, place, is_over = iter(requests), dict[int, int](), 0, False
        due_s = time.monotonic()
        while active or not is_over:
            while len(active) < SLOTS and not is_over:
                try:
                    request = next(source)
                except StopIteration:
                    is_over = True
                    break
                if request is None:
                    break
                active[place] = SLEPT_TOKENS
                place += 1
            if not active:
                due_s = time.monotonic()
                continue
            due_s = max(due_s + self._token_s, time.monotonic() - self._token_s)
            time.sleep(max(0.0, due_s - time.monotonic()))
            for number in list(active):
                active[number] -= 1
                if not active[number]:
                    del active[number]
                    ids = (1,) * SLEPT_TOKENS
                    yield number, (Rollout(token_ids=ids, text="A", logprobs=None, stop_reason=StopReason.EOS),)

    def load_weights(self, tensors: object, *, version: int) -> None:
        raise NotImplementedError


class Bench:
    """Clips, a model and the ways to answer questions about them."""

    def __init__(self, folder: Path, clips: Sequence[Path]) -> None:
        self.folder, self.clips = folder, clips
        tokenizer = train_tokenizer(["What happens at the end? A. yes B. no"] * 50)
        self.model = new_model(tokenizer, seed=0)
        save(self.model, tokenizer, folder / "model")
        self.encoder = Encoder.from_pretrained(folder / "model")
        self.workers = usable_cores()

    def groups(self, num_questions: int) -> list[Group]:
        clips = self.clips[:: 10 if num_questions >= FEWER_FROM else 1]
        items = [item(path, number) for path in clips for number in range(num_questions)]
        return ordered(groups_of(tasks_of(items, protocol()), length_s=lambda media, spec: 180.0), num_first=2)

    def ours(self, num_questions: int, cache: Path, engine: Engine) -> Counts:
        """The pipeline of `easyvideor1 eval`."""
        config = CacheConfig(dir=str(cache))
        with self.loads(self.groups(num_questions), config) as loads:
            return Asking(
                loads=loads,
                engines=lambda: nullcontext(engine),
                grade=lambda task, text, why: Worth(strict={"value": 1.0}, official={"value": 1.0}),
                keep=lambda task, answer: None,
                frames=lambda group, record: None,
                seed=0,
            ).run()

    @contextmanager
    def loads(self, groups: Sequence[Group], config: CacheConfig) -> Iterator[Any]:
        stores = DecodePool(self.workers, config.deadline_s, function=StoreClip(cache=config))
        load = partial(
            load_group, stores=stores, cache=FrameCache.open(config), encoder=self.encoder, dtype=torch.float32,
            budget=Budget(4 << 30), roots={"videomme": self.folder},
        )  # fmt: skip
        with stores, Ahead(load, groups, threads=self.workers + 1, room=self.workers + 2) as loads:
            yield loads

    def load_all(self, cache: Path) -> None:
        """Loading alone."""
        with self.loads(self.groups(1), CacheConfig(dir=str(cache))) as loads:
            while (made := loads.take(wait=True)) is not None:
                made.result.give_back()
                loads.release()

    def plain(self, num_questions: int) -> None:
        """A loop as a user would write it: each question decodes its video, full batches are generated."""
        engine = HFEngine(self.model, self.encoder, tokens_per_batch=1 << 20)
        waiting: list[Request] = []
        with engine.awake():
            for group in self.groups(num_questions):
                for task in group.tasks:
                    plans = [plan_media(medium, group.spec, self.encoder.vision) for medium in group.media]
                    clips = tuple(decode(plan) for plan in plans)
                    sample = sample_of(task)
                    prompt = self.encoder.encode(sample, plans, sample.problem)
                    features = media_inputs(prompt, clips, self.encoder.vision, torch.float32)
                    example = Example(prompt=prompt, clips=clips, features=features)
                    sampling = sampling_of(task.protocol.decoding, n=1)
                    waiting.append(Request(example=example, sampling=sampling, seed=0))
                    if len(waiting) == BATCH:
                        list(engine.generate(waiting))
                        waiting = []
            list(engine.generate(waiting))


def item(path: Path, number: int) -> Item:
    sample = Sample(
        id=f"{path.stem}-{number}", problem_type="multiple choice", problem="q", gold="A", options=("A. x", "B. y"),
        media=(Media(kind="video", path=str(path)),),
    )  # fmt: skip
    question = f"What happens at the end, number {number}?"
    fields = {"question": question, "stem": question, "lines": ["A. x", "B. y"], "options": {"A": "x", "B": "y"}}
    return Item(sample=sample, form="choice", video=path.name, fields=fields)


def protocol() -> Protocol:
    return Protocol(
        benchmark="videomme", family="perf", source="", video=SPEC,
        decoding=Decoding(max_response_tokens=RESPONSE_TOKENS), prompts={"default": Template(text="{{ question }}")},
    )  # fmt: skip


def make_clips(folder: Path, num: int, duration_s: float) -> list[Path]:
    """Distinct files of a few long clips: each ends in a box of its own that no reader looks at."""
    folder.mkdir()
    clips = real_clips()
    long = [repeated(clips[name], folder / f"{name}.mp4", duration_s=duration_s, size=SIZE) for name in SOURCES]
    contents = [path.read_bytes() for path in long]
    paths = []
    for number in range(num):
        path = folder / f"clip{number}.mp4"
        end = (16).to_bytes(4, "big") + b"free" + number.to_bytes(8, "big")
        path.write_bytes(contents[number % len(contents)] + end)
        paths.append(path)
    return paths


@contextmanager
def cost(into: dict[str, float]) -> Iterator[None]:
    """Wall and CPU seconds of a block, with its child processes."""
    started, before = time.perf_counter(), _cpu_s()
    yield
    into |= {"wall_s": time.perf_counter() - started, "cpu_s": _cpu_s() - before}


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder, make_clips(folder / "clips", args.clips, args.seconds))
        rounds: list[dict[str, float]] = []
        for number in range(args.repeats):
            rounds.append(one_round(bench, number))
            print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    found: dict[str, Any] = {}
    for key in rounds[0]:
        values = [of_round[key] for of_round in rounds]
        found[key] = statistics.median(values)
        if key.startswith(("pipeline_over", "speedup")):
            found[f"{key}_range"] = [min(values), max(values)]
    found |= vars(args) | {"cores": usable_cores(), "machine": platform.processor() or platform.machine()}
    print(json.dumps(found))


def one_round(bench: Bench, number: int) -> dict[str, float]:
    caches = iter(bench.folder / f"cache-{number}-{k}" for k in range(100))
    found: dict[str, float] = {}
    load: dict[str, float] = {}
    with cost(load):
        bench.load_all(cache := next(caches))
    # As much work for the engine as for the loads, where waiting for either in turn would cost most.
    token_s = load["wall_s"] * SLOTS / (len(bench.clips) * SLEPT_TOKENS)
    engine: dict[str, float] = {}
    with cost(engine):
        list(SleepingEngine(token_s=token_s).generate(fake_requests(len(bench.clips))))
    both: dict[str, float] = {}
    with cost(both):
        bench.ours(1, next(caches), SleepingEngine(token_s=token_s))
    limit_s = max(load["cpu_s"] / bench.workers, engine["wall_s"], (load["cpu_s"] + engine["cpu_s"]) / usable_cores())
    found |= {
        "pipeline_over_limit": both["wall_s"] / limit_s, "load_s": load["wall_s"], "load_cpu_s": load["cpu_s"],
        "engine_s": engine["wall_s"], "pipeline_s": both["wall_s"],
    }  # fmt: skip
    for questions in QUESTIONS:
        times: dict[str, dict[str, float]] = {"plain": {}, "cold": {}, "warm": {}}
        with cost(times["plain"]):
            bench.plain(questions)
        empty = next(caches)
        for way in ("cold", "warm"):
            ours = HFEngine(bench.model, bench.encoder, tokens_per_batch=1 << 20)
            with cost(times[way]):
                done = bench.ours(questions, empty, ours)
            found[f"speedup_{way}_{questions}"] = times["plain"]["wall_s"] / times[way]["wall_s"]
            found[f"cpu_ratio_{way}_{questions}"] = times["plain"]["cpu_s"] / times[way]["cpu_s"]
            found |= {f"{name}_s_{questions}": value["wall_s"] for name, value in times.items() if value}
            if (way, questions) == ("cold", 3):
                found |= {"videos": len(bench.clips), "decodes": done.decodes, "answers": done.answers}
                found |= {"tower_runs": ours.counts.tower_runs, "beginnings_read": ours.counts.beginnings_read}
        shutil.rmtree(empty)
    shutil.rmtree(cache)
    return found


def fake_requests(num: int) -> list[Any]:
    return [object() for _ in range(num)]


if __name__ == "__main__":
    main()
