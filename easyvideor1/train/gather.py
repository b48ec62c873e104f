"""The scored groups of a step: the next samples in order, their rollouts, scores, stored trajectories and refills."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from easyvideor1.algo.recipes import Recipe
from easyvideor1.config import RunConfig
from easyvideor1.data.dataset import Example, Preparer, mix_seed
from easyvideor1.data.mixture import order, strata
from easyvideor1.errors import DataError, RunError
from easyvideor1.report.metrics import Stopwatch, Tally, group_tally
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.rollout.groups import fill, has_signal, num_sampled, takes_stored, with_stored
from easyvideor1.rollout.stored import StoredRollouts
from easyvideor1.types import Group, Rollout, Sample, Score, Scorer

EXAMPLES_IN_ERRORS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A scored group with the pixels it was made from."""

    example: Example
    group: Group
    greedy_score: Score | None
    """Of one more, greedy, response that does not train; for recipes that compare with it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """What a step trains on."""

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


class Gatherer:
    """Makes the groups of any step; everything that is random in them is a function of (run seed, step)."""

    def __init__(
        self,
        config: RunConfig,
        *,
        samples: Sequence[Sample],
        prepare: Preparer,
        engine: Engine,
        score: Scorer,
        recipe: Recipe,
        stored: StoredRollouts | None,
        watch: Stopwatch,
        note_bad: Callable[[DataError], None],
    ) -> None:
        """
        Args:
            samples: the training samples, all checked.
            stored: trajectories to mix in; needed where `mix.enable` is set.
            note_bad: is told every sample that was skipped.
        """
        assert stored is not None or not recipe.needs_stored, "this recipe learns from stored trajectories"
        if stored is not None and not recipe.needs_policy_rollouts:
            samples = [sample for sample in samples if sample.id in stored.by_sample]  # of the others nothing trains
        self._config, self._samples, self._prepare = config, samples, prepare
        self._strata = strata(samples, config.data)
        self._engine, self._score, self._recipe = engine, score, recipe
        self._stored, self._watch, self._note_bad = stored, watch, note_bad
        self._n = config.rollout.n if recipe.needs_policy_rollouts else 1
        self._num_tokens = 0

    def gather(self, step: int, cursor: int) -> Gathered:
        """The groups of a step; with dynamic sampling, groups without signal are dropped and refilled.

        Raises:
            DataError: a bad sample, where the run does not skip them.
            RunError: no sample is usable, or too many rollouts could not be scored.
        """
        config, tally = self._config, Tally()
        banned_hits, tokens = self._engine.banned_hits, self._num_tokens
        rounds = itertools.count()
        sampled: list[Group] = []
        num_skipped = 0

        def draw(count: int) -> list[Candidate]:
            nonlocal cursor, num_skipped
            examples, cursor_after = self._take(count, cursor)
            num_skipped += cursor_after - cursor - len(examples)
            cursor = cursor_after
            candidates = self._candidates(examples, step=step, seed=mix_seed(config.seed, step, next(rounds)))
            sampled.extend(candidate.group for candidate in candidates)
            return candidates

        drops = self._recipe.drop_equal_groups
        filled = fill(
            draw,
            wanted=config.train.prompts_per_step,
            max_rounds=self._recipe.refill_rounds if drops else 0,
            keeps=(lambda candidate: has_signal(candidate.group)) if drops else (lambda candidate: True),
        )
        # Of all groups: those that are kept for their signal say nothing about how often the policy is right.
        tally.merge(group_tally(sampled))
        tally.add("data/skipped", total=num_skipped)
        tally.add("rollout/dropped_groups_frac", total=filled.dropped_frac)
        tally.add("rollout/refills", total=filled.num_rounds)
        tally.add("rollout/banned_hits", total=self._engine.banned_hits - banned_hits)
        return Gathered(
            candidates=filled.kept,
            sampled=sampled,
            num_tokens=self._num_tokens - tokens,
            cursor=cursor,
            tally=tally,
        )

    def _take(self, count: int, cursor: int) -> tuple[list[Example], int]:
        """The next `count` examples in the run's order, and the place after them; bad samples by the run's policy."""
        examples: list[Example] = []
        num_bad = 0
        for index in order(self._strata, seed=self._config.seed, start=cursor):
            if len(examples) == count:
                break
            cursor += 1
            try:
                examples.append(self._example(self._samples[index]))
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

    def _candidates(self, examples: Sequence[Example], *, step: int, seed: int) -> list[Candidate]:
        trajectories = [self._trajectory(example, step) for example in examples]
        with self._watch.part("rollout"):
            rollouts = self._sampled(examples, trajectories, seed=seed)
            greedy = self._greedy(examples, seed=seed)
        self._num_tokens += sum(len(rollout.token_ids) for group in (*rollouts, *greedy) for rollout in group)
        with self._watch.part("reward"):
            groups = self._scored(examples, rollouts)
            self._check_unscored(groups, step)
            greedy_scores = self._judge([(example, group[0]) for example, group in zip(examples, greedy, strict=False)])
            groups = self._mixed(examples, groups, trajectories)
        return [
            Candidate(example=example, group=group, greedy_score=score)
            for example, group, score in itertools.zip_longest(examples, groups, greedy_scores)
        ]

    def _trajectory(self, example: Example, step: int) -> Rollout | None:
        if self._stored is None or not self._config.mix.enable:
            return None
        return self._stored.pick(example.sample.id, turn=step)

    def _sampled(
        self, examples: Sequence[Example], trajectories: Sequence[Rollout | None], *, seed: int
    ) -> list[tuple[Rollout, ...]]:
        """Rollouts of the policy: one place fewer where a stored trajectory is sure to take the last."""
        wanted = [num_sampled(self._n, has_stored=item is not None, mix=self._config.mix) for item in trajectories]
        rollouts: list[tuple[Rollout, ...]] = [()] * len(examples)
        for n in sorted(set(wanted) - {0}, reverse=True):
            places = [place for place, count in enumerate(wanted) if count == n]
            groups = self._engine.generate([examples[place] for place in places], self._sampling(n), seed=seed)
            for place, group in zip(places, groups, strict=True):
                rollouts[place] = group
        return rollouts

    def _greedy(self, examples: Sequence[Example], *, seed: int) -> list[tuple[Rollout, ...]]:
        if not self._recipe.needs_greedy_baseline:
            return []
        sampling = Sampling(temperature=0.0, max_response_tokens=self._config.rollout.max_response_tokens)
        return self._engine.generate(examples, sampling, seed=seed)

    def _sampling(self, n: int) -> Sampling:
        rollout = self._config.rollout
        return Sampling(
            n=n,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            max_response_tokens=rollout.max_response_tokens,
        )

    def _mixed(
        self, examples: Sequence[Example], groups: Sequence[Group], trajectories: Sequence[Rollout | None]
    ) -> list[Group]:
        """Stored trajectories in the last place of the groups that take one, judged by the same rewards."""
        mix = self._config.mix
        taken = {
            place: trajectory
            for place, (group, trajectory) in enumerate(zip(groups, trajectories, strict=True))
            if trajectory is not None and takes_stored(group.scores, mix=mix)
        }
        scores = self._judge([(examples[place], trajectory) for place, trajectory in taken.items()])
        mixed = list(groups)
        for (place, trajectory), score in zip(taken.items(), scores, strict=True):
            mixed[place] = with_stored(groups[place], stored=trajectory, score=score, n=self._n)
        return mixed

    def _scored(self, examples: Sequence[Example], rollouts: Sequence[tuple[Rollout, ...]]) -> list[Group]:
        pairs = [(example, rollout) for example, group in zip(examples, rollouts, strict=True) for rollout in group]
        scores = iter(self._judge(pairs))
        return [
            Group(prompt=example.prompt, rollouts=group, scores=tuple(_next(scores, len(group))))
            for example, group in zip(examples, rollouts, strict=True)
        ]

    def _judge(self, pairs: Sequence[tuple[Example, Rollout]]) -> list[Score]:
        items = [(example.sample, rollout.text, len(rollout.token_ids)) for example, rollout in pairs]
        return self._score(items) if items else []

    def _check_unscored(self, groups: Sequence[Group], step: int) -> None:
        """Stop where too many rollouts could not be judged: a reward that fails must not look like a bad policy."""
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


def _next(scores: Iterator[Score], count: int) -> list[Score]:
    return [next(scores) for _ in range(count)]
