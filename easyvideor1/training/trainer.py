"""The training loop: collect scored groups -> advantages -> packed batch -> update -> metrics, with exact resume."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import torch

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.credit import learning_rollouts
from easyvideor1.config import RunConfig
from easyvideor1.data.prepare import Preparer
from easyvideor1.errors import DataError
from easyvideor1.model.vision import Media
from easyvideor1.model.weights import checkpoint_tensors
from easyvideor1.records.choice import greedy_accuracies
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.metrics import MetricsLog, Track
from easyvideor1.records.progress import Progress
from easyvideor1.records.responses import ValidationLog
from easyvideor1.records.rollouts import RolloutLog
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.records.tally import Tally, response_tally, unscored_greedy_frac
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.offline import OfflineTrajectories
from easyvideor1.training import shelf
from easyvideor1.training.checkpoint import (
    RunState,
    Saver,
    best_state,
    has_optimizer,
    load_optimizer,
    load_state,
    num_bytes,
    require_room,
    steps_between,
)
from easyvideor1.training.collect import Candidate, Collected, Collector
from easyvideor1.training.credited import credited
from easyvideor1.training.minibatch import Minibatch, minibatches
from easyvideor1.training.pack import PackForm
from easyvideor1.training.peak import used_values
from easyvideor1.training.pipeline import Made, Pipeline
from easyvideor1.training.policy import Policy
from easyvideor1.training.shared_prefix import pack_form
from easyvideor1.training.stopping import watch_trend
from easyvideor1.types import Group, Prompt, Sample, ScoredResponse, Scorer

log = logging.getLogger(__name__)

Evaluate = Callable[[Engine], Sequence[ScoredResponse]]
"""Answers the validation questions with the engine; of several ranks each has the answers of all."""
LOGGED_GROUPS = 2
"""Groups of each step whose best and worst rollouts are kept for people to read."""


class Trainer:
    """One run in its folder. Building it restores where the run stood.

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
        track: Track = lambda step, values: None,
        read: Callable[[Prompt], str] = lambda prompt: prompt.text,
        resume_from: Path | None = None,
        is_asked_to_end: Callable[[], bool] = lambda: False,
        beat: Callable[[str], object] = lambda doing: None,
        before_scoring: Callable[[], object] = lambda: None,
    ) -> None:
        """
        Args:
            samples: the training samples, all checked.
            policy: with the weights of `resume_from`.
            evaluate: None: no validation.
            offline: trajectories to put into the groups.
            track: is told all metrics.
            read: a prompt as the model reads it, for people.
            resume_from: checkpoint to go on from, checked; None: the run begins.
            is_asked_to_end: asked after every step; True: the run is saved and ended.
            beat: called after every piece of work, with the name of the next one.
            before_scoring: called before the responses of each step and each validation are scored.
        """
        self._config, self._algorithm = config, algorithm
        self._engine, self._policy = engine, policy
        self._evaluate, self._progress = evaluate, progress
        self._ranks = policy.ranks
        self._synced = -1
        """Version of the weights that the engine has."""
        self._folder = RunFolder(config.out)
        states = config.optimizer.states if config.train.checkpoint_optimizer else None
        self._saver = Saver(
            self._folder.checkpoints,
            keep=config.train.keep_checkpoints,
            in_background=config.train.save_in_background,
            states=states,
            ranks=policy.ranks,
        )
        self._checkpoint_bytes = num_bytes(policy.model, policy.masters, states=states)
        self._checkpoint_every = steps_between(config.train.checkpoint_every, self._checkpoint_bytes)
        self._is_asked_to_end, self._beat, self._before_scoring = is_asked_to_end, beat, before_scoring
        self._is_ending = False
        self._records = ExitStack()
        """Closes the files of records."""
        if self._ranks.is_first:
            held = self._records.enter_context
            self._metrics = held(closing(MetricsLog(self._folder.metrics, track=track)))
            self._validation = held(closing(ValidationLog(self._folder.validation)))
            self._rollouts = held(closing(RolloutLog(self._folder.rollouts, read=read)))
        self._watch = Stopwatch()
        overlaps = config.train.overlaps
        sampling_watch = Stopwatch() if overlaps else self._watch
        sampling_ranks = self._ranks.twin() if overlaps else self._ranks
        self._collector = Collector(
            config,
            samples=samples,
            prepare=prepare,
            engine=engine,
            score=score,
            algorithm=algorithm,
            offline=offline,
            watch=sampling_watch,
            note_bad=self._note_bad,
            share=replace(policy.share, ranks=sampling_ranks),
            tell=progress.inside,
            beat=beat,
        )
        self._pipeline = Pipeline(
            self._collector,
            engine=engine,
            overlaps=overlaps,
            last_step=config.train.num_steps,
            watch=sampling_watch,
            before_scoring=before_scoring,
            ranks=sampling_ranks,
        )
        if config.train.shared_prefix and self._pack_form != "shared":
            log.warning(
                "this model has linear-attention layers: the prompt of a group is computed once per rollout, side by "
                "side, and only its video once"
            )
        with self._ranks.agree("records"):
            self._state = self._restore(resume_from)
        self._saved_step = -1 if resume_from is None else self._state.step
        self._sync()

    def run(self) -> RunState:
        """Train from where the run stands to its last step, or until it is asked to end; returns the final state."""
        with self._ranks.agree("room for a checkpoint"):
            if self._ranks.is_first:
                require_room(self._folder.checkpoints, self._checkpoint_bytes)
        with closing(self._pipeline), self._records:
            if self._is_validation_missing():  # at the start, and where the run was left before it
                self._save(is_best=self._validate())
            elif self._saved_step < 0:
                self._save(is_best=False)
            while self._state.step < self._config.train.num_steps and not self._is_ending:
                self._step()
            if self._saved_step < self._state.step:
                self._save(is_best=False)
            self._saver.close()
        return self._state

    def _restore(self, resume_from: Path | None) -> RunState:
        if resume_from is None:
            state, step = RunState(step=0, cursor=0, validated_step=-1), -1
        else:
            state = load_state(resume_from)
            step = state.step
            if has_optimizer(resume_from):
                load_optimizer(resume_from, masters=self._policy.masters, optimizer=self._policy.optimizer)
            elif step > 0:
                log.warning("%s holds no optimizer: its moments begin again at step %d", resume_from, step)
            if self._ranks.is_first and self._is_unmarked_best(state):
                shelf.mark_best(resume_from)  # the run was killed between the checkpoint and its mark
        if self._ranks.is_first:
            for records in (self._metrics, self._validation, self._rollouts):
                records.truncate_after(step)
        return state

    def _is_unmarked_best(self, state: RunState) -> bool:
        best = best_state(self._folder.checkpoints)
        marked = -1.0 if best is None else max(best.best_accuracy_frac, best.best_bound_frac)
        accuracy = greedy_accuracies(self._folder.path).get(state.step, -1.0)
        return state.validated_step == state.step and accuracy >= max(marked, state.best_accuracy_frac)

    def _sync(self) -> None:
        """Give the weights to the engine, which is at rest, where it has older ones."""
        version = self._state.step
        if version != self._synced:
            self._engine.load_weights(checkpoint_tensors(self._policy.model), version=version)
            self._synced = version

    def _note_bad(self, error: DataError) -> None:
        if self._ranks.is_first:
            self._folder.note_bad(error)

    def _step(self) -> None:
        config, watch, step = self._config, self._watch, self._state.step + 1
        watch.restart()
        with self._policy.tower.kept():
            self._progress.phase("rollout")
            made = self._taken(step)
            collected = made.collected
            self._progress.phase("update")
            self._beat(f"update of step {step}")
            tally = collected.tally
            with watch.part("update"):
                carried = self._state.carried
                if self._algorithm.kl_target is not None:
                    self._policy.weigh_kl(carried.coef_of(self._algorithm))
                    tally.add("update/kl_coef", total=carried.coef_of(self._algorithm))
                groups = self._with_credit(collected, tally)
                work = self._minibatches(groups, collected.candidates)
                tally.merge(self._policy.update(work, step=step - 1, passes=config.train.passes))
                tally.add("update/groups", total=len(groups))
        self._state = replace(self._state, step=step, cursor=collected.cursor)
        if not self._pipeline.overlaps:
            with watch.part("sync"):
                self._sync()
        with self._ranks.agree("records"):
            if self._ranks.is_first:
                self._log_rollouts(step, groups, collected)
        values = tally.values()
        self._log(step, values, made, multiplications=self._multiplications(groups))
        trend = watch_trend(self._state.trend, values, collected.sampled, config=config.train.stop, step=step)
        kl = values.get(f"{self._algorithm.kl_in}/kl_ref", math.nan)
        num_rollouts = sum(len(group.rollouts) for group in collected.groups)
        if self._algorithm.advantage == "ema_grpo":
            carried = carried.with_rewards(collected.groups, decay=self._algorithm.ema_decay)
        carried = carried.with_kl(kl, self._algorithm, num_rollouts=num_rollouts)
        self._state = replace(self._state, trend=trend, carried=carried)
        self._saver.settle(wait=False)
        self._is_ending = any(self._ranks.gather(self._is_asked_to_end(), of="signals"))
        if self._is_ending:
            return  # whoever ends a run does not wait for a validation: that comes when the run goes on
        is_best = self._is_validation_missing() and self._validate()
        # A run that seems broken is not saved over the checkpoints of when it was not.
        if is_best or (self._is_due(step, self._checkpoint_every) and not trend.dead_steps):
            self._save(is_best=is_best)

    def _taken(self, step: int) -> Made:
        """The groups of a step; where sampling and training overlap, those of the next are begun."""
        pipeline = self._pipeline
        if not pipeline.overlaps:
            return pipeline.take(step, self._state.cursor, version=self._synced)
        with self._watch.part("wait"):
            made = pipeline.take(step, self._state.cursor, version=self._synced)
        made.collected.tally.add("rollout/staleness", total=self._state.step - made.collected.version)
        with self._watch.part("sync"):
            self._sync()
        with self._watch.part("wait"):
            pipeline.begin(step + 1, made.collected.cursor, version=self._synced)
        return made

    def _with_credit(self, collected: Collected, tally: Tally) -> list[Group]:
        return credited(
            collected,
            self._algorithm,
            policy=self._policy,
            media=lambda index: self._media(collected.candidates[index]),
            carried=self._state.carried,
            part_weights=self._config.reward.weights,
            tokens_per_pack=self._config.train.tokens_per_pack,
            form=self._pack_form,
            tally=tally,
        )

    def _minibatches(self, groups: Sequence[Group], candidates: Sequence[Candidate]) -> list[Minibatch]:
        train = self._config.train
        with self._ranks.agree("media of the update"):
            return minibatches(
                groups,
                lambda index: self._media(candidates[index]),
                self._algorithm,
                num_updates=train.updates_per_step,
                tokens_per_pack=train.tokens_per_pack,
                form=self._pack_form,
                max_response_tokens=self._config.rollout.max_response_tokens,
                share=self._policy.share,
                begin=lambda index: candidates[index].usable.begin(),
            )

    def _media(self, candidate: Candidate) -> Media:
        """What the tower is to look at, or saw; the pixels may be those of a prompt that another rank sampled for."""
        with self._watch.part("decode"):
            example = candidate.example
        return self._policy.tower.media(example)

    @property
    def _pack_form(self) -> PackForm:
        return pack_form(self._policy.model, shared=self._config.train.shared_prefix)

    def _log_rollouts(self, step: int, groups: Sequence[Group], collected: Collected) -> None:
        for group, candidate in zip(groups[:LOGGED_GROUPS], collected.candidates, strict=False):
            self._rollouts.log(step, group, candidate.example.clips)
        if not groups:  # all were dropped: their texts tell why; their frames are gone
            for group in collected.sampled[:LOGGED_GROUPS]:
                self._rollouts.log(step, group, ())

    def _multiplications(self, groups: Sequence[Group]) -> int:
        """Multiplications of one forward over all that the update learnt from, times its passes, on all ranks."""
        chosen = [learning_rollouts(group, self._algorithm) for group in groups]
        one = self._policy.share.multiplications(groups, chosen, form=self._pack_form)
        return one * self._config.train.passes

    def _log(self, step: int, values: Mapping[str, float], made: Made, *, multiplications: int) -> None:
        times = self._watch.values()
        times |= {name: times[name] + seconds for name, seconds in made.times.items()}
        rates = {
            "rollout/tokens_per_s": made.collected.num_tokens / max(times["time/rollout_s"], 1e-9),
            "update/tokens_per_s": values["update/model_tokens"] / max(times["time/update_s"], 1e-9),
        }
        used = used_values(
            multiplications,
            wall_s=times["time/update_s"],
            num_devices=self._ranks.size,
            device=self._policy.model.device,
            dtype=getattr(torch, self._config.model.dtype),
        )
        values = {**values, **times, **rates, **used}
        self._note(step, values)
        if self._ranks.is_first:
            self._progress.step(step, values, note=made.slowest)

    def _note(self, step: int, values: Mapping[str, float]) -> None:
        if self._ranks.is_first:
            self._metrics.log(step, values)

    def _is_due(self, step: int, every: int) -> bool:
        return step == self._config.train.num_steps or (every > 0 and step % every == 0)

    def _is_validation_missing(self) -> bool:
        step = self._state.step
        is_start = step == 0 and self._config.validation.before_training
        is_due = is_start or (step > 0 and self._is_due(step, self._config.train.validate_every))
        return self._evaluate is not None and is_due and self._state.validated_step < step

    def _validate(self) -> bool:
        """Answer the validation questions; True where the greedy accuracy is the best of the run so far."""
        assert self._evaluate is not None
        step = self._state.step
        self._progress.phase("validate")
        self._beat(f"validation of step {step}")
        self._pipeline.settle()
        self._sync()
        self._before_scoring()
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
        # Of equals the later one has learnt more.
        is_best = accuracy >= max(self._state.best_accuracy_frac, self._state.best_bound_frac)
        self._state = replace(self._state, validated_step=step)
        if is_best:
            bound = accuracy + unscored_greedy_frac(answers)
            self._state = replace(self._state, best_accuracy_frac=accuracy, best_bound_frac=bound)
        return is_best

    def _save(self, *, is_best: bool) -> None:
        self._progress.phase("checkpoint")
        self._beat(f"checkpoint of step {self._state.step}")
        self._watch.restart()
        with self._watch.part("checkpoint"):
            self._saver.save(
                model=self._policy.model,
                masters=self._policy.masters,
                optimizer=self._policy.optimizer,
                state=self._state,
                is_best=is_best,
            )
        self._saved_step = self._state.step
        self._note(self._state.step, self._watch.only("checkpoint"))
