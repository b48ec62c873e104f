"""The call path to every reward: cheap answers in this process, the others in processes that can be killed.

An answer to a built-in type that runs into the deadline, the memory limit, a crash or a fault of our code although its
gold answer can be read is wrong, and counted: being unscored would be a way out of punishment. What a reward of the
user cannot score is unscored. No worker starts before the first response that needs one.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from easyvideor1.config_reward import RewardConfig
from easyvideor1.errors import DataError, UsageError
from easyvideor1.rewards import router
from easyvideor1.rewards.code_tests import check_tests, is_tried
from easyvideor1.rewards.grader import Settings
from easyvideor1.rewards.input_functions import Answered
from easyvideor1.rewards.judge import Judge
from easyvideor1.rewards.judged import judge_all
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.parts import overlong_part
from easyvideor1.rewards.readings import TAGS, Reading
from easyvideor1.rewards.registry import REGISTRY, register_places
from easyvideor1.rewards.workers import Workers, kind_of_reason
from easyvideor1.sandbox.probe import isolation_here
from easyvideor1.types import Sample, Score

Item = tuple[Sample, str] | tuple[Sample, str, int]
"""Sample, response text and, where the length counts, the response's tokens."""

ALARM_FRAC = 0.001
"""A batch with a larger share of unscored responses is logged as a warning."""

SHOWN_CHARS = 120
"""Characters of a response that the log shows."""

log = logging.getLogger(__name__)


class RewardPool:
    """Scores responses; use it as a context manager, so that no worker outlives it.

    Args:
        weights: part -> weight, summing to 1.
        thinking: think blocks were asked for.
        reading: where the answer stands in a response.
        rewards: problem type -> "file.py:function", rewards of the user.
        parts: name -> "file.py:function", parts of the user.
        arguments: name of one of these -> keyword arguments of its function.
        max_response_tokens, overlong_buffer_tokens: with a buffer > 0, every score has the part "overlong" and every
            item must bring its length in tokens.
        workers: processes at most.
        deadline_s: wall time one response may take in a worker; less where a batch has lost much time already.
        memory_bytes: address space of one worker.
        sandbox: command that runs Python answers; none: they are compared as text.
        run_python: run them on the tests of their rows, in the sandbox that ships.
        judge: gives the accuracy of its problem types instead of the built-in rewards.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] = router.WEIGHTS,
        thinking: bool = False,
        reading: Reading = TAGS,
        rewards: Mapping[str, str] | None = None,
        parts: Mapping[str, str] | None = None,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        max_response_tokens: int = 0,
        overlong_buffer_tokens: int = 0,
        workers: int = 2,
        deadline_s: float = 10.0,
        memory_bytes: int = 2 * 1024**3,
        sandbox: Sequence[str] = (),
        run_python: bool = False,
        judge: Judge | None = None,
    ) -> None:
        register_places(rewards=rewards or {}, parts=parts or {}, arguments=arguments or {})
        self._weights, self._thinking, self._reading = dict(weights), thinking, reading
        self._max_tokens, self._buffer_tokens = max_response_tokens, overlong_buffer_tokens
        self._sandbox, self._judge = tuple(sandbox), judge
        self._isolation = isolation_here() if run_python else None
        self._is_judge_tried = False
        self._workers = Workers(
            Settings(
                weights=self._weights,
                thinking=thinking,
                reading=reading.name,
                sandbox=self._sandbox,
                isolation=self._isolation,
                workers=workers,
                deadline_s=deadline_s,
                memory_bytes=memory_bytes,
            )
        )
        self._lock = threading.Lock()
        self.unscored: Counter[str] = Counter()
        """Kind of reason -> responses that could not be scored, over the life of the pool."""
        self._require_known_parts()

    @classmethod
    def from_config(
        cls, config: RewardConfig, *, thinking: bool, max_response_tokens: int, reading: Reading = TAGS
    ) -> Self:
        """The pool that a recipe asks for."""
        return cls(
            weights=config.weights,
            thinking=thinking,
            reading=reading,
            rewards=config.rewards,
            parts=config.parts,
            arguments=config.arguments,
            max_response_tokens=max_response_tokens,
            overlong_buffer_tokens=config.overlong_buffer_tokens,
            workers=config.workers,
            deadline_s=config.deadline_s,
            memory_bytes=config.memory_mb * 1024**2,
            sandbox=config.sandbox,
            run_python=config.run_python,
            judge=None if config.judge is None else Judge(config.judge),
        )

    @property
    def cut(self) -> Mapping[str, int]:
        """ "time", "memory", "crash" or "error" -> answers that ran into that and are wrong for it, since the start."""
        return self._workers.cut

    @property
    def slowest(self) -> Sequence[tuple[float, str]]:
        """(seconds, sample id) of the slowest responses in workers, slowest first."""
        return self._workers.slowest

    def check(self, samples: Iterable[Sample]) -> None:
        """Make sure that every sample can be scored.

        Raises:
            DataError: the first sample with an unknown type, an unreadable gold answer, or tests that are not run.
            UsageError: the judge cannot be reached, or does not tell right from wrong.
        """
        samples = list(samples)
        slow = []
        for sample in samples:
            if self._is_for_judge(sample):
                continue
            if self._isolation is None:
                check_tests(sample, "run by a command" if self._sandbox else "compared")
            if not self._is_tried(sample) and router.is_checked_quickly(sample):
                router.check([sample])
            else:
                slow.append(sample)
        with self._lock:
            self._workers.check(slow)
        if self._judge is not None and not self._is_judge_tried and any(map(self._is_for_judge, samples)):
            self._judge.try_out()
            self._is_judge_tried = True

    def score(self, items: Sequence[Item]) -> list[Score]:
        """Scores in the order of the items; a response that cannot be scored is unscored, with the reason.

        Raises:
            UsageError: the length of the responses counts, but an item does not bring it.
            RunError: a worker cannot even start.
        """
        with self._lock:
            scores: list[Score | None] = [None] * len(items)
            heavy: dict[int, Answered] = {}
            judged: dict[int, Answered] = {}
            for index, item in enumerate(items):
                answered = self._answered(item)
                if self._is_for_judge(answered.sample):
                    judged[index] = answered
                    continue
                scores[index] = self._quick_score(answered)
                if scores[index] is None:
                    heavy[index] = answered
            for index, score in self._workers.score(heavy) if heavy else ():
                scores[index] = score
            for index, score in self._judge_all(judged):
                scores[index] = score
            return self._reported(items, scores)

    def renew_budget(self) -> None:
        """Let all responses until the next call share what one batch may lose to answers that run into the deadline:
        those of a step, or of a validation, come in many batches."""
        with self._lock:
            self._workers.renew_budget()

    def close(self) -> None:
        """End all workers."""
        self._workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_known_parts(self) -> None:
        known = {"accuracy", "format", *REGISTRY.parts} | ({"overlong"} if self._buffer_tokens > 0 else set())
        unknown = set(self._weights) - known
        if unknown and not REGISTRY.rewards:  # a user's reward may bring further parts
            name = min(unknown)
            hint = "set reward.overlong_buffer_tokens" if name == "overlong" else "register it with @part"
            raise UsageError(f"reward.weights names the part '{name}', which no score has; {hint}")

    def _is_tried(self, sample: Sample) -> bool:
        return self._isolation is not None and is_tried(sample)

    def _is_for_judge(self, sample: Sample) -> bool:
        return self._judge is not None and sample.problem_type in self._judge.problem_types

    def _judge_all(self, judged: Mapping[int, Answered]) -> Iterator[tuple[int, Score]]:
        """(place in the batch, score) of the responses that the judge is for."""
        if self._judge is None or not judged:
            return
        responses = {index: (item.sample, read_response(item.text)) for index, item in judged.items()}
        for index, found in judge_all(self._judge, responses, self._reading).items():
            if isinstance(found, Score):
                yield index, found
                continue
            _, response = responses[index]
            score = router.finish(found, judged[index], response, weights=self._weights, thinking=self._thinking)
            yield index, score

    def _answered(self, item: Item) -> Answered:
        num_tokens = item[2] if len(item) > 2 else None
        if self._buffer_tokens <= 0:
            return Answered(item[0], item[1], num_tokens)
        if num_tokens is None:
            raise UsageError("reward.overlong_buffer_tokens is set, but a response came without its length in tokens")
        overlong = overlong_part(num_tokens, max_tokens=self._max_tokens, buffer_tokens=self._buffer_tokens)
        return Answered(item[0], item[1], num_tokens, overlong)

    def _quick_score(self, answered: Answered) -> Score | None:
        if self._is_tried(answered.sample) or (self._sandbox and answered.sample.problem_type == "python code"):
            return None
        try:
            return router.quick_score(answered, weights=self._weights, thinking=self._thinking, reading=self._reading)
        except UsageError:
            raise
        except DataError as error:
            return Score.unscored(str(error)[:500])
        except Exception:  # an answer that our code fails on must not stop the batch: a worker tries it and says why
            log.warning("%s: scoring failed", answered.sample.id, exc_info=True)
            return None

    def _reported(self, items: Sequence[Item], scores: Sequence[Score | None]) -> list[Score]:
        done = [score for score in scores if score is not None]
        assert len(done) == len(scores)
        reasons = Counter(kind_of_reason(score.reason) for score in done if not score.is_scored)
        self.unscored.update(reasons)
        if reasons.total() > ALARM_FRAC * len(done):
            first = next(index for index, score in enumerate(done) if not score.is_scored)
            log.warning(
                "%d of %d responses unscored: %s; the first: %s: %s; the response ends %r",
                reasons.total(),
                len(done),
                dict(reasons.most_common(3)),
                items[first][0].id,
                done[first].reason,
                items[first][1][-SHOWN_CHARS:],
            )
        return done
