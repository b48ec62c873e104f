"""The scored groups of a step: the next samples in order, their rollouts, scores, offline trajectories and refills."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.config import RunConfig
from easyvideor1.data.order import order, strata
from easyvideor1.data.prepare import Preparer
from easyvideor1.errors import DataError, RunError
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.records.tally import Tally, group_tally
from easyvideor1.rollout.ask import Scored, ask
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.rollout.groups import fill, has_signal, num_sampled, takes_offline, with_offline
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.seeds import mix_seed
from easyvideor1.types import Example, Group, Rollout, Sample, Score, Scorer, StopReason

EXAMPLES_IN_ERRORS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A scored group with the pixels it was made from."""

    example: Example
    group: Group
    greedy_score: Score | None
    """Score of one more response, greedy, that does not train; for algorithms that compare with it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Collected:
    """The scored groups of a step."""

    candidates: list[Candidate]
    sampled: list[Group]
    """All scored groups, those that were dropped included."""
    num_tokens: int
    """Tokens that the engine generated for them."""
    cursor: int
    """Place in the order of samples after those of this step."""
    tally: Tally

    @property
    def groups(self) -> list[Group]:
        return [candidate.group for candidate in self.candidates]

    @property
    def greedy_scores(self) -> list[Score] | None:
        scores = [candidate.greedy_score for candidate in self.candidates if candidate.greedy_score is not None]
        return scores or None


class Collector:
    """Makes the groups of any step; everything that is random in them is a function of the run's seed and the place in
    its order of samples."""

    def __init__(
        self,
        config: RunConfig,
        *,
        samples: Sequence[Sample],
        prepare: Preparer,
        engine: Engine,
        score: Scorer,
        algorithm: Algorithm,
        offline: OfflineTrajectories | None,
        watch: Stopwatch,
        note_bad: Callable[[DataError], None],
    ) -> None:
        """
        Args:
            samples: the training samples, all checked.
            offline: trajectories to put into groups; needed where `offline.enable` is set.
            note_bad: called with every sample that was skipped.
        """
        assert offline is not None or not algorithm.needs_offline, "this algorithm learns from offline trajectories"
        if offline is not None and not algorithm.needs_policy_rollouts:
            # Samples without a trajectory would train nothing.
            samples = [sample for sample in samples if sample.id in offline.by_sample]
        self._config, self._samples, self._prepare = config, samples, prepare
        self._strata = strata(samples, config.data)
        self._engine, self._score, self._algorithm = engine, score, algorithm
        self._offline, self._watch, self._note_bad = offline, watch, note_bad
        self._n = config.rollout.n if algorithm.needs_policy_rollouts else 1
        self._num_tokens = 0

    def collect(self, step: int, cursor: int, *, version: int) -> Collected:
        """The groups of a step; with dynamic sampling, groups without signal are dropped and refilled.

        Args:
            version: of the policy's weights, which all rollouts must come from.

        Raises:
            DataError: a bad sample, where the run does not skip them.
            RunError: no sample is usable, too many rollouts could not be scored, or one came from other weights.
        """
        config, tally = self._config, Tally()
        banned_hits, tokens = self._engine.banned_hits, self._num_tokens
        sampled: list[Group] = []
        num_skipped = 0

        def take(count: int) -> list[Candidate]:
            nonlocal cursor, num_skipped
            places, cursor_after = self._take(count, cursor)
            num_skipped += cursor_after - cursor - len(places)
            cursor = cursor_after
            candidates = self._candidates(places, step=step, version=version)
            sampled.extend(candidate.group for candidate in candidates)
            return candidates

        drops = self._algorithm.drop_equal_groups
        with self._engine.awake():
            filled = fill(
                take,
                wanted=config.train.prompts_per_step,
                max_rounds=self._algorithm.refill_rounds if drops else 0,
                keeps=(lambda candidate: has_signal(candidate.group)) if drops else (lambda candidate: True),
            )
        # Of all groups: those that are kept for their signal say nothing about how often the policy is right.
        tally.merge(group_tally(sampled))
        tally.add("data/skipped", total=num_skipped)
        tally.add("rollout/dropped_groups_frac", total=filled.dropped_frac)
        tally.add("rollout/refills", total=filled.num_rounds)
        tally.add("rollout/banned_hits", total=self._engine.banned_hits - banned_hits)
        stops = [rollout.stop_reason for group in sampled for rollout in group.rollouts]
        tally.add("rollout/aborted", total=stops.count(StopReason.ABORT))
        return Collected(
            candidates=filled.kept,
            sampled=sampled,
            num_tokens=self._num_tokens - tokens,
            cursor=cursor,
            tally=tally,
        )

    def _take(self, count: int, cursor: int) -> tuple[dict[int, Example], int]:
        """The next `count` examples in the run's order by their places in it, and the place after them; bad samples by
        the run's policy."""
        examples: dict[int, Example] = {}
        num_bad = 0
        for index in order(self._strata, seed=self._config.seed, start=cursor):
            if len(examples) == count:
                break
            cursor += 1
            try:
                examples[cursor - 1] = self._example(self._samples[index])
            except DataError as error:
                if self._config.data.on_bad_sample == "error":
                    raise
                num_bad += 1
                self._note_bad(error)
                if num_bad > len(self._samples):
                    raise RunError(f"no usable sample is left; the last error: {error}") from error
        return examples, cursor

    def _example(self, sample: Sample) -> Example:
        with self._watch.part("process"):
            prompt = self._prepare.prompt(sample)
        with self._watch.part("decode", item=sample.id):
            clips = self._prepare.clips(prompt)
        with self._watch.part("process"):
            return self._prepare.example(prompt, clips)

    def _candidates(self, places: Mapping[int, Example], *, step: int, version: int) -> list[Candidate]:
        examples = list(places.values())
        trajectories = [self._trajectory(example, step) for example in examples]
        wanted: dict[tuple[int, bool], Request] = {}
        """(number of the example, is greedy) -> what the engine is asked."""
        for number, ((place, example), trajectory) in enumerate(zip(places.items(), trajectories, strict=True)):
            # A sample that comes again, in this step or another, stands at another place.
            seed = mix_seed(self._config.seed, place)
            if sampling := self._sampling(has_offline=trajectory is not None):
                wanted[number, False] = Request(example=example, sampling=sampling, seed=seed)
            if self._algorithm.needs_greedy_baseline:
                wanted[number, True] = Request(example=example, sampling=self._greedy_sampling(), seed=seed)
        found: dict[tuple[int, bool], Scored] = {}
        keys = list(wanted)
        for request, scored in ask(wanted.values(), engine=self._engine, score=self._score, timed=self._watch.part):
            _check_version(scored.rollouts, version, sample_id=examples[keys[request][0]].sample.id)
            found[keys[request]] = scored
        self._num_tokens += sum(len(rollout.token_ids) for item in found.values() for rollout in item.rollouts)
        empty = Scored(rollouts=(), scores=())
        groups = [_group(example, found.get((number, False), empty)) for number, example in enumerate(examples)]
        greedy_scores = [found[number, True].scores[0] for number in range(len(examples)) if (number, True) in found]
        self._check_unscored(groups, step)
        with self._watch.part("reward"):
            groups = self._with_trajectories(groups, trajectories)
        return [
            Candidate(example=example, group=group, greedy_score=score)
            for example, group, score in itertools.zip_longest(examples, groups, greedy_scores)
        ]

    def _trajectory(self, example: Example, step: int) -> Rollout | None:
        if self._offline is None or not self._config.offline.enable:
            return None
        return self._offline.pick(example.sample.id, turn=step)

    def _sampling(self, *, has_offline: bool) -> Sampling | None:
        """What the policy samples for a prompt: one response fewer where an offline trajectory is sure to take the last
        place; None: nothing."""
        rollout = self._config.rollout
        n = num_sampled(self._n, has_offline=has_offline, offline=self._config.offline)
        if not n:
            return None
        return Sampling(
            n=n,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            top_k=rollout.top_k,
            max_response_tokens=rollout.max_response_tokens,
        )

    def _greedy_sampling(self) -> Sampling:
        return Sampling(temperature=0.0, max_response_tokens=self._config.rollout.max_response_tokens)

    def _with_trajectories(self, groups: Sequence[Group], trajectories: Sequence[Rollout | None]) -> list[Group]:
        """Offline trajectories in the last place of the groups that take one, scored by the same rewards."""
        offline = self._config.offline
        taken = {
            place: trajectory
            for place, (group, trajectory) in enumerate(zip(groups, trajectories, strict=True))
            if trajectory is not None and takes_offline(group.scores, offline=offline)
        }
        items = [(groups[place].prompt.sample, item.text, len(item.token_ids)) for place, item in taken.items()]
        scores = self._score(items) if items else []
        changed = list(groups)
        for (place, trajectory), score in zip(taken.items(), scores, strict=True):
            changed[place] = with_offline(groups[place], trajectory=trajectory, score=score, n=self._n)
        return changed

    def _check_unscored(self, groups: Sequence[Group], step: int) -> None:
        """Stop where too many rollouts could not be scored: a reward that fails must not look like a bad policy."""
        scores = [(group, score) for group in groups for score in group.scores]
        unscored = [(group, score) for group, score in scores if not score.is_scored]
        limit = self._config.reward.max_unscored_frac
        if len(unscored) > limit * len(scores):
            examples = "; ".join(
                f"{group.prompt.sample.id}: {score.reason}" for group, score in unscored[:EXAMPLES_IN_ERRORS]
            )
            raise RunError(
                f"step {step}: {len(unscored)} of {len(scores)} rollouts could not be scored, more than "
                f"reward.max_unscored_frac={limit:g} ({examples})"
            )


def _check_version(rollouts: Sequence[Rollout], version: int, *, sample_id: str) -> None:
    """Refuse rollouts of other weights than those that learn from them: the update takes them for its own."""
    for rollout in rollouts:
        if rollout.weights_version != version:
            raise RunError(
                f"sample {sample_id}: a rollout comes from version {rollout.weights_version} of the weights, the "
                f"policy is at version {version}; the engine did not take over the last update"
            )


def _group(example: Example, scored: Scored) -> Group:
    return Group(prompt=example.prompt, rollouts=scored.rollouts, scores=scored.scores)
