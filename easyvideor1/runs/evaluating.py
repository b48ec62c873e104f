"""Benchmarks answered by a model and scored: what `easyvideor1 eval` does."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from easyvideor1.config_data import CacheConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.errors import DataError, RunError, UsageError
from easyvideor1.evals.answers import Answer, AnswerFiles, check_settings
from easyvideor1.evals.asking import Asking, Counts, sampling_of
from easyvideor1.evals.benchmark import Benchmark, Item
from easyvideor1.evals.grading import grade
from easyvideor1.evals.judging import judge_items
from easyvideor1.evals.layout import Found, find
from easyvideor1.evals.preflight import preflight
from easyvideor1.evals.protocol import Protocol, load_protocol
from easyvideor1.evals.report import write_report
from easyvideor1.evals.results import evaluated, summary
from easyvideor1.evals.schedule import Group, Task, groups_of, ordered, shard_of, tasks_of, without
from easyvideor1.evals.status import Status
from easyvideor1.evals.strict import HIDDEN
from easyvideor1.evals.table import BENCHMARKS, benchmark_of
from easyvideor1.jobs.ahead import Ahead, Budget
from easyvideor1.jobs.cluster import run_all_on_ray
from easyvideor1.jobs.locks import Held, held
from easyvideor1.jobs.pool import Pool
from easyvideor1.records.folder import run_facts
from easyvideor1.records.jsonl import Lines
from easyvideor1.rollout.engine import Engine
from easyvideor1.runs.benchmarks import JudgeAddress, write_folder
from easyvideor1.runs.eval_engines import EngineChoice, engine_opener, weights_of
from easyvideor1.runs.eval_grading import graded, judge_again, judge_at
from easyvideor1.runs.eval_loads import load_group, longest_tokens
from easyvideor1.runs.looked import look_at_all
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.pool import DecodePool
from easyvideor1.video.stored import StoreClip

log = logging.getLogger(__name__)

ALL = "all"
GRADE_DEADLINE_S = 20.0
JUDGE_THREADS = 16
SHARD_DEADLINE_S = 30 * 24 * 3600.0
TRIED_ITEMS = 2
"""Items that a judge judges before the run."""


@dataclass(frozen=True, kw_only=True)
class EvalSettings:
    """What is evaluated, and how."""

    engine: EngineChoice
    benchmarks: tuple[str, ...]
    """Names, or "all" that the data root holds."""
    data_root: Path
    out: Path
    protocol: str = "official"
    limit: int | None = None
    """Only the first items of each benchmark."""
    shard: str | None = None
    """ "i/n": only every n-th group of questions about one video."""
    cache: CacheConfig
    workers: int = 2
    """Processes that decode."""
    memory_bytes: int = 8 << 30
    """Bound on the pixels that wait for the engine."""
    seed: int = 0
    judge: JudgeAddress | None = None
    retry_failed: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A benchmark that is to be asked."""

    benchmark: Benchmark
    protocol: Protocol
    found: Found
    tasks: tuple[Task, ...]
    folder: Path

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(task.item for task in self.tasks)


def evaluate_benchmarks(
    settings: EvalSettings,
    *,
    show: Callable[[Status], None] = lambda status: None,
    told: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:
    """Ask a model all items of some benchmarks that have no answer yet, and score all answers.

    Writes to `out/BENCHMARK`: answers.jsonl, frames.jsonl, protocol.json, results.json, outcomes.jsonl; and to `out`:
    run.json, starts.jsonl (a line per start: command, versions, what it did), results.json, report.md and report.html.

    Args:
        show: is told how far the run is, about once a second.
        told: is given what was found before the model is loaded.

    Returns:
        Benchmark -> its result (`evals.results.summary`), and what the run did under "run".

    Raises:
        UsageError: unknown names, or a folder with other answers.
        DataError: annotations that cannot be read.
        RunError: the disk is full, or the engine cannot be kept alive.
    """
    plans = plan_benchmarks(settings)
    if settings.judge is not None:
        try_judge(plans, settings.judge)
    with _alone(settings):
        return _evaluate(plans, settings, show=show, told=told)


def _evaluate(
    plans: Sequence[Plan],
    settings: EvalSettings,
    *,
    show: Callable[[Status], None],
    told: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    check_settings(settings.out, "run.json", decisive(settings))
    left = _left(plans, settings)
    encoder = Encoder.from_pretrained(settings.engine.folder, tokenizer=settings.engine.tokenizer)
    looks = look_at_all(_distinct(left), encoder.vision, settings.cache, workers=settings.workers)
    told(preflight([(plan.benchmark, plan.found, plan.items) for plan in plans], looks, cache_dir=settings.cache.dir))
    groups = groups_of(left, length_s=looks.length_s)
    status = Status(totals={plan.benchmark.name: sum(len(task.repeats) for task in plan.tasks) for plan in plans})
    opener = engine_opener(
        settings.engine,
        encoder,
        [sampling_of(plan.protocol.decoding, n=1) for plan in plans],
        longest_tokens=longest_tokens(left, looks, _roots(plans)),
        seed=settings.seed,
    )
    groups = ordered(groups, num_first=settings.workers)
    counts = _ask(groups, plans, settings, encoder, opener, status=status, show=show)
    return conclude(plans, settings, counts)


def evaluate_on_ray(settings: EvalSettings, *, num_shards: int) -> dict[str, Any]:
    """`evaluate_benchmarks` as shards, each a task of a Ray cluster that sees the same folders.

    Raises:
        UsageError: Ray is not installed.
        RunError: a shard failed; what it had answered is kept.
    """
    shards = [f"{number}/{num_shards}" for number in range(1, num_shards + 1)]
    outcomes = run_all_on_ray(
        EvaluateShard(settings),
        shards,
        deadline_s=SHARD_DEADLINE_S,
        with_gpu=settings.engine.name != "openai",
    )
    for outcome in outcomes:
        if outcome.error is not None:
            raise RunError(f"shard {outcome.item}: {outcome.error}") from outcome.error
    return conclude(plan_benchmarks(settings), settings)


@dataclass(frozen=True)
class EvaluateShard:
    """The work of one shard; picklable."""

    settings: EvalSettings

    def __call__(self, shard: str) -> None:
        evaluate_benchmarks(replace(self.settings, shard=shard))


@contextmanager
def _alone(settings: EvalSettings) -> Iterator[None]:
    """Have the answer files of a shard for this process alone.

    Raises:
        UsageError: another process writes to them, or the folder cannot be written.
    """
    name = f".lock-{settings.shard.replace('/', '-of-')}" if settings.shard else ".lock"
    try:
        settings.out.mkdir(parents=True, exist_ok=True)
        with held(settings.out / name, holder=f"process {os.getpid()}"):
            yield
    except Held as holder:
        raise UsageError(f"{settings.out}: another process writes there: {holder}; wait for it or stop it") from None
    except NotADirectoryError:
        raise UsageError(f"--out {settings.out} is no folder") from None


def try_judge(plans: Sequence[Plan], address: JudgeAddress) -> None:
    """Let a judge judge two items, each answered by its gold answer, before any model is loaded.

    Raises:
        UsageError: it cannot be reached, or gives no verdict.
    """
    wanted = [
        (item, plan.protocol)
        for plan in plans
        for item in plan.items
        if plan.protocol.judge is not None and item.judge and item.judge != HIDDEN and item.sample.gold
    ]
    for item, protocol in wanted[:TRIED_ITEMS]:
        assert protocol.judge is not None
        if not judge_items([item], {item.id: item.sample.gold}, protocol.judge, judge_at(address, protocol)):
            raise UsageError(
                f"the judge at {address.url} gave no verdict on item {item.id} of {protocol.benchmark}: is the address "
                "right, and does it serve --judge-model?"
            )


def plan_benchmarks(settings: EvalSettings) -> list[Plan]:
    """The benchmarks of a run as they lie on disk, with what is asked of them.

    Raises:
        UsageError: no such benchmark, or a protocol that the engine cannot follow.
        DataError: a benchmark that was named is not in the data root.
    """
    names = list(BENCHMARKS) if settings.benchmarks == (ALL,) else list(settings.benchmarks)
    plans = []
    for name in names:
        benchmark, protocol = benchmark_of(name), load_protocol(benchmark_of(name).name, settings.protocol)
        settings.engine.check(protocol)
        found = find(benchmark, settings.data_root)
        if found is None and settings.benchmarks == (ALL,):
            continue
        if found is None:
            raise DataError(
                f"no annotations of {benchmark.title}",
                where=str(settings.data_root / benchmark.layout.folder),
                remedy=f"`easyvideor1 eval prepare {name} --raw DOWNLOAD --out {settings.data_root}` puts them there",
            )
        items = [_on_disk(item, found, benchmark) for item in found.loaded.items[: settings.limit]]
        plans.append(
            Plan(
                benchmark=benchmark,
                protocol=protocol,
                found=found,
                tasks=tuple(tasks_of(items, protocol)),
                folder=settings.out / benchmark.name,
            )
        )
    if not plans:
        raise DataError(
            "no benchmark of `eval list` is in this folder",
            where=str(settings.data_root),
            remedy="see `easyvideor1 eval list`",
        )
    return plans


def decisive(settings: EvalSettings) -> dict[str, Any]:
    """All that answers depend on beside protocols and items."""
    folder = Path(settings.engine.model.path)
    return {
        "model": str(folder.resolve()) if folder.is_dir() else settings.engine.model.path,
        "weights": weights_of(settings.engine.model.path),
        "dtype": settings.engine.model.dtype,
        "engine": settings.engine.name,
        "seed": settings.seed,
        "protocol": settings.protocol,
    }


def conclude(plans: Sequence[Plan], settings: EvalSettings, counts: Counts | None = None) -> dict[str, Any]:
    """Score all answers of the folder and write results and report."""
    results: dict[str, Any] = {}
    for plan in plans:
        loaded = replace(plan.found.loaded, items=plan.items)
        found = evaluated(plan.benchmark, plan.protocol, loaded, plan.folder)
        results[plan.benchmark.name] = summary(found)
        write_folder(found.first, plan.folder, more=results[plan.benchmark.name])
    run = {"settings": decisive(settings), "counts": None if counts is None else asdict(counts)}
    with closing(Lines(settings.out / "starts.jsonl")) as starts:
        starts.append(run_facts() | {"shard": settings.shard, "counts": run["counts"]})
    written = {"run": run, "benchmarks": results}
    text = json.dumps(written, indent=1, ensure_ascii=False) + "\n"
    (settings.out / "results.json").write_text(text, encoding="utf-8")
    more = {plan.benchmark.name: json.loads((plan.folder / "results.json").read_text())["details"] for plan in plans}
    write_report(settings.out, results, more, run=run)
    return {"run": run, **results}


def _left(plans: Sequence[Plan], settings: EvalSettings) -> list[Task]:
    """The tasks of the shard that have no answer."""
    done: dict[tuple[str, str], set[int]] = {}
    for plan in plans:
        check_settings(plan.folder, "protocol.json", asdict(plan.protocol) | {"hash": plan.protocol.hash})
        hashes = {task.item.id: task.prompt_hash for task in plan.tasks}
        found = AnswerFiles(plan.folder).done(hashes, retry_failed=settings.retry_failed)
        done |= {(plan.benchmark.name, name): repeats for name, repeats in found.items()}
    tasks = [task for plan in plans for task in plan.tasks]
    if settings.shard:
        groups = groups_of(tasks, length_s=lambda media, spec: None)
        tasks = [task for group in shard_of(groups, settings.shard) for task in group.tasks]
    return without(tasks, done)


def _roots(plans: Sequence[Plan]) -> dict[str, Path]:
    """Benchmark -> where its media lie."""
    return {plan.benchmark.name: plan.found.folder / plan.benchmark.layout.media for plan in plans}


def _distinct(tasks: Sequence[Task]) -> list[tuple[Media, FrameSpec]]:
    return list(dict.fromkeys((medium, task.protocol.video) for task in tasks for medium in task.item.sample.media))


def _on_disk(item: Item, found: Found, benchmark: Benchmark) -> Item:
    """The item with its media where they lie; what is missing keeps the path at which it should."""
    root = found.folder / benchmark.layout.media
    media = []
    for medium in item.sample.media:
        path = found.media.get(item.video) if medium.kind == "video" else None
        below = str(root / medium.path) if isinstance(medium.path, str) else tuple(str(root / p) for p in medium.path)
        media.append(replace(medium, path=below if path is None else path))
    return replace(item, sample=replace(item.sample, media=tuple(media)))


def _ask(
    groups: Sequence[Group],
    plans: Sequence[Plan],
    settings: EvalSettings,
    encoder: Encoder,
    engines: Callable[[], AbstractContextManager[Engine]],
    *,
    status: Status,
    show: Callable[[Status], None],
) -> Counts:
    """Answers to the tasks of groups, kept in the files of their benchmarks."""
    files = {plan.benchmark.name: AnswerFiles(plan.folder, shard=settings.shard) for plan in plans}
    frames = {plan.benchmark.name: AnswerFiles(plan.folder, shard=settings.shard, kind="frames") for plan in plans}
    status.begin(groups)
    for plan in plans:
        status.note_done(plan.benchmark.name, plan.folder)
    if settings.judge is not None:
        for plan in plans:
            judge_again(plan.items, plan.protocol, files[plan.benchmark.name], settings.judge)
    if not groups:
        return Counts()
    shown_s = [0.0]

    def keep(task: Task, answer: Answer) -> None:
        prompt = {"system": task.prompt.system, "text": task.prompt.text, "prefix": task.prompt.prefix}
        files[task.benchmark].append(answer.record(prompt))
        status.note(task.benchmark, answer.strict.get("value"))

    def note_frames(group: Group, record: Mapping[str, Any]) -> None:
        for name in dict.fromkeys(task.benchmark for task in group.tasks):
            frames[name].append(record)

    def tick(counts: Counts) -> None:
        now_s = time.monotonic()
        if now_s - shown_s[0] >= 1.0:
            shown_s[0] = now_s
            status.counts = counts
            show(status)

    budget = Budget(settings.memory_bytes)
    stores = DecodePool(settings.workers, settings.cache.deadline_s, function=StoreClip(cache=settings.cache))
    graders = Pool(grade, workers=1 if settings.judge is None else 2, deadline_s=GRADE_DEADLINE_S)
    load = partial(
        load_group,
        stores=stores,
        cache=FrameCache.open(settings.cache),
        encoder=encoder,
        dtype=getattr(torch, settings.engine.model.dtype),
        budget=budget,
        roots=_roots(plans),
    )
    with stores, graders, Ahead(load, groups, threads=settings.workers + 1, room=settings.workers + 2) as loads:
        asking = Asking(
            loads=loads,
            engines=engines,
            grade=partial(graded, pool=graders, judge=settings.judge),
            keep=keep,
            frames=note_frames,
            seed=settings.seed,
            num_graders=4 if settings.judge is None else JUDGE_THREADS,
            tick=tick,
        )
        try:
            counts = asking.run()
        finally:
            for file in (*files.values(), *frames.values()):
                file.close()
    status.counts = counts
    show(status)
    return counts
