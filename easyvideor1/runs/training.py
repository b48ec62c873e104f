"""A training run put together from its configuration, started or continued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import RunConfig
from easyvideor1.errors import DataError, EasyVideoError
from easyvideor1.evals.validation import validate
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.log import logged_to
from easyvideor1.report.page import write_report
from easyvideor1.report.terminal import open_progress
from easyvideor1.rollout.engine import Engine
from easyvideor1.rollout.hf import HFEngine
from easyvideor1.runs.parts import Parts, need_extras, opened
from easyvideor1.runs.resume import check_same_run
from easyvideor1.runs.samples import load_samples
from easyvideor1.runs.starting_model import load_model
from easyvideor1.runs.trajectories import load_trajectories
from easyvideor1.seeds import mix_seed
from easyvideor1.training import checkpoint, shared_prefix
from easyvideor1.training.checkpoint import RunState
from easyvideor1.training.policy import Policy
from easyvideor1.training.reference import reference_of
from easyvideor1.training.trainer import Trainer
from easyvideor1.types import Sample, ScoredResponse

VALIDATION_SEED = 2


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """The state in which a run ended."""

    out: Path
    """Folder of the run: metrics.jsonl, validation.jsonl, rollouts/, checkpoints/, report.html."""
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
    """
    need_extras(config)
    algorithm = fitting_algorithm(config)
    folder = RunFolder(config.out)
    with folder.claimed(), logged_to(folder.log):
        if checkpoint.list_checkpoints(folder.checkpoints):
            check_same_run(config, before=folder.config)
        with opened(config) as parts:
            state = _train(config, folder, algorithm=algorithm, parts=parts)
    best = state.best_accuracy_frac
    return TrainedRun(out=folder.path, step=state.step, best_accuracy_frac=best if best >= 0 else None)


def _train(config: RunConfig, folder: RunFolder, *, algorithm: Algorithm, parts: Parts) -> RunState:
    on_bad = folder.note_bad if config.data.on_bad_sample == "skip" else None
    samples, questions = load_samples(config, parts, on_bad=on_bad)
    folder.write_start(config)
    model = load_model(config.model)
    shared_prefix.enable(model)
    reference = reference_of(model) if algorithm.needs_reference else None
    found = checkpoint.list_checkpoints(folder.checkpoints)
    if found:
        checkpoint.load_weights(found[-1], model=model)
    policy = Policy(
        model,
        algorithm=algorithm,
        optimizer=config.optimizer,
        total_steps=config.train.steps,
        temperature=config.rollout.temperature,
        reference=reference,
    )
    progress = open_progress(
        title=folder.path.name,
        total_steps=config.train.steps,
        start_step=checkpoint.load_state(found[-1]).step if found else 0,
    )

    def evaluate(engine: Engine) -> list[ScoredResponse]:
        return answer_questions(questions or (), config, parts=parts, engine=engine, folder=folder)

    with _reported(folder), progress:
        trainer = Trainer(
            config,
            samples=samples,
            prepare=parts.prepare,
            engine=HFEngine(model, parts.encoder, tokens_per_batch=config.rollout.tokens_per_batch, tower=policy.tower),
            policy=policy,
            algorithm=algorithm,
            score=parts.rewards.score,
            evaluate=evaluate if questions else None,
            progress=progress,
            offline=load_trajectories(config, samples, parts.encoder),
        )
        return trainer.run()


def answer_questions(
    questions: Sequence[Sample], config: RunConfig, *, parts: Parts, engine: Engine, folder: RunFolder | None = None
) -> list[ScoredResponse]:
    """Scored responses to validation questions, as the configuration asks for them.

    Args:
        folder: where questions that cannot be asked are noted down; None: nowhere.
    """
    skips = config.data.on_bad_sample == "skip"
    return list(
        validate(
            questions,
            prepare=parts.prepare,
            on_bad=(folder.note_bad if folder else lambda error: None) if skips else None,
            engine=engine,
            score=parts.rewards.score,
            max_response_tokens=config.rollout.max_response_tokens,
            num_samples=config.train.validation_samples,
            seed=mix_seed(config.seed, VALIDATION_SEED),
        )
    )


@contextmanager
def _reported(folder: RunFolder) -> Iterator[None]:
    """Write the report when the run ends, with the reason if an error ends it."""
    try:
        yield
    except EasyVideoError as error:
        folder.note_stopped(str(error))
        with suppress(DataError):  # no step is finished: the error itself says all there is to say
            write_report(folder.path)
        raise
    write_report(folder.path)
