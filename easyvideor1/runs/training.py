"""A training run put together from its configuration, started or continued."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.data.check import CheckedData
from easyvideor1.errors import DataError, EasyVideoError, Ended, RunError
from easyvideor1.evals.validation import validate
from easyvideor1.model import lora
from easyvideor1.records.drafts import REMEDIES, cannot_write
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.log import logged_to
from easyvideor1.records.watchdog import Watchdog
from easyvideor1.report.page import write_report
from easyvideor1.report.terminal import open_progress
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.ending import Ending, gentle_end
from easyvideor1.runs.parts import Parts, need_extras, opened
from easyvideor1.runs.resume import check_same_run
from easyvideor1.runs.same_data import DataPrints
from easyvideor1.runs.samples import load_samples
from easyvideor1.runs.starting_model import load_model
from easyvideor1.runs.trajectories import load_trajectories
from easyvideor1.seeds import mix_seed
from easyvideor1.training import checkpoint, shared_prefix, shelf
from easyvideor1.training.checkpoint import RunState
from easyvideor1.training.health import require_finite
from easyvideor1.training.policy import Policy
from easyvideor1.training.reference import reference_of
from easyvideor1.training.trainer import Trainer
from easyvideor1.types import Sample, ScoredResponse

VALIDATION_SEED = 2
EXAMPLES_IN_ERRORS = 3
DISK_FAILS = {errno.EFBIG, errno.EIO}
"""Failures to write without a remedy of their own."""


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """Where a run ended."""

    out: Path
    """Its folder: metrics.jsonl, validation.jsonl, rollouts/, checkpoints/, report.html."""
    step: int
    """Finished steps."""
    best_accuracy_frac: float | None
    """Best greedy validation accuracy; None without validation."""


def train(config: RunConfig) -> TrainedRun:
    """Start the run of a configuration, or continue it from its newest checkpoint.

    The report is written at the end, also where an error ends the run early.

    Raises:
        UsageError: `out` is no run and not empty, is in use, or holds a run with other values; or a missing package.
        DataError: a bad sample, where the configuration does not skip them.
        RunError: the run cannot go on.
        Ended: SIGTERM or SIGHUP asked the run to end; it is saved.
    """
    need_extras(config)
    algorithm = fitting_algorithm(config)
    folder = RunFolder(config.out)
    with gentle_end() as ending, folder.claimed(), logged_to(folder.log), _written(folder):
        if shelf.list_checkpoints(folder.checkpoints):
            check_same_run(config, before=folder.config)
        with opened(config) as parts:
            state = _train(config, folder, algorithm=algorithm, parts=parts, ending=ending)
    best = state.best_accuracy_frac
    return TrainedRun(out=folder.path, step=state.step, best_accuracy_frac=best if best >= 0 else None)


def _train(config: RunConfig, folder: RunFolder, *, algorithm: Algorithm, parts: Parts, ending: Ending) -> RunState:
    on_bad = folder.note_bad if config.data.on_bad_sample == "skip" else None

    def check(sources: Sequence[CheckedData]) -> None:
        prints = DataPrints(sources)
        prints.check_same(sources, folder.data, is_begun=bool(shelf.list_checkpoints(folder.checkpoints)))
        parts.prepare.check_plan = prints.check_medium

    samples, questions = load_samples(config, parts, on_bad=on_bad, check=check)
    found = shelf.newest_whole(folder.checkpoints)
    folder.write_start(config)
    watchdog = Watchdog(config.train.stall_limit_s, file=folder.stalled, note=folder.note_stopped)

    def evaluate(engine: Engine) -> list[ScoredResponse]:
        answers = answer_questions(questions or (), config, parts=parts, engine=engine, folder=folder)
        return list(judged_within(answers, config, num_questions=len(questions or ()), beat=watchdog.beat))

    with _reported(folder):
        policy = _policy(config, algorithm, resume_from=found)
        progress = open_progress(
            title=folder.path.name,
            total_steps=config.train.steps,
            start_step=checkpoint.load_state(found).step if found else 0,
        )
        tokens_per_batch = config.rollout.tokens_per_batch
        with progress, watchdog:
            trainer = Trainer(
                config,
                samples=samples,
                prepare=parts.prepare,
                engine=HFEngine(policy.model, parts.encoder, tokens_per_batch=tokens_per_batch, tower=policy.tower),
                policy=policy,
                algorithm=algorithm,
                score=parts.rewards.score,
                evaluate=evaluate if questions else None,
                progress=progress,
                offline=load_trajectories(config, samples, parts.encoder),
                resume_from=found,
                is_asked_to_end=ending.is_asked,
                beat=watchdog.beat,
                before_scoring=parts.rewards.renew_budget,
            )
            ending.is_stepping = True
            state = trainer.run()
        ending.settle(state.step)
    return state


def _policy(config: RunConfig, algorithm: Algorithm, *, resume_from: Path | None) -> Policy:
    """The policy with the weights of a checkpoint, or those that the run begins with."""
    weights = checkpoint.weights_folder(resume_from) if resume_from else None
    model = _ready(load_model(config.model, weights=weights))
    if resume_from and lora.has_adapters(model):
        lora.load_adapters(model, resume_from)
    require_finite(model, where=str(resume_from or config.model.path))
    reference = None
    if algorithm.needs_reference:
        reference = reference_of(model, base=lambda: _ready(load_model(config.model)))
    return Policy(
        model,
        algorithm=algorithm,
        optimizer=config.optimizer,
        total_steps=config.train.steps,
        temperature=config.rollout.temperature,
        reference=reference,
    )


def _ready(model: PreTrainedModel) -> PreTrainedModel:
    shared_prefix.enable(model)
    return model


def answer_questions(
    questions: Sequence[Sample], config: RunConfig, *, parts: Parts, engine: Engine, folder: RunFolder | None = None
) -> Iterator[ScoredResponse]:
    """Scored responses to validation questions, as the configuration asks for them.

    Args:
        folder: where questions that cannot be asked are noted down; None: nowhere.
    """
    skips = config.data.on_bad_sample == "skip"
    return validate(
        questions,
        prepare=parts.prepare,
        on_bad=(folder.note_bad if folder else lambda error: None) if skips else None,
        engine=engine,
        score=parts.rewards.score,
        max_response_tokens=config.rollout.max_response_tokens,
        num_samples=config.train.validation_samples,
        seed=mix_seed(config.seed, VALIDATION_SEED),
    )


def judged_within(
    answers: Iterable[ScoredResponse], config: RunConfig, *, num_questions: int, beat: Callable[[str], object]
) -> Iterator[ScoredResponse]:
    """The answers of a validation, as long as few enough of them cannot be judged.

    Args:
        beat: is told of each answer.

    Raises:
        RunError: more than reward.max_unscored_frac of all answers were asked for and could not be judged.
    """
    limit = config.reward.max_unscored_frac
    total = num_questions * (1 + config.train.validation_samples)
    unscored: list[ScoredResponse] = []
    for answer in answers:
        beat(f"validation, after sample {answer.sample.id}")
        if answer.is_asked and not answer.score.is_scored:
            unscored.append(answer)
        if len(unscored) > limit * total:
            told = "; ".join(f"{item.sample.id}: {item.score.reason}" for item in unscored[:EXAMPLES_IN_ERRORS])
            raise RunError(
                f"validation: {len(unscored)} of {total} answers could not be scored, more than "
                f"reward.max_unscored_frac={limit:g} ({told}). Mend what judges them, then run the same command again"
            )
        yield answer


@contextmanager
def _reported(folder: RunFolder) -> Iterator[None]:
    """Write the report when the run ends, with the reason if an error or a signal ends it."""
    try:
        yield
    except (EasyVideoError, Ended) as error:
        folder.note_stopped(str(error))
        with suppress(DataError, OSError):  # no step is finished: the error itself says all; or there is no room for it
            write_report(folder.path)
        raise
    write_report(folder.path)


@contextmanager
def _written(folder: RunFolder) -> Iterator[None]:
    """Turn failures to write, such as a full disk, into a RunError, and note it down in the folder."""
    try:
        yield
    except OSError as error:
        if error.errno not in REMEDIES and error.errno not in DISK_FAILS:
            raise
        told = RunError(
            f"{cannot_write(error.filename or folder.path, error)}. What was saved before is as it was: run the same "
            "command again to go on"
        )
        folder.note_stopped(str(told))
        raise told from error
