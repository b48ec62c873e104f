"""The scored groups of a step: the next samples in order, their rollouts, scores, offline trajectories and refills.

With several ranks each has all prompts, rollouts and scores of a step, so that all decide the same by themselves;
pixels are only where a prompt is sampled or computed. What comes out does not depend on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.bonuses import with_bonuses
from easyvideor1.config import RunConfig
from easyvideor1.data.prepare import Preparer
from easyvideor1.errors import DataError, RunError
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.records.tally import Tally, group_tally
from easyvideor1.rollout.ask import Scored, ask
from easyvideor1.rollout.engine import Engine, Request, Sampling
from easyvideor1.rollout.groups import fill, has_signal, is_within, num_sampled, takes_offline, with_offline
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.seeds import mix_seed
from easyvideor1.training.costs import Share
from easyvideor1.training.supply import Supply, Tell, Usable, joined
from easyvideor1.types import Example, Group, Prompt, Rollout, Sample, Score, Scorer, StopReason

EXAMPLES_IN_ERRORS = 3
SHOWN_IDS = 20
SHUFFLED = 3
"""Part of the seed of shuffled frames and of the responses to them."""
Way = Literal["sampled", "greedy", "shuffled"]
"""How a prompt is asked: n responses; one greedy; some to its shuffled frames."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """A scored group with what it was made from."""

    usable: Usable
    group: Group
    greedy_score: Score | None
    """Score of one more response, greedy, that does not train; for algorithms that compare with it."""

    @property
    def example(self) -> Example:
        """See Usable.example. An update asks, maybe while another thread takes the samples of the next step: what is
        not there yet is read apart from the supply's own readings and clock."""
        self.usable.begin()
        return self.usable.example


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
    version: int
    """Version of the weights that sampled them."""
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
        share: Share,
        tell: Tell = lambda what, done, total: None,
        beat: Callable[[str], object] = lambda doing: None,
    ) -> None:
        """
        Args:
            tell: is told how far a step is.
            samples: the training samples, all checked.
            offline: trajectories to put into groups; needed where `offline.enable` is set.
            note_bad: called with every sample that was skipped, on every rank.
            share: the part of a step that this rank makes.
            beat: called after every piece of work, with the name of the next one.
        """
        assert offline is not None or not algorithm.needs_offline, "this algorithm learns from offline trajectories"
        if offline is not None and not algorithm.needs_policy_rollouts:
            # Samples without a trajectory would train nothing.
            samples = [sample for sample in samples if sample.id in offline.by_sample]
        self._config, self._engine, self._score, self._algorithm = config, engine, score, algorithm
        self._offline, self._watch, self._tell, self._beat = offline, watch, tell, beat
        self._ranks = share.ranks
        self._prepare, self._shuffled = prepare, Tally()
        self._n = config.rollout.n if algorithm.needs_policy_rollouts else 1
        self._num_tokens, self._is_stopped = 0, False
        self.supply = Supply(
            config,
            samples=samples,
            prepare=prepare,
            share=share,
            rollouts_per_prompt=self._n,
            watch=watch,
            note_bad=note_bad,
            tell=tell,
            beat=beat,
        )

    def collect(self, step: int, cursor: int, *, version: int) -> Collected:
        """The groups of a step; with dynamic sampling, groups without signal are dropped and refilled.

        Args:
            version: of the policy's weights, which all rollouts must come from.

        Raises:
            DataError: a bad sample, where the run does not skip them.
            RunError: no sample is usable, too many rollouts could not be scored, or one came from other weights.
        """
        config, tally = self._config, Tally()
        self._shuffled = Tally()
        banned_hits, tokens = self._engine.banned_hits, self._num_tokens
        sampled: list[Group] = []
        num_skipped = 0

        def take(count: int) -> list[Candidate]:
            nonlocal cursor, num_skipped
            usable, cursor_after = self.supply.take(count, cursor, goes_on=step < config.train.num_steps)
            num_skipped += cursor_after - cursor - len(usable)
            cursor = cursor_after
            candidates = self._candidates(usable, step=step, version=version)
            sampled.extend(candidate.group for candidate in candidates)
            return candidates

        drops = self._algorithm.drops_groups
        with self._engine.awake():
            filled = fill(
                take,
                wanted=config.train.prompts_per_step,
                max_rounds=self._algorithm.refill_rounds if drops else 0,
                keeps=lambda candidate: self._keeps(candidate.group),
            )
        # Of all groups: those that are kept for their signal say nothing about how often the policy is right.
        tally.merge(group_tally(sampled))
        tally.merge(self._shuffled)
        tally.add("data/skipped", total=num_skipped)
        tally.add("rollout/dropped_groups_frac", total=filled.dropped_frac)
        tally.add("rollout/refills", total=filled.num_rounds)
        hits = self._ranks.sum(self._engine.banned_hits - banned_hits, of="banned tokens")
        tally.add("rollout/banned_hits", total=hits)
        stops = [rollout.stop_reason for group in sampled for rollout in group.rollouts]
        tally.add("rollout/aborted", total=stops.count(StopReason.ABORT))
        return Collected(
            candidates=filled.kept,
            sampled=sampled,
            num_tokens=int(self._ranks.sum(self._num_tokens - tokens, of="sampled tokens")),
            cursor=cursor,
            version=version,
            tally=tally,
        )

    def _keeps(self, group: Group) -> bool:
        """Whether a group trains, by what its rewards are."""
        made = self._algorithm
        if made.drop_equal_groups and not has_signal(group):
            return False
        return made.filter_part is None or is_within(
            group, part=made.filter_part, low=made.filter_low, high=made.filter_high
        )

    def stop(self) -> None:
        """Let `collect`, which runs in another thread, end as soon as the rollouts of its next request are done."""
        self._is_stopped = True

    def _candidates(self, usable: Mapping[int, Usable], *, step: int, version: int) -> list[Candidate]:
        with self._ranks.agree("rollouts"):
            own = {place: item for place, item in usable.items() if item.rank == self._ranks.rank}
            made = self._made(own, step=step, version=version)
        of_all = joined(self._ranks.gather(made, of="rollouts"))
        candidates = [
            Candidate(
                usable=item,
                group=Group(prompt=item.prompt, rollouts=of_all[place].rollouts, scores=of_all[place].scores),
                greedy_score=of_all[place].greedy_score,
            )
            for place, item in usable.items()
        ]
        for place in usable:
            for score in of_all[place].shuffled_scores:
                self._shuffled.add("rollout/shuffled_accuracy_frac", total=score.parts.get("accuracy", 0.0))
        _check_unscored(
            [of_all[place] for place in usable], candidates, limit=self._config.reward.max_unscored_frac, step=step
        )
        return candidates

    def _made(self, usable: Mapping[int, Usable], *, step: int, version: int) -> dict[int, _Made]:
        """The rollouts of some prompts with their scores, by place."""
        wanted: dict[tuple[int, Way], Request] = {}
        trajectories = {place: self._trajectory(item.prompt.sample, step) for place, item in usable.items()}
        for place, item in usable.items():
            # A sample that comes again, in this step or another, stands at another place.
            seed = mix_seed(self._config.seed, place)
            if sampling := self._sampling(has_offline=trajectories[place] is not None):
                wanted[place, "sampled"] = Request(example=item.example, sampling=sampling, seed=seed)
            if self._algorithm.needs_greedy_baseline:
                wanted[place, "greedy"] = Request(example=item.example, sampling=self._greedy_sampling(), seed=seed)
            if sampling and self._algorithm.temporal_bonus and (example := self._with_shuffled_frames(item, seed)):
                half = replace(sampling, n=max(1, self._n // 2))
                wanted[place, "shuffled"] = Request(example=example, sampling=half, seed=mix_seed(seed, SHUFFLED))
        found: dict[tuple[int, Way], Scored] = {}
        keys = list(wanted)
        num_sequences = sum(request.sampling.n for request in wanted.values())
        self._tell_waiting(wanted, usable, step)
        for request, scored in ask(wanted.values(), engine=self._engine, score=self._score, timed=self._watch.part):
            if self._is_stopped:
                raise CancelledError
            place, _ = keys[request]
            _check_version(scored.rollouts, version, sample_id=usable[place].prompt.sample.id)
            found[keys[request]] = scored
            self._tell("sequences done", sum(len(item.rollouts) for item in found.values()), num_sequences)
            self._tell_waiting(wanted.keys() - found.keys(), usable, step)
        self._num_tokens += sum(len(rollout.token_ids) for item in found.values() for rollout in item.rollouts)
        empty = Scored(rollouts=(), scores=())
        sampled = {place: found.get((place, "sampled"), empty) for place in usable}
        shuffled = {place: found.get((place, "shuffled"), empty).scores for place in usable}
        groups = [_group(usable[place].prompt, scored) for place, scored in sampled.items()]
        with self._watch.part("reward"):
            groups = self._with_trajectories(groups, list(trajectories.values()))
        groups = [
            with_bonuses(group, self._algorithm, shuffled=shuffled[place])
            for place, group in zip(usable, groups, strict=True)
        ]
        return {
            place: _Made(
                rollouts=group.rollouts,
                scores=group.scores,
                sampled_scores=sampled[place].scores,
                greedy_score=found[place, "greedy"].scores[0] if (place, "greedy") in found else None,
                shuffled_scores=shuffled[place],
            )
            for place, group in zip(usable, groups, strict=True)
        }

    def _with_shuffled_frames(self, usable: Usable, seed: int) -> Example | None:
        """The example with the frames of its videos in another order, at the times of before; None where it shows no
        two frames. The order follows from the seed."""
        example = usable.example
        if not any(len(clip.times_s) > 1 for clip in example.clips):
            return None
        noise = np.random.default_rng([seed, SHUFFLED])
        clips = []
        for clip in example.clips:
            order = noise.permutation(len(clip.times_s))
            if len(order) > 1 and (order == np.arange(len(order))).all():
                order = np.roll(order, 1)
            clips.append(replace(clip, frames=np.ascontiguousarray(clip.frames[order])))
        # A prompt of its own, and names of their own for its media: engines keep what they have read by these.
        plans = tuple(replace(plan, cache_key=f"{plan.cache_key}-shuffled-{seed}") for plan in example.prompt.plans)
        return self._prepare.example(replace(example.prompt, plans=plans), tuple(clips))

    def _tell_waiting(self, waiting: Iterable[tuple[int, Way]], usable: Mapping[int, Usable], step: int) -> None:
        ids = list(dict.fromkeys(usable[place].prompt.sample.id for place, _ in waiting))
        more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
        self._beat(f"rollout and reward of step {step}, samples {', '.join(ids[:SHOWN_IDS]) or '-'}{more}")

    def _trajectory(self, sample: Sample, step: int) -> Rollout | None:
        if self._offline is None or not self._config.offline.enable:
            return None
        return self._offline.pick(sample.id, turn=step)

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


@dataclass(frozen=True, kw_only=True)
class _Made:
    """The rollouts of a prompt with their scores, made by one rank."""

    rollouts: tuple[Rollout, ...]
    scores: tuple[Score, ...]
    sampled_scores: tuple[Score, ...]
    """Scores of the policy's rollouts, before an offline trajectory took the place of one."""
    greedy_score: Score | None
    shuffled_scores: tuple[Score, ...]
    """Scores of responses to the same question with its frames shuffled."""


def _check_unscored(made: Sequence[_Made], candidates: Sequence[Candidate], *, limit: float, step: int) -> None:
    """Stop where too many rollouts could not be scored: a reward that fails must not look like a bad policy."""
    scores = [
        (candidate.group.prompt.sample.id, score)
        for item, candidate in zip(made, candidates, strict=True)
        for score in item.sampled_scores
    ]
    unscored = [(sample_id, score) for sample_id, score in scores if not score.is_scored]
    if len(unscored) > limit * len(scores):
        examples = "; ".join(f"{sample_id}: {score.reason}" for sample_id, score in unscored[:EXAMPLES_IN_ERRORS])
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


def _group(prompt: Prompt, scored: Scored) -> Group:
    return Group(prompt=prompt, rollouts=scored.rollouts, scores=scored.scores)
