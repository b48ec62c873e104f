"""The loop of a run: every item is answered or failed exactly once, whatever loads and engines do."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easyvideor1.errors import MediaError, RunError
from easyvideor1.evals.answers import Answer, AnswerFiles
from easyvideor1.evals.asking import ATTEMPTS, Asking, LoadedGroup
from easyvideor1.evals.benchmark import Item, Loaded
from easyvideor1.evals.grading import Worth
from easyvideor1.evals.protocol import load_protocol
from easyvideor1.evals.results import coverage_of, evaluated
from easyvideor1.evals.schedule import Group, Task, groups_of, ordered, shard_of, tasks_of, without
from easyvideor1.evals.table import benchmark_of
from easyvideor1.jobs.ahead import Ahead
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.types import Example, Media, Prompt, Sample

PROTOCOL = load_protocol("videomme", "fast")


def item(name: str, video: str) -> Item:
    sample = Sample(
        id=name, problem_type="multiple choice", problem="q", gold="A", options=("A. x", "B. y"),
        media=(Media(kind="video", path=video),),
    )  # fmt: skip
    fields = {"question": "q", "stem": "q", "lines": ["A. x", "B. y"], "options": {"A": "x", "B": "y"}}
    return Item(sample=sample, form="choice", video=video, fields=fields)


def made_groups(num_videos: int = 4, num_questions: int = 2) -> list[Group]:
    items = [item(f"{video}-{n}", f"{video}.mp4") for video in range(num_videos) for n in range(num_questions)]
    return groups_of(tasks_of(items, PROTOCOL), length_s=lambda media, spec: float(str(media.path)[0]))


def example(task: Task) -> Example:
    zeros = np.zeros((3, 3), np.int64)
    prompt = Prompt(
        sample=task.item.sample, text="", input_ids=zeros[0], token_types=zeros[0], position_ids=zeros, plans=()
    )
    return Example(prompt=prompt, clips=(), features={})


def load(group: Group) -> LoadedGroup:
    questions = tuple((task, example(task)) for task in group.tasks)
    return LoadedGroup(group=group, questions=questions, frames={"key": group.name}, num_decoded=1)


class Run:
    """A run over groups with everything it kept."""

    def __init__(self, groups: list[Group], engine: Any, load: Any = load) -> None:
        self.kept: list[Answer] = []
        self.frames: list[str] = []
        self.opened = 0
        with Ahead(load, groups, threads=2, room=3) as loads:
            self.asking = Asking(
                loads=loads,
                engines=lambda: self._open(engine),
                grade=lambda task, text, why: Worth(strict={"value": float(text == "A")}, official={"value": 0.0}),
                keep=lambda task, answer: self.kept.append(answer),
                frames=lambda group, record: self.frames.append(record["key"]),
                seed=0,
            )
            self.counts = self.asking.run()

    @contextlib.contextmanager
    def _open(self, engine: Any) -> Iterator[Any]:
        self.opened += 1
        yield engine

    @property
    def failed(self) -> list[str]:
        return sorted(answer.id for answer in self.kept if answer.is_failed)


def fake(script: Any = lambda example, index, seed: "A") -> FakeEngine:
    return FakeEngine(script, lambda text: tuple(map(ord, text)))


def everything(run: Run, groups: list[Group]) -> bool:
    """Whether each item was kept exactly once."""
    return sorted(answer.id for answer in run.kept) == sorted(t.item.id for group in groups for t in group.tasks)


def test_every_item_is_answered_once_and_its_frames_are_noted() -> None:
    groups = made_groups()
    run = Run(groups, fake())
    assert everything(run, groups)
    assert run.counts.decodes == run.counts.groups == len(set(run.frames)) == 4
    assert all(answer.strict["value"] == 1.0 for answer in run.kept)


def test_a_video_that_cannot_be_loaded_fails_its_own_items_only() -> None:
    def broken(group: Group) -> LoadedGroup:
        if group.name == "2.mp4":
            raise MediaError("not a video", where=group.name)
        return load(group)

    groups = made_groups()
    run = Run(groups, fake(), broken)
    assert everything(run, groups)
    assert run.failed == ["2-0", "2-1"]
    assert {answer.error for answer in run.kept if answer.is_failed} == {"2.mp4: not a video"}
    assert run.counts.failed_groups == 1


def test_a_video_that_hangs_delays_nobody() -> None:
    others_done = threading.Event()
    answered: list[str] = []

    def hanging(group: Group) -> LoadedGroup:
        if group.name == "0.mp4":
            assert others_done.wait(60), "the others wait for a video that hangs"
            raise MediaError("not done within 1 s", where=group.name)
        return load(group)

    def script(example: Example, index: int, seed: int) -> str:
        answered.append(example.sample.id)
        if len(answered) == 6:
            others_done.set()
        return "A"

    groups = made_groups()
    run = Run(groups, fake(script), hanging)
    assert everything(run, groups)
    assert run.failed == ["0-0", "0-1"]


def test_a_request_that_is_given_up_is_asked_again_and_then_failed() -> None:
    asked: list[str] = []

    def script(example: Example, index: int, seed: int) -> str | None:
        asked.append(example.sample.id)
        if example.sample.id == "1-0":
            return None
        return None if example.sample.id == "3-1" and asked.count("3-1") == 1 else "A"

    groups = made_groups()
    run = Run(groups, fake(script))
    assert everything(run, groups)
    assert run.failed == ["1-0"]
    assert (asked.count("1-0"), asked.count("3-1"), asked.count("0-0")) == (ATTEMPTS, 2, 1)


class Mortal(FakeEngine):
    """Takes several requests at once, and dies of some."""

    def __init__(self, deadly: set[str]) -> None:
        super().__init__(lambda example, index, seed: "A", lambda text: (65,))
        self._deadly = deadly

    def generate(self, requests: Any) -> Iterator[Any]:
        taken = []
        for request in requests:
            if request is not None:
                taken.append(request)
            if request is None or len(taken) % 3 == 0:
                yield from self._answers(taken)
        yield from self._answers(taken)

    def _answers(self, taken: list[Any]) -> Iterator[Any]:
        if any(request is not None and request.example.sample.id in self._deadly for request in taken):
            raise RuntimeError("out of memory")
        for place, request in enumerate(taken):
            if request is not None:
                taken[place] = None
                yield place, (self._rollout(request, 0),)


def test_an_engine_that_dies_is_opened_again_and_its_killer_is_found() -> None:
    groups = made_groups()
    run = Run(groups, Mortal({"2-1"}))
    assert everything(run, groups)
    assert run.failed == ["2-1"]
    assert "out of memory" in next(answer.error for answer in run.kept if answer.is_failed)
    assert run.counts.engine_deaths == 2  # in company, and alone
    assert run.opened == 3


def test_an_engine_that_always_dies_stops_the_run() -> None:
    groups = made_groups()
    with pytest.raises(RunError, match="died 3 times without an answer in between: RuntimeError: out of memory"):
        Run(groups, Mortal({task.item.id for group in groups for task in group.tasks}))


def test_errors_of_the_loads_are_not_the_engines() -> None:
    def full(group: Group) -> LoadedGroup:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        Run(made_groups(), fake(), full)


def test_the_longest_come_first_behind_a_few_short_ones_and_unknown_ones_before_all() -> None:
    groups = made_groups(6)
    unknown = groups_of(tasks_of([item("x", "x.mp4")], PROTOCOL), length_s=lambda media, spec: None)
    names = [group.name for group in ordered([*groups, *unknown], num_first=2)]
    assert names == ["x.mp4", "0.mp4", "1.mp4", "5.mp4", "4.mp4", "3.mp4", "2.mp4"]


def test_shards_are_a_partition_of_whole_groups() -> None:
    groups = made_groups(5)
    shards = [shard_of(groups, f"{number}/2") for number in (1, 2)]
    assert sorted(group.name for shard in shards for group in shard) == [f"{video}.mp4" for video in range(5)]
    assert all(len(group.tasks) == 2 for shard in shards for group in shard)


def test_what_is_done_is_not_asked_again() -> None:
    tasks = tasks_of([item("a", "a.mp4"), item("b", "b.mp4")], PROTOCOL)
    assert [task.item.id for task in without(tasks, {("videomme", "a"): {0}})] == ["b"]


def test_repeats_that_are_missing_are_those_that_an_uninterrupted_run_has() -> None:
    groups = made_groups(1, 1)
    [task] = groups[0].tasks
    whole, rest = ([replace(groups[0], tasks=(replace(task, repeats=repeats),))] for repeats in ((0, 1, 2, 3), (2, 3)))
    say = fake(lambda example, index, seed: f"response {index}")
    expected = {answer.repeat: answer.response for answer in Run(whole, say).kept}
    found = {answer.repeat: answer.response for answer in Run(rest, say).kept}
    assert expected == {number: f"response {number}" for number in range(4)}
    assert found == {2: "response 2", 3: "response 3"}


def test_an_item_without_all_of_its_repeats_is_not_complete_and_others_are_not_counted(tmp_path: Path) -> None:
    protocol = replace(PROTOCOL, decoding=replace(PROTOCOL.decoding, n=2))
    items = (item("a", "a.mp4"), item("b", "b.mp4"))
    kept = Run(
        groups_of(tasks_of([*items, item("c", "c.mp4")], PROTOCOL), length_s=lambda media, spec: 1.0), fake()
    ).kept
    file = AnswerFiles(tmp_path)
    for answer in kept:
        file.append(answer.record({}))
    file.append(replace(next(answer for answer in kept if answer.id == "b"), repeat=1).record({}))
    file.close()
    found = evaluated(benchmark_of("videomme"), protocol, Loaded(items=items, errata=()), tmp_path)
    coverage = coverage_of(found)
    assert (coverage["num_items"], coverage["num_answered"], coverage["num_missing"]) == (2, 2, 1)
