"""The call path to every reward: cheap types in this process, the others in processes that can be killed.

A worker that overruns its deadline, its memory or crashes costs the response it worked on, which comes back unscored,
and nothing else. No worker starts before the first response that needs one.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from easyvideor1.config import RewardConfig
from easyvideor1.errors import RunError, UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.rewards import router
from easyvideor1.rewards.judge import Candidate, Judge
from easyvideor1.rewards.parse import MAX_ANSWER_CHARS, Response, read_response
from easyvideor1.rewards.parts import overlong_part
from easyvideor1.rewards.registry import REGISTRY, register_places
from easyvideor1.rewards.wire import read_score, write_item
from easyvideor1.types import Sample, Score

Item = tuple[Sample, str] | tuple[Sample, str, int]
"""Sample, response text and, where the length counts, the response's tokens."""

START_UP_S = 600.0
"""Time for a worker's imports; an item's own deadline runs from when a ready worker gets it."""
RECYCLE_AFTER = 2000
"""Items after which a worker is replaced, because symbolic algebra caches without bound."""
ALARM_FRAC = 0.001
"""A batch with a larger share of unscored responses is logged as a warning."""
SLOWEST_KEPT = 5

log = logging.getLogger(__name__)


class RewardPool:
    """Judges responses; use it as a context manager, so that no worker outlives it.

    Args:
        weights: part -> weight, summing to 1.
        thinking: think blocks were asked for.
        rewards: problem type -> "file.py:function", rewards of one's own.
        parts: name -> "file.py:function", parts of one's own.
        max_response_tokens, overlong_buffer_tokens: with a buffer > 0, every score has the part "overlong" and every
            item must bring its length in tokens.
        workers: processes at most.
        deadline_s: wall time one response may take in a worker.
        memory_bytes: address space of one worker.
        sandbox: command that runs Python answers; none: they are compared as text.
        judge: gives the accuracy of its problem types instead of the built-in rewards.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] = router.WEIGHTS,
        thinking: bool = False,
        rewards: Mapping[str, str] | None = None,
        parts: Mapping[str, str] | None = None,
        max_response_tokens: int = 0,
        overlong_buffer_tokens: int = 0,
        workers: int = 2,
        deadline_s: float = 10.0,
        memory_bytes: int = 2 * 1024**3,
        sandbox: Sequence[str] = (),
        judge: Judge | None = None,
    ) -> None:
        register_places(rewards=rewards or {}, parts=parts or {})
        self._weights, self._thinking = dict(weights), thinking
        self._max_tokens, self._buffer_tokens = max_response_tokens, overlong_buffer_tokens
        self._max_workers, self._deadline_s, self._memory_bytes = workers, deadline_s, memory_bytes
        self._sandbox, self._judge = list(sandbox), judge
        self._is_judge_tried = False
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self.unscored: Counter[str] = Counter()
        """Reason -> responses that could not be judged, over the life of the pool."""
        self.slowest: list[tuple[float, str]] = []
        """(seconds, sample id) of the slowest responses in workers, slowest first."""
        self._require_known_parts()

    @classmethod
    def from_config(cls, config: RewardConfig, *, thinking: bool, max_response_tokens: int) -> Self:
        """The pool that a recipe asks for."""
        return cls(
            weights=config.weights,
            thinking=thinking,
            rewards=config.rewards,
            parts=config.parts,
            max_response_tokens=max_response_tokens,
            overlong_buffer_tokens=config.overlong_buffer_tokens,
            workers=config.workers,
            deadline_s=config.deadline_s,
            memory_bytes=config.memory_mb * 1024**2,
            sandbox=config.sandbox,
            judge=None if config.judge is None else Judge(config.judge),
        )

    def check(self, samples: Iterable[Sample]) -> None:
        """Make sure that every sample can be judged.

        Raises:
            DataError: the first sample with an unknown type or an unreadable gold answer.
            UsageError: the judge cannot be reached, or does not tell right from wrong.
        """
        samples = list(samples)
        router.check(sample for sample in samples if not self._is_for_judge(sample))
        if self._judge is not None and not self._is_judge_tried and any(map(self._is_for_judge, samples)):
            self._judge.try_out()
            self._is_judge_tried = True

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Scores in the order of the items; a response that cannot be judged is unscored, with the reason.

        Raises:
            UsageError: the length of the responses counts, but an item does not bring it.
            RunError: a worker cannot even start.
        """
        with self._lock:
            scores: list[Score | None] = [None] * len(items)
            heavy: dict[int, _Message] = {}
            judged: dict[int, Response] = {}
            for index, item in enumerate(items):
                overlong = self._overlong(item)
                if self._is_for_judge(item[0]):
                    judged[index] = read_response(item[1])
                elif router.is_heavy(item[0]):
                    line = json.dumps(write_item(item[0], item[1], overlong=overlong))
                    heavy[index] = _Message(canonical(item[0].problem_type), line)
                else:
                    scores[index] = self._score_here(item, overlong)
            if heavy:
                self._score_in_workers(heavy, items, scores)
            if self._judge is not None and judged:
                for index, score in self._judge_all(self._judge, judged, items).items():
                    scores[index] = score
            return self._reported(scores)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_known_parts(self) -> None:
        known = {"accuracy", "format", *REGISTRY.parts} | ({"overlong"} if self._buffer_tokens > 0 else set())
        unknown = set(self._weights) - known
        if unknown and not REGISTRY.rewards:  # a reward of one's own may bring parts of its own
            name = min(unknown)
            hint = "set reward.overlong_buffer_tokens" if name == "overlong" else "register it with @part"
            raise UsageError(f"reward.weights names the part '{name}', which no score has; {hint}")

    def _is_for_judge(self, sample: Sample) -> bool:
        return self._judge is not None and canonical(sample.problem_type) in self._judge.problem_types

    def _judge_all(self, judge: Judge, judged: Mapping[int, Response], items: Sequence[Item]) -> dict[int, Score]:
        """Scores by the judge; what holds no answer is 0 without asking it."""
        reasons = {index: router.unreadable(judged[index], max_chars=MAX_ANSWER_CHARS) for index in judged}
        asked = [index for index, reason in reasons.items() if not reason]
        candidates = [Candidate(sample=items[index][0], answer=judged[index].answers[-1]) for index in asked]
        verdicts = dict(zip(asked, judge.judge(candidates), strict=True))
        results = {}
        for index, response in judged.items():
            sample, text = items[index][0], items[index][1]
            verdict = verdicts.get(index, Score(value=0.0, reason=reasons[index]))
            if verdict.is_scored:
                verdict = router.finish(
                    verdict,
                    sample,
                    text,
                    response=response,
                    weights=self._weights,
                    thinking=self._thinking,
                    overlong=self._overlong(items[index]),
                )
            results[index] = verdict
        return results

    def _overlong(self, item: Item) -> float | None:
        if self._buffer_tokens <= 0:
            return None
        if len(item) < 3:
            raise UsageError("reward.overlong_buffer_tokens is set, but a response came without its length in tokens")
        return overlong_part(item[2], max_tokens=self._max_tokens, buffer_tokens=self._buffer_tokens)

    def _score_here(self, item: Item, overlong: float | None) -> Score:
        try:
            return router.score(item[0], item[1], weights=self._weights, thinking=self._thinking, overlong=overlong)
        except UsageError:
            raise
        except Exception as error:
            # A reward that fails on one response must not stop the batch; the score says so and is not counted as 0.
            log.warning("%s: scoring failed", item[0].id, exc_info=True)
            return Score.unscored(f"{type(error).__name__}: {error}"[:500])

    def _score_in_workers(
        self, heavy: Mapping[int, _Message], items: Sequence[Item], scores: list[Score | None]
    ) -> None:
        waiting = deque(heavy)
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.stdout, selectors.EVENT_READ, worker)
            try:
                while waiting or any(worker.number is not None for worker in self._workers):
                    self._hand_out(waiting, heavy, selector)
                    self._collect(selector, items, scores)
            except BaseException:  # an interrupt too: half-done work must not answer the next batch
                self.close()
                raise

    def _hand_out(self, waiting: deque[int], heavy: Mapping[int, _Message], selector: selectors.BaseSelector) -> None:
        """Give every idle worker an item, and start workers while there are more items than workers at work."""
        for worker in self._workers:
            if not (waiting and worker.is_ready and worker.number is None):
                continue
            message = heavy[waiting[0]]
            if message.problem_type in worker.warm:
                worker.send(waiting.popleft(), message.item, deadline_s=self._deadline_s)
            else:
                worker.warm_up(message.problem_type)
        at_work = sum(worker.number is not None for worker in self._workers)
        wanted = min(self._max_workers, at_work + len(waiting))
        while len(self._workers) < wanted:
            self._start_worker((), selector)

    def _collect(self, selector: selectors.BaseSelector, items: Sequence[Item], scores: list[Score | None]) -> None:
        """Wait for the next message or deadline, and take what came."""
        wait_s = min((worker.kill_at_s for worker in self._workers), default=0.0) - time.monotonic()
        ready = {id(key.data) for key, _ in selector.select(timeout=max(0.0, min(wait_s, 3600.0)))}
        for worker in list(self._workers):
            if id(worker) in ready:
                self._receive(worker, selector, items, scores)
            elif time.monotonic() >= worker.kill_at_s:
                if not worker.is_ready:
                    raise RunError(f"a reward worker did not start within {START_UP_S:g} s")
                scores[worker.take()] = Score.unscored(f"no result within {self._deadline_s:g} s")
                self._replace(worker, selector)

    def _receive(
        self, worker: _Worker, selector: selectors.BaseSelector, items: Sequence[Item], scores: list[Score | None]
    ) -> None:
        is_open = worker.read()
        for message in worker.messages():
            if "ready" in message:
                worker.is_ready, worker.kill_at_s = True, float("inf")
                continue
            number = worker.take()
            assert number == message["number"], (number, message["number"])
            scores[number] = read_score(message["score"])
            self._note_time(message["wall_s"], items[number][0].id)
        if not is_open:
            if not worker.is_ready:
                raise RunError("a reward worker ended before it was ready; its error output says why")
            if worker.number is not None:
                scores[worker.take()] = Score.unscored(f"the process that judged it died ({worker.end_of_life()})")
            self._replace(worker, selector)
        elif worker.number is None and worker.num_done >= RECYCLE_AFTER:
            self._replace(worker, selector)

    def _replace(self, worker: _Worker, selector: selectors.BaseSelector) -> None:
        """End a worker and start another at once, so that it is up when the next batch comes."""
        selector.unregister(worker.stdout)
        worker.kill()
        self._workers.remove(worker)
        self._start_worker(worker.warm, selector)

    def _start_worker(self, warm: Iterable[str], selector: selectors.BaseSelector) -> None:
        worker = _Worker(self._settings(), warm=warm)
        self._workers.append(worker)
        selector.register(worker.stdout, selectors.EVENT_READ, worker)

    def _settings(self) -> dict[str, Any]:
        return {
            "weights": self._weights,
            "thinking": self._thinking,
            "deadline_s": self._deadline_s,
            "memory_bytes": self._memory_bytes,
            "sandbox": self._sandbox,
            "rewards": {name: place for (kind, name), place in REGISTRY.places.items() if kind == "reward"},
            "parts": {name: place for (kind, name), place in REGISTRY.places.items() if kind == "part"},
        }

    def _note_time(self, wall_s: float, sample_id: str) -> None:
        self.slowest = sorted([*self.slowest, (wall_s, sample_id)], reverse=True)[:SLOWEST_KEPT]

    def _reported(self, scores: Sequence[Score | None]) -> list[Score]:
        done = [score for score in scores if score is not None]
        assert len(done) == len(scores)
        reasons = Counter(score.reason for score in done if not score.is_scored)
        self.unscored.update(reasons)
        if reasons.total() > ALARM_FRAC * len(done):
            log.warning("%d of %d responses unscored: %s", reasons.total(), len(done), dict(reasons.most_common(3)))
        return done


@dataclass(frozen=True, slots=True)
class _Message:
    """A response on its way to a worker."""

    problem_type: str
    item: str
    """As JSON."""


class _Worker:
    """A process that judges, and the item it has in hand."""

    def __init__(self, settings: Mapping[str, Any], *, warm: Iterable[str]) -> None:
        # One thread each: the workers share the cores with the training.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "easyvideor1.rewards.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self.stdout = self._process.stdin, self._process.stdout
        self._unread = bytearray()
        self.is_ready = False
        self.warm = set(warm)
        """Problem types whose imports are done."""
        self.number: int | None = None
        self.num_done = 0
        self.kill_at_s = time.monotonic() + START_UP_S
        self._write(json.dumps({**settings, "warm_up": sorted(self.warm)}))

    def warm_up(self, problem_type: str) -> None:
        """Let the process import what a type needs; it is ready again when it says so."""
        self.warm.add(problem_type)
        self.is_ready, self.kill_at_s = False, time.monotonic() + START_UP_S
        self._write(json.dumps({"warm_up": problem_type}))

    def send(self, number: int, item: str, *, deadline_s: float) -> None:
        """Hand over an item; its clock starts now."""
        self.number, self.kill_at_s = number, time.monotonic() + deadline_s
        self._write(f'{{"number": {number}, "item": {item}}}')

    def take(self) -> int:
        """The number of the item in hand, which then is in hand no longer."""
        assert self.number is not None
        number, self.number, self.kill_at_s = self.number, None, float("inf")
        self.num_done += 1
        return number

    def read(self) -> bool:
        """Take in what the process wrote; False at the end of its output."""
        chunk = os.read(self.stdout.fileno(), 1 << 20)
        self._unread += chunk
        return bool(chunk)

    def messages(self) -> list[dict[str, Any]]:
        """The complete messages read so far."""
        *lines, rest = self._unread.split(b"\n")
        self._unread = bytearray(rest)
        return [json.loads(line) for line in lines]

    def end_of_life(self) -> str:
        code = self._process.wait(timeout=10)
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self.stdout.close()

    def _write(self, line: str) -> None:
        try:
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
        except BrokenPipeError:
            pass  # it died; the end of its output tells the same to the reader
