"""The call path to every reward: cheap types in this process, the others in processes that can be killed.

A worker that overruns its deadline, its memory or crashes costs the response it worked on, which comes back unscored,
and nothing else. No worker starts before the first response that needs one.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from easyvideor1.config import RewardConfig
from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.pool import Pool
from easyvideor1.rewards import router
from easyvideor1.rewards.grader import Grader, Heavy, without_content
from easyvideor1.rewards.judge import Candidate, Judge
from easyvideor1.rewards.parse import MAX_ANSWER_CHARS, Response, read_response
from easyvideor1.rewards.parts import overlong_part
from easyvideor1.rewards.registry import REGISTRY, register_places
from easyvideor1.types import Sample, Score

Item = tuple[Sample, str] | tuple[Sample, str, int]
"""Sample, response text and, where the length counts, the response's tokens."""

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
        self._sandbox, self._judge = tuple(sandbox), judge
        self._is_judge_tried = False
        self._workers: Pool[Heavy, Score] | None = None
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
            heavy: list[Heavy] = []
            judged: dict[int, Response] = {}
            for index, item in enumerate(items):
                overlong = self._overlong(item)
                if self._is_for_judge(item[0]):
                    judged[index] = read_response(item[1])
                elif router.is_heavy(item[0]):
                    sample = without_content(item[0])
                    heavy.append(Heavy(number=index, sample=sample, text=item[1], overlong=overlong))
                else:
                    scores[index] = self._score_here(item, overlong)
            if heavy:
                for index, score in self._score_in_workers(heavy):
                    scores[index] = score
            if self._judge is not None and judged:
                for index, score in self._judge_all(self._judge, judged, items).items():
                    scores[index] = score
            return self._reported(scores)

    def close(self) -> None:
        """End all workers."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

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
        return self._judge is not None and sample.problem_type in self._judge.problem_types

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

    def _score_in_workers(self, heavy: Sequence[Heavy]) -> Iterator[tuple[int, Score]]:
        """(place in the batch, score) of each response, as they come.

        Raises:
            UsageError: a function of the user's cannot be loaded, or a weight names a part that a response lacks.
            RunError: a worker cannot even start.
        """
        if self._workers is None:
            self._workers = Pool(
                self._grader(),
                workers=self._max_workers,
                deadline_s=self._deadline_s,
                memory_bytes=self._memory_bytes,
                recycle_after=RECYCLE_AFTER,
            )
        for outcome in self._workers.run(heavy):
            self._note_time(outcome.wall_s, outcome.item.sample.id)
            if outcome.result is not None:
                yield outcome.item.number, outcome.result
            elif isinstance(outcome.error, DataError):
                yield outcome.item.number, Score.unscored(outcome.error.problem)
            else:
                assert outcome.error is not None
                raise outcome.error

    def _grader(self) -> Grader:
        return Grader(
            weights=self._weights,
            thinking=self._thinking,
            rewards={name: place for (kind, name), place in REGISTRY.places.items() if kind == "reward"},
            parts={name: place for (kind, name), place in REGISTRY.places.items() if kind == "part"},
            sandbox=self._sandbox,
            deadline_s=self._deadline_s,
        )

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
