"""The training loop: Sample -> Example -> rollouts -> scores -> advantages -> packed batch -> update -> metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from easyvideor1.algo.credit import normalizer, with_credit
from easyvideor1.algo.recipes import Recipe
from easyvideor1.config import RunConfig
from easyvideor1.data.dataset import Example, Preparer, mix_seed, order
from easyvideor1.errors import DataError, RunError
from easyvideor1.report.folder import RunFolder
from easyvideor1.report.metrics import MetricsLog, Stopwatch, answer_tally, group_tally
from easyvideor1.report.progress import Progress
from easyvideor1.report.records import RolloutLog, ValidationLog
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.train import checkpoint
from easyvideor1.train.batch import pack
from easyvideor1.train.checkpoint import RunState
from easyvideor1.train.policy import Minibatch, Policy
from easyvideor1.types import Answer, Group, Rollout, Sample, Score

Scorer = Callable[[Sequence[tuple[Sample, str, int]]], list[Score]]
"""(sample, response, its length in tokens) -> scores, in order."""
LOGGED_GROUPS = 2
"""Groups of each step whose best and worst rollouts are kept for people to read."""
EXAMPLES_IN_ERRORS = 3


Evaluate = Callable[[Engine], Sequence[Answer]]
"""Answers the validation questions with the engine."""


class Trainer:
    """One run in its folder. Building it restores the newest checkpoint, if there is one."""

    def __init__(
        self,
        config: RunConfig,
        *,
        samples: Sequence[Sample],
        prepare: Preparer,
        engine: Engine,
        policy: Policy,
        recipe: Recipe,
        score: Scorer,
        evaluate: Evaluate | None,
        progress: Progress,
    ) -> None:
        """
        Args:
            samples: the training samples, all checked.
            evaluate: None: no validation.
        """
        self._config = config
        self._samples = samples
        self._prepare = prepare
        self._engine = engine
        self._policy = policy
        self._recipe = recipe
        self._score = score
        self._evaluate = evaluate
        self._progress = progress
        self._folder = RunFolder(config.out)
        self._metrics = MetricsLog(self._folder.metrics)
        self._validation = ValidationLog(self._folder.validation)
        self._rollouts = RolloutLog(self._folder.rollouts)
        self._watch = Stopwatch()
        self._state = self._restore()

    def run(self) -> RunState:
        """Train from where the run stands to its last step; returns the final state."""
        if self._state.step == 0 and self._state.validated_step < 0:
            self._validate()
            self._save()
        while self._state.step < self._config.train.steps:
            self._step()
        return self._state

    def _restore(self) -> RunState:
        found = checkpoint.list_checkpoints(self._folder.path / "checkpoints")
        if not found:
            state = RunState(step=0, cursor=0, validated_step=-1)
            step = -1
        else:
            # The weights were loaded from this checkpoint when the model was built.
            checkpoint.load_optimizer(found[-1], model=self._policy.model, optimizer=self._policy.optimizer)
            state = checkpoint.load_state(found[-1])
            step = state.step
        for log in (self._metrics, self._validation, self._rollouts):
            log.truncate_after(step)
        self._engine.load_weights(self._policy.model, version=state.step)
        return state

    def _step(self) -> None:
        """One update. Everything that is random in it is a function of (run seed, step)."""
        config, watch, step = self._config, self._watch, self._state.step + 1
        watch.restart()
        examples, cursor = self._take(config.train.prompts_per_step, self._state.cursor)
        num_skipped = cursor - self._state.cursor - len(examples)
        self._progress.phase("rollout")
        banned_hits = self._engine.banned_hits
        with watch.part("rollout"):
            sampling = Sampling(
                n=config.rollout.n,
                temperature=config.rollout.temperature,
                top_p=config.rollout.top_p,
                max_response_tokens=config.rollout.max_response_tokens,
            )
            rollouts = self._engine.generate(examples, sampling, seed=mix_seed(config.seed, step))
        with watch.part("reward"):
            groups = self._scored(examples, rollouts)
            self._check_unscored(groups, step)
            groups = with_credit(groups, self._recipe, part_weights=config.reward.weights)
        self._progress.phase("update")
        with watch.part("update"):
            tally = self._policy.update(self._minibatches(groups, examples), step=step - 1)
        with watch.part("sync"):
            self._engine.load_weights(self._policy.model, version=step)
        tally.merge(group_tally(groups))
        for group, example in zip(groups[:LOGGED_GROUPS], examples, strict=False):
            self._rollouts.log(step, group, example.clips)
        self._state = replace(self._state, step=step, cursor=cursor)
        tally.add("data/skipped", total=num_skipped)
        tally.add("rollout/banned_hits", total=self._engine.banned_hits - banned_hits)
        self._log(step, tally.values(), groups)
        if self._is_due(step, config.train.validate_every):
            self._validate()
        if self._is_due(step, config.train.checkpoint_every):
            self._save()

    def _take(self, count: int, cursor: int) -> tuple[list[Example], int]:
        """The next `count` examples in the run's order, and the place after them; bad samples by the run's policy."""
        examples: list[Example] = []
        bad: list[DataError] = []
        for index in order(len(self._samples), seed=self._config.seed, start=cursor):
            if len(examples) == count:
                break
            cursor += 1
            try:
                examples.append(self._example(self._samples[index]))
            except DataError as error:
                if self._config.data.on_bad_sample == "error":
                    raise
                bad.append(error)
                self._note_bad(error)
                if len(bad) > len(self._samples):
                    raise RunError(f"no usable sample is left; the last error: {error}") from error
        return examples, cursor

    def _example(self, sample: Sample) -> Example:
        with self._watch.part("process"):
            prompt = self._prepare.prompt(sample)
        with self._watch.part("decode", item=sample.id):
            clips = self._prepare.clips(prompt)
        with self._watch.part("process"):
            return self._prepare.example(prompt, clips)

    def _note_bad(self, error: DataError) -> None:
        with (self._folder.path / "bad_samples.jsonl").open("a") as file:
            file.write(json.dumps({"where": error.where, "field": error.field, "problem": error.problem}) + "\n")

    def _scored(self, examples: Sequence[Example], rollouts: Sequence[tuple[Rollout, ...]]) -> list[Group]:
        """Groups with a score for every rollout, all judged in one call."""
        items = [
            (example.sample, rollout.text, len(rollout.token_ids))
            for example, group in zip(examples, rollouts, strict=True)
            for rollout in group
        ]
        scores = iter(self._score(items))
        return [
            Group(prompt=example.prompt, rollouts=group, scores=tuple(_next(scores, len(group))))
            for example, group in zip(examples, rollouts, strict=True)
        ]

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

    def _minibatches(self, groups: Sequence[Group], examples: Sequence[Example]) -> list[Minibatch]:
        """The groups of a step dealt to its optimizer steps, in order."""
        train = self._config.train
        size = -(-len(groups) // train.updates_per_step)
        works = []
        for start in range(0, len(groups), size):
            part = groups[start : start + size]
            works.append(
                Minibatch(
                    batch=pack(part, tokens_per_row=train.tokens_per_row, shared_prefix=train.shared_prefix),
                    features={i: example.features for i, example in enumerate(examples[start : start + size])},
                    normalizer=normalizer(
                        part, self._recipe, max_response_tokens=self._config.rollout.max_response_tokens
                    ),
                )
            )
        return works

    def _log(self, step: int, values: dict[str, float], groups: Sequence[Group]) -> None:
        times = self._watch.values()
        tokens = sum(len(rollout.token_ids) for group in groups for rollout in group.rollouts)
        times["rollout/tokens_per_s"] = tokens / max(times["time/rollout_s"], 1e-9)
        self._metrics.log(step, values | times)
        self._progress.step(step, values | times, note=self._watch.slowest)

    def _is_due(self, step: int, every: int) -> bool:
        return step == self._config.train.steps or (every > 0 and step % every == 0)

    def _validate(self) -> None:
        if self._evaluate is None:
            return
        step = self._state.step
        self._progress.phase("validate")
        answers = self._evaluate(self._engine)
        for answer in answers:
            self._validation.log(step, answer)
        values = answer_tally(answers).values()
        self._metrics.log(step, values)
        self._progress.step(step, values)
        self._state = replace(self._state, validated_step=step)

    def _save(self) -> None:
        self._progress.phase("checkpoint")
        checkpoint.save(
            self._folder.path / "checkpoints",
            model=self._policy.model,
            optimizer=self._policy.optimizer,
            state=self._state,
            keep=self._config.train.keep_checkpoints,
        )


def _next(scores: Iterator[Score], count: int) -> list[Score]:
    return [next(scores) for _ in range(count)]
