"""Scoring a batch in processes that can be killed, within a bounded time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from easyvideor1.errors import DataError, JobDied, JobError, JobOutOfMemory, JobTimeout
from easyvideor1.jobs.pool import Outcome, Pool
from easyvideor1.rewards import router
from easyvideor1.rewards.budget import Budget
from easyvideor1.rewards.code_tests import is_tried, tests_text
from easyvideor1.rewards.grader import Grader, Heavy, Settings, Together, wall_limit_s, without_content
from easyvideor1.rewards.input_functions import Answered
from easyvideor1.rewards.parse import read_response
from easyvideor1.rewards.registry import REGISTRY
from easyvideor1.rewards.router import TaskScore
from easyvideor1.sandbox.runs import START_S
from easyvideor1.types import Sample, Score

RECYCLE_AFTER = 2000
"""Items after which a worker is replaced, because code of the user's may keep what it should not."""
SLOWEST_KEPT = 5
SPARE_S = 2.0
"""Seconds that a worker may go on beyond the limit it keeps itself, before it is killed."""
KINDS = {JobTimeout: "time", JobOutOfMemory: "memory", JobDied: "crash", JobError: "error"}


class Workers:
    """The worker processes of a reward pool; they start when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: Pool[Heavy | Together, Score | list[Score]] | None = None
        self._readable: dict[tuple[object, ...], bool] = {}
        """Golds that were read alone, and whether they could be."""
        self._budgets: tuple[Budget, Budget] | None = None
        """None: every batch has its own."""
        self.cut: Counter[str] = Counter()
        self.slowest: list[tuple[float, str]] = []

    def check(self, samples: Iterable[Sample]) -> None:
        """Read the gold answers of samples; raises the DataError of the first that cannot be read."""
        todo = [(index, sample) for index, sample in enumerate(samples) if _gold_key(sample) not in self._readable]
        limit_s = self._settings.deadline_s
        heavy = [
            Heavy(number=index, sample=without_content(sample), text=None, limit_s=limit_s) for index, sample in todo
        ]
        errors: dict[int, DataError] = {}
        for outcome in self._run(heavy):
            self._readable[_gold_key(outcome.item.sample)] = outcome.error is None
            if outcome.error is not None:
                errors[outcome.item.number] = _data_error(outcome)
        if errors:
            raise errors[min(errors)]

    def score(self, responses: Mapping[int, Answered]) -> Iterator[tuple[int, Score]]:
        """(place in the batch, score) of each response, as they come.

        Args:
            responses: by their place in the batch.

        Raises:
            UsageError: a function of the user's cannot be loaded, or a weight names a part that a response lacks.
            RunError: a worker cannot even start.
        """
        own = {place: item for place, item in responses.items() if self._is_own(item.sample)}
        # The shortest first: what is made to take long is seldom short, and should not keep the others from their time.
        built_in = sorted(responses.keys() - own.keys(), key=lambda place: (len(responses[place].text), place))
        for_built_in, for_own = self._budgets or self._new_budgets()
        budget = for_built_in
        cut: list[Outcome[Heavy, Score]] = []
        for outcome in self._run(_heavy(place, responses[place], budget.first_limit_s()) for place in built_in):
            if type(outcome.error) in KINDS:
                cut.append(outcome)
                budget.lost_s += outcome.wall_s
            else:
                yield outcome.item.number, self._score_of(outcome)
        yield from self._tried_again(cut, budget)
        together = {place: item for place, item in own.items() if router.is_scored_in_batches(item.sample)}
        alone = {place: item for place, item in own.items() if place not in together}
        for outcome in self._run(_heavy(place, item, for_own.own_limit_s()) for place, item in alone.items()):
            is_late = isinstance(outcome.error, JobTimeout) or outcome.wall_s >= outcome.item.limit_s
            for_own.lost_s += outcome.wall_s if is_late else 0.0
            yield outcome.item.number, self._score_of(outcome)
        yield from self._by_batches(together, for_own)

    def _by_batches(self, responses: Mapping[int, Answered], budget: Budget) -> Iterator[tuple[int, Score]]:
        """Scores by functions of the user's that take many responses; what goes wrong goes wrong for all of a call."""
        by_function: dict[str, list[Heavy]] = {}
        for place, item in responses.items():
            function = REGISTRY.place_of(item.sample.problem_type)
            by_function.setdefault(function, []).append(_heavy(place, item, 0.0))
        for heavy in by_function.values():
            work = Together(responses=tuple(heavy), limit_s=budget.own_limit_s() * len(heavy))
            for outcome in self._run_any([work]):
                budget.lost_s += outcome.wall_s if isinstance(outcome.error, JobTimeout) else 0.0
                if outcome.error is not None and not isinstance(outcome.error, DataError):
                    raise outcome.error
                reason = "" if outcome.error is None else outcome.error.problem
                scores = outcome.result if isinstance(outcome.result, list) else [Score.unscored(reason)] * len(heavy)
                yield from ((item.number, score) for item, score in zip(heavy, scores, strict=True))

    def renew_budget(self) -> None:
        """Let all responses share one budget of lost time from here to the next call, however many batches they are."""
        self._budgets = self._new_budgets()

    def _new_budgets(self) -> tuple[Budget, Budget]:
        """For answers to built-in types, and for those that the user's own code judges."""
        deadline_s, workers = self._settings.deadline_s, self._settings.workers
        return Budget(deadline_s, workers), Budget(deadline_s, workers)

    def close(self) -> None:
        """End all workers."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _is_own(self, sample: Sample) -> bool:
        return router.runs_own_code(sample) or (bool(self._settings.sandbox) and sample.problem_type == "python code")

    def _is_tried(self, sample: Sample) -> bool:
        return self._settings.isolation is not None and is_tried(sample)

    def _tried_again(self, cut: Sequence[Outcome[Heavy, Score]], budget: Budget) -> Iterator[tuple[int, Score]]:
        """A second try of what was late, in the time that is left; what is cut again, or cannot be tried, is wrong."""
        late = [outcome for outcome in cut if isinstance(outcome.error, JobTimeout)]
        final = {outcome.item.number: outcome for outcome in cut}

        def again() -> Iterator[Heavy]:
            for place, outcome in enumerate(late):
                limit_s = budget.second_limit_s(len(late) - place)
                if limit_s is not None:
                    yield replace(outcome.item, limit_s=limit_s)

        for outcome in self._run(again()):
            if type(outcome.error) in KINDS:
                budget.lost_s += outcome.wall_s
            final[outcome.item.number] = outcome
        for outcome in final.values():
            yield outcome.item.number, self._score_of(outcome)

    def _run(self, heavy: Iterable[Heavy]) -> Iterator[Outcome[Heavy, Score]]:
        """The outcomes of responses, as they come."""
        return cast(Iterator[Outcome[Heavy, Score]], self._run_any(heavy))

    def _run_any(self, work: Iterable[Heavy | Together]) -> Iterator[Outcome[Heavy | Together, Score | list[Score]]]:
        pool = self._started()

        def with_deadline() -> Iterator[Heavy | Together]:
            for response in work:
                # A worker keeps the limit of a built-in type itself; the user's own code is stopped from outside.
                is_tried = self._is_tried(response.sample)
                spare_s = START_S + SPARE_S if is_tried else 0.0 if self._is_own(response.sample) else SPARE_S
                limit_s = wall_limit_s(response.limit_s) if is_tried else response.limit_s
                pool.deadline_s = limit_s + spare_s
                yield response

        for outcome in pool.run(with_deadline()):
            self.slowest = sorted([*self.slowest, (outcome.wall_s, outcome.item.sample.id)], reverse=True)[
                :SLOWEST_KEPT
            ]
            yield outcome

    def _started(self) -> Pool[Heavy | Together, Score | list[Score]]:
        if self._pool is None:
            settings = self._settings
            grader = Grader(
                settings=settings,
                rewards={name: place for (kind, name), place in REGISTRY.places.items() if kind == "reward"},
                parts={name: place for (kind, name), place in REGISTRY.places.items() if kind == "part"},
                arguments={name: given for name, given in REGISTRY.arguments.items() if given},
            )
            self._pool = Pool(
                grader,
                workers=settings.workers,
                deadline_s=settings.deadline_s,
                memory_bytes=settings.memory_bytes,
                recycle_after=RECYCLE_AFTER,
            )
        return self._pool

    def _score_of(self, outcome: Outcome[Heavy, Score]) -> Score:
        """The score that an outcome stands for: what ran into a limit is wrong where its gold can be read."""
        if outcome.result is not None:
            return outcome.result
        if not isinstance(outcome.error, DataError):
            assert outcome.error is not None
            raise outcome.error
        kind = KINDS.get(type(outcome.error))
        sample, text = outcome.item.sample, outcome.item.text
        if kind is None or text is None or self._is_own(sample) or not self._can_read_gold(sample):
            return Score.unscored(outcome.error.problem)
        self.cut[kind] += 1
        return router.finish(
            TaskScore(0.0, None, outcome.error.problem),
            outcome.item.answered,
            read_response(text),
            weights=self._settings.weights,
            thinking=self._settings.thinking,
        )

    def _can_read_gold(self, sample: Sample) -> bool:
        key = _gold_key(sample)
        if key not in self._readable:
            alone = Heavy(number=0, sample=sample, text=None, limit_s=self._settings.deadline_s)
            self._readable[key] = all(outcome.error is None for outcome in self._run([alone]))
        return self._readable[key]


def _heavy(place: int, answered: Answered, limit_s: float) -> Heavy:
    sample, text, num_tokens, overlong = answered
    return Heavy(
        number=place,
        sample=without_content(sample),
        text=text,
        overlong=overlong,
        num_tokens=num_tokens,
        limit_s=limit_s,
    )


def _gold_key(sample: Sample) -> tuple[object, ...]:
    return sample.problem_type, sample.gold, sample.options, tests_text(sample)


def _data_error(outcome: Outcome[Heavy, Score]) -> DataError:
    """The error of a gold answer, with the place of its row."""
    sample, error = outcome.item.sample, outcome.error
    if not isinstance(error, DataError):
        assert error is not None
        raise error
    if type(error) is DataError:
        return error
    return DataError(
        f"the gold answer could not be read: {error.problem}",
        where=sample.where or sample.id,
        field="answer",
        remedy="shorten the gold answer, or raise reward.deadline_s and reward.memory_mb",
    )


_KIND = re.compile(r"(?:judge .*?: )?[^:(,;'\d]*", re.DOTALL)


def kind_of_reason(reason: str) -> str:
    """The words of a reason up to its first detail, which reasons of one kind share.

    >>> kind_of_reason("unexpected KeyError: 'x' (own.py:3)"), kind_of_reason("judge m: no verdict, 'x'")
    ('unexpected KeyError', 'judge m: no verdict')
    """
    match = _KIND.match(reason)
    return match[0].strip() if match else ""
