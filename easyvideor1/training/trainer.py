"""The training loop: collect scored groups -> advantages -> packed batch -> update -> metrics, with exact resume."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.credit import with_credit
from easyvideor1.config import RunConfig
from easyvideor1.data.prepare import Preparer
from easyvideor1.errors import DataError
from easyvideor1.model.weights import checkpoint_tensors, full_tensors
from easyvideor1.records.choice import greedy_accuracies
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.metrics import MetricsLog
from easyvideor1.records.progress import Progress
from easyvideor1.records.responses import ValidationLog
from easyvideor1.records.rollouts import RolloutLog
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.records.tally import Tally, response_tally
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.training import checkpoint
from easyvideor1.training.checkpoint import RunState
from easyvideor1.training.collect import Candidate, Collected, Collector
from easyvideor1.training.minibatch import Minibatch, minibatches
from easyvideor1.training.pack import PackForm
from easyvideor1.training.policy import Policy
from easyvideor1.training.shared_prefix import pack_form
from easyvideor1.training.stopping import watch_trend
from easyvideor1.types import Group, Sample, ScoredResponse, Scorer

log = logging.getLogger(__name__)

Evaluate = Callable[[Engine], Sequence[ScoredResponse]]
"""Answers the validation questions with the engine; of several ranks each has the answers of all."""
LOGGED_GROUPS = 2
"""Groups of each step whose best and worst rollouts are kept for people to read."""


class Trainer:
    """One run in its folder. Building it restores the newest checkpoint, if there is one.

    Of several ranks all do the same with their part of the work, and the first writes what there is to read.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        samples: Sequence[Sample],
        prepare: Preparer,
        engine: Engine,
        policy: Policy,
        algorithm: Algorithm,
        score: Scorer,
        evaluate: Evaluate | None,
        progress: Progress,
        offline: OfflineTrajectories | None = None,
    ) -> None:
        """
        Args:
            samples: the training samples, all checked.
            evaluate: None: no validation.
            offline: trajectories to mix into the groups.
        """
        self._config, self._algorithm = config, algorithm
        self._engine, self._policy = engine, policy
        self._evaluate, self._progress = evaluate, progress
        self._ranks = policy.ranks
        self._folder = RunFolder(config.out)
        self._checkpoints = self._folder.path / "checkpoints"
        if self._ranks.is_first:
            self._metrics = MetricsLog(self._folder.metrics)
            self._validation = ValidationLog(self._folder.validation)
            self._rollouts = RolloutLog(self._folder.rollouts)
        self._watch = Stopwatch()
        self._collector = Collector(
            config,
            samples=samples,
            prepare=prepare,
            engine=engine,
            score=score,
            algorithm=algorithm,
            offline=offline,
            watch=self._watch,
            note_bad=self._note_bad,
            share=policy.share,
        )
        if config.train.shared_prefix and self._pack_form != "shared":
            log.warning(
                "this model has linear-attention layers: the prompt of a group is computed once per rollout, side by "
                "side, and only its video once"
            )
        with self._ranks.agree("records"):
            self._state = self._restore()
        self._sync(self._state.step)

    def run(self) -> RunState:
        """Train from where the run stands to its last step; returns the final state."""
        if self._state.step == 0 and self._state.validated_step < 0:
            self._save(is_best=self._validate())
        while self._state.step < self._config.train.steps:
            self._step()
        return self._state

    def _restore(self) -> RunState:
        found = checkpoint.list_checkpoints(self._checkpoints)
        if not found:
            state, step = RunState(step=0, cursor=0, validated_step=-1), -1
        else:
            # The weights were loaded from this checkpoint when the model was built.
            checkpoint.load_optimizer(found[-1], masters=self._policy.masters, optimizer=self._policy.optimizer)
            state = checkpoint.load_state(found[-1])
            step = state.step
            if self._ranks.is_first and self._is_unmarked_best(state):
                checkpoint.mark_best(found[-1])  # the run was killed between the checkpoint and its mark
        if self._ranks.is_first:
            for log in (self._metrics, self._validation, self._rollouts):
                log.truncate_after(step)
        return state

    def _is_unmarked_best(self, state: RunState) -> bool:
        accuracy = greedy_accuracies(self._folder.path).get(state.step, -1.0)
        return state.validated_step == state.step and accuracy >= checkpoint.best_accuracy(self._checkpoints)

    def _sync(self, version: int) -> None:
        """Give the weights to the engine."""
        self._engine.load_weights(full_tensors(checkpoint_tensors(self._policy.model)), version=version)

    def _note_bad(self, error: DataError) -> None:
        if self._ranks.is_first:
            self._folder.note_bad(error)

    def _step(self) -> None:
        config, watch, step = self._config, self._watch, self._state.step + 1
        watch.restart()
        with self._policy.tower.kept():
            self._progress.phase("rollout")
            collected = self._collector.collect(step, self._state.cursor, version=step - 1)
            self._progress.phase("update")
            tally = collected.tally
            with watch.part("update"):
                groups = self._with_credit(collected, tally)
                tally.merge(self._policy.update(self._minibatches(groups, collected.candidates), step=step - 1))
                tally.add("update/groups", total=len(groups))
        with watch.part("sync"):
            self._sync(step)
        with self._ranks.agree("records"):
            if self._ranks.is_first:
                self._log_rollouts(step, groups, collected)
        values = tally.values()
        self._log(step, values, num_tokens=collected.num_tokens)
        trend = watch_trend(self._state.trend, values, collected.sampled, config=config.train.stop, step=step)
        self._state = replace(self._state, step=step, cursor=collected.cursor, trend=trend)
        is_best = self._is_due(step, config.train.validate_every) and self._validate()
        if is_best or self._is_due(step, config.train.checkpoint_every):
            self._save(is_best=is_best)

    def _with_credit(self, collected: Collected, tally: Tally) -> list[Group]:
        kl = None
        if self._algorithm.needs_reference and self._algorithm.kl_in == "reward":
            kl = self._policy.kl_per_rollout(
                collected.groups,
                lambda index: self._policy.tower.media(collected.candidates[index].example),
                tokens_per_pack=self._config.train.tokens_per_pack,
                form=self._pack_form,
            )
            tokens = sum(len(rollout.token_ids) for group in collected.groups for rollout in group.rollouts)
            tally.add("reward/kl_ref", total=sum(map(sum, kl)), count=tokens)
        return with_credit(
            collected.groups,
            self._algorithm,
            part_weights=self._config.reward.weights,
            greedy_scores=collected.greedy_scores,
            kl=kl,
        )

    def _minibatches(self, groups: Sequence[Group], candidates: Sequence[Candidate]) -> list[Minibatch]:
        train, tower = self._config.train, self._policy.tower
        with self._ranks.agree("media of the update"):
            return minibatches(
                groups,
                lambda index: tower.media(candidates[index].example),
                self._algorithm,
                num_updates=train.updates_per_step,
                tokens_per_pack=train.tokens_per_pack,
                form=self._pack_form,
                max_response_tokens=self._config.rollout.max_response_tokens,
                share=self._policy.share,
            )

    @property
    def _pack_form(self) -> PackForm:
        return pack_form(self._policy.model, shared=self._config.train.shared_prefix)

    def _log_rollouts(self, step: int, groups: Sequence[Group], collected: Collected) -> None:
        for group, candidate in zip(groups[:LOGGED_GROUPS], collected.candidates, strict=False):
            self._rollouts.log(step, group, candidate.example.clips)
        if not groups:  # all were dropped: their texts tell why; their frames are gone
            for group in collected.sampled[:LOGGED_GROUPS]:
                self._rollouts.log(step, group, ())

    def _log(self, step: int, values: Mapping[str, float], *, num_tokens: int) -> None:
        times = self._watch.values()
        rates = {
            "rollout/tokens_per_s": num_tokens / max(times["time/rollout_s"], 1e-9),
            "update/tokens_per_s": values["update/model_tokens"] / max(times["time/update_s"], 1e-9),
        }
        values = {**values, **times, **rates}
        self._note(step, values)
        if self._ranks.is_first:
            self._progress.step(step, values, note=self._watch.slowest)

    def _note(self, step: int, values: Mapping[str, float]) -> None:
        if self._ranks.is_first:
            self._metrics.log(step, values)

    def _is_due(self, step: int, every: int) -> bool:
        return step == self._config.train.steps or (every > 0 and step % every == 0)

    def _validate(self) -> bool:
        """Answer the validation questions; True where the greedy accuracy is the best of the run so far."""
        if self._evaluate is None:
            return False
        step = self._state.step
        self._progress.phase("validate")
        self._watch.restart()
        with self._watch.part("validate"):
            answers = self._evaluate(self._engine)
        values = response_tally(answers).values() | self._watch.only("validate")
        if self._ranks.is_first:
            for answer in answers:
                self._validation.log(step, answer)
            self._metrics.log(step, values)
            self._progress.step(step, values)
        accuracy = values.get("validation/greedy_accuracy_frac", 0.0)
        is_best = accuracy >= self._state.best_accuracy_frac  # of equals the later one has learnt more
        self._state = replace(
            self._state, validated_step=step, best_accuracy_frac=max(accuracy, self._state.best_accuracy_frac)
        )
        return is_best

    def _save(self, *, is_best: bool) -> None:
        self._progress.phase("checkpoint")
        self._watch.restart()
        with self._watch.part("checkpoint"):
            saved = checkpoint.save(
                self._checkpoints,
                model=self._policy.model,
                masters=self._policy.masters,
                optimizer=self._policy.optimizer,
                state=self._state,
                keep=self._config.train.keep_checkpoints,
                ranks=self._ranks,
            )
            if is_best and self._ranks.is_first:
                checkpoint.mark_best(saved)
        self._note(self._state.step, self._watch.only("checkpoint"))
