"""Items asked and their responses scored and kept, as they come: loads ahead, engine, graders, one line per answer.

Whatever goes wrong with one item costs that item: media that cannot be read and requests that an engine gives up are
recorded as failed, and an engine that dies is opened again. Which of the items under way was too much for it is found
by asking them one at a time.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from easyvideor1.errors import DataError, EasyVideoError, RunError, UsageError
from easyvideor1.evals.answers import Answer
from easyvideor1.evals.grading import Worth
from easyvideor1.evals.protocol import Decoding
from easyvideor1.evals.schedule import Group, Task
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.types import Example, Rollout, StopReason

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""Times that an item is asked which the engine gives up."""
MOST_DEATHS = 3
"""Deaths of the engine in a row, without a response in between, after which the run stops."""
FAILED = "failed"


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedGroup:
    """A group, ready to be asked."""

    group: Group
    questions: tuple[tuple[Task, Example | DataError], ...]
    frames: Mapping[str, Any]
    """The record of what is seen: a key, and of each medium file, times, size."""
    num_decoded: int
    """Media that had to be decoded."""
    give_back: Callable[[], None] = lambda: None
    """Says that the pixels are in the engine's hands."""


class Loads(Protocol):
    """Where loaded groups come from: `jobs.ahead.Ahead`."""

    def take(self, *, wait: bool) -> Any: ...

    def release(self) -> None: ...

    @property
    def is_over(self) -> bool: ...


@dataclass(kw_only=True)
class Counts:
    """What happened so far."""

    groups: int = 0
    failed_groups: int = 0
    decodes: int = 0
    items: int = 0
    answers: int = 0
    failed_items: int = 0
    cut: int = 0
    """Answers that the token limit ended."""
    response_tokens: int = 0
    prompt_tokens: int = 0
    video_s: float = 0.0
    """Length of the videos that were loaded."""
    engine_deaths: int = 0
    engine_idle_s: float = 0.0
    """Time in which nothing was under way in the engine."""
    wall_s: float = 0.0


@dataclass(kw_only=True, eq=False)
class _Question:
    """A task whose prompt is ready."""

    task: Task
    example: Example
    load_s: float
    frames: str
    shares: bool
    attempts: int = 0
    given_s: float = 0.0


Grader = Callable[[Task, str | None, str], Worth]
"""(task, response or None, why there is none) -> its worth; runs in threads."""
Keep = Callable[[Task, Answer], None]
"""Is given every answer, once."""


@dataclass(kw_only=True, eq=False)
class Asking:
    """One run over some groups.

    Args:
        loads: groups in the order in which they are asked.
        engines: opens an engine; again where one has died.
        frames: is given the record of the frames of each group.
        tick: is called now and then, between responses.
    """

    loads: Loads
    engines: Callable[[], AbstractContextManager[Engine]]
    grade: Grader
    keep: Keep
    frames: Callable[[Group, Mapping[str, Any]], None]
    seed: int
    num_graders: int = 4
    tick: Callable[[Counts], None] = lambda counts: None
    counts: Counts = field(default_factory=Counts)
    _waiting: deque[_Question] = field(default_factory=deque)
    _suspects: deque[_Question] = field(default_factory=deque)
    """Under way when an engine died; asked one at a time."""
    _given: dict[int, _Question] = field(default_factory=dict)
    """Place -> what the engine has not answered."""
    _grading: deque[Future[tuple[Task, Answer]]] = field(default_factory=deque)
    _failure: BaseException | None = None
    """A failure of anything but the engine."""
    _deaths: int = 0
    _graders: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._graders = ThreadPoolExecutor(self.num_graders)

    def run(self) -> Counts:
        """Ask everything.

        Raises:
            RunError: the engine dies again and again, or the disk is full.
            UsageError: the engine cannot be asked in this way at all.
        """
        started = time.monotonic()
        with self._graders:
            try:
                while not self._is_done:
                    try:
                        with self.engines() as engine, engine.awake():
                            self._ask(engine)
                    except Exception as error:
                        # An engine is foreign code and dies in many ways; what else failed is told apart here.
                        if error is self._failure or isinstance(error, (DataError, UsageError)):
                            raise
                        self._note_death(error)
                self._collect(wait=True)
            finally:
                self._graders.shutdown(wait=False, cancel_futures=True)
                self.counts.wall_s = time.monotonic() - started
        return self.counts

    @property
    def _is_done(self) -> bool:
        return not (self._waiting or self._suspects or self._given) and self.loads.is_over

    def _ask(self, engine: Engine) -> None:
        while not self._is_done:
            for place, rollouts in engine.generate(self._requests()):
                self._deaths = 0
                self._answered(self._given.pop(place), rollouts)
                self._collect(wait=False)

    def _requests(self) -> Iterator[Request | None]:
        """Requests as their groups are loaded; one suspect alone."""
        try:
            place = 0
            if self._suspects:
                yield self._request(self._suspects.popleft(), 0)
                return
            while True:
                if not self._waiting and not self._open_group():
                    if self.loads.is_over:
                        return
                    yield None
                    continue
                while self._waiting:
                    yield self._request(self._waiting.popleft(), place)
                    place += 1
        except BaseException as failure:
            self._failure = failure
            raise

    def _request(self, question: _Question, place: int) -> Request:
        question.given_s = time.monotonic()
        self._given[place] = question
        decoding = question.task.protocol.decoding
        # What is sampled depends on the number of the response, so those before the ones that are wanted are made too.
        return Request(
            example=question.example,
            sampling=sampling_of(decoding, n=max(question.task.repeats) + 1),
            seed=self.seed,
            shares_beginning=question.shares,
        )

    def _open_group(self) -> bool:
        """Take the next loaded group; False where none is there, or none of its items can be asked."""
        is_idle = not self._given
        started = time.monotonic()
        made = self.loads.take(wait=is_idle)
        if is_idle:
            self.counts.engine_idle_s += time.monotonic() - started
        self._collect(wait=False)
        if made is None:
            return False
        group: Group = made.item
        self.counts.groups += 1
        if made.result is None:
            self.counts.failed_groups += 1
            for task in group.tasks:
                self._fail(task, str(made.error), load_s=made.wall_s)
            self.loads.release()
            return False
        loaded: LoadedGroup = made.result
        self.counts.decodes += loaded.num_decoded
        self.counts.video_s += group.length_s or 0.0
        self.frames(group, loaded.frames)
        ready = [(task, example) for task, example in loaded.questions if isinstance(example, Example)]
        for task, example in loaded.questions:
            if isinstance(example, DataError):
                self._fail(task, str(example), load_s=made.wall_s)
        key = str(loaded.frames.get("key", ""))
        for task, example in ready:
            self._waiting.append(
                _Question(task=task, example=example, load_s=made.wall_s, frames=key, shares=len(ready) > 1)
            )
        loaded.give_back()
        self.loads.release()
        return bool(ready)

    def _answered(self, question: _Question, rollouts: tuple[Rollout, ...]) -> None:
        wanted = [(repeat, rollouts[repeat]) for repeat in question.task.repeats]
        if any(rollout.stop_reason is StopReason.ABORT for _, rollout in wanted):
            question.attempts += 1
            if question.attempts < ATTEMPTS:
                self._waiting.append(question)
            else:
                said = next((rollout.text for _, rollout in wanted if not rollout.token_ids), "")
                reason = "the engine gave the response up" + (f": {said}" if said else "")
                self._fail(question.task, reason, load_s=question.load_s)
            return
        task = question.task
        times = {"load_s": question.load_s, "answer_s": time.monotonic() - question.given_s}
        num_prompt_tokens = len(question.example.prompt)
        self.counts.items += 1
        self.counts.prompt_tokens += num_prompt_tokens
        for repeat, rollout in wanted:
            self.counts.answers += 1
            self.counts.response_tokens += len(rollout.token_ids)
            self.counts.cut += rollout.stop_reason is StopReason.LENGTH
            blank = Answer(
                id=task.item.id,
                repeat=repeat,
                prompt_hash=task.prompt_hash,
                response=rollout.text,
                stop=str(rollout.stop_reason),
                num_tokens=len(rollout.token_ids),
                num_prompt_tokens=num_prompt_tokens,
                strict={},
                official={},
                frames=question.frames,
                times=times,
            )
            self._grading.append(self._graders.submit(self._graded, task, blank))

    def _fail(self, task: Task, reason: str, *, load_s: float) -> None:
        self.counts.items += 1
        self.counts.failed_items += 1
        log.warning("%s, item %s cannot be asked: %s", task.benchmark, task.item.id, reason)
        for repeat in task.repeats:
            blank = Answer(
                id=task.item.id,
                repeat=repeat,
                prompt_hash=task.prompt_hash,
                response=None,
                stop=FAILED,
                num_tokens=0,
                num_prompt_tokens=0,
                strict={},
                official={},
                error=reason,
                times={"load_s": load_s},
            )
            self._grading.append(self._graders.submit(self._graded, task, blank))

    def _graded(self, task: Task, blank: Answer) -> tuple[Task, Answer]:
        started = time.monotonic()
        worth = self.grade(task, blank.response, blank.error)
        times = {**blank.times, "grade_s": time.monotonic() - started}
        return task, Answer(
            **{name: getattr(blank, name) for name in Answer.__slots__ if name not in ("strict", "official", "times")},
            strict=worth.strict,
            official=worth.official,
            times=times,
        )

    def _collect(self, *, wait: bool) -> None:
        """Keep the answers that are graded."""
        left: deque[Future[tuple[Task, Answer]]] = deque()
        while self._grading:
            future = self._grading.popleft()
            if wait or future.done():
                self.keep(*future.result())
            else:
                left.append(future)
        self._grading = left
        self.tick(self.counts)

    def _note_death(self, error: Exception) -> None:
        self.counts.engine_deaths += 1
        self._deaths += 1
        under_way = list(self._given.values())
        self._given.clear()
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        log.warning("the engine died with %d items under way: %s", len(under_way), text)
        if self._deaths >= MOST_DEATHS:
            raise RunError(f"the engine died {self._deaths} times without an answer in between: {text}") from error
        if isinstance(error, EasyVideoError) and not under_way:
            raise error
        if len(under_way) == 1 and under_way[0].attempts > 0:
            question = under_way[0]
            self._fail(question.task, f"the engine dies of it: {text}", load_s=question.load_s)
            return
        for question in under_way:
            question.attempts += 1
        self._suspects.extend(under_way)


def sampling_of(decoding: Decoding, *, n: int) -> Sampling:
    """How an engine samples by a protocol."""
    return Sampling(
        n=n,
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        top_k=decoding.top_k,
        presence_penalty=decoding.presence_penalty,
        repetition_penalty=decoding.repetition_penalty,
        max_response_tokens=decoding.max_response_tokens,
    )
