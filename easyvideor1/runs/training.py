"""A training run put together from its configuration, started or continued."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.algo.fit import fitting_algorithm
from easyvideor1.config import OWN_FUNCTIONS, RunConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.data.check import CheckedData
from easyvideor1.errors import DataError, EasyVideoError, Ended, RunError, UsageError
from easyvideor1.evals.validation import validate
from easyvideor1.extras import need_extras
from easyvideor1.records.drafts import REMEDIES, cannot_write
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.log import logged_to
from easyvideor1.records.trackers import Trackers, tracked
from easyvideor1.records.watchdog import Watchdog
from easyvideor1.report.page import write_report
from easyvideor1.report.terminal import open_progress
from easyvideor1.rewards.own_code import load_function, wanted_names
from easyvideor1.rollout.engine import Engine, Sampling
from easyvideor1.runs.ending import Ending, gentle_end
from easyvideor1.runs.engines import engine_of_policy
from easyvideor1.runs.looks import look_at_places
from easyvideor1.runs.models import load_models
from easyvideor1.runs.parts import Parts, opened
from easyvideor1.runs.rank_limits import check_number_of_ranks
from easyvideor1.runs.resume import check_can_go_on, check_same_run
from easyvideor1.runs.same_data import DataPrints
from easyvideor1.runs.samples import load_samples
from easyvideor1.runs.starting_model import START, check_same_start
from easyvideor1.runs.trajectories import load_trajectories
from easyvideor1.seeds import mix_seed
from easyvideor1.training import checkpoint, shelf
from easyvideor1.training.checkpoint import RunState
from easyvideor1.training.policy import Policy
from easyvideor1.training.ranks import Ranks, joined
from easyvideor1.training.trainer import Trainer
from easyvideor1.types import Sample, ScoredResponse

VALIDATION_SEED = 2
EXAMPLES_IN_ERRORS = 3
DISK_FAILS = {errno.EFBIG, errno.EIO}
"""Failures to write without a remedy of their own."""
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """The state in which a run ended."""

    out: Path
    """Folder of the run: metrics.jsonl, validation.jsonl, rollouts/, checkpoints/, report.html."""
    step: int
    """Finished steps."""
    best_accuracy_frac: float | None
    """Best greedy validation accuracy; None without validation."""
    is_first: bool
    """Whether this process is the one that wrote the folder; False in the others of several ranks."""


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
    algorithm = with_own_functions(fitting_algorithm(config))
    folder = RunFolder(config.out)
    with gentle_end() as ending, joined(timeout_s=config.parallel.timeout_s) as ranks, ExitStack() as stack:
        with ranks.agree("folder"):
            if ranks.is_first:
                stack.enter_context(folder.claimed())
        stack.enter_context(logged_to(folder.log_of(ranks.rank)))
        stack.enter_context(_written(folder))
        with ranks.agree("configuration"):
            check_number_of_ranks(config, ranks.size)
            if shelf.list_checkpoints(folder.checkpoints):
                check_same_run(config, before=folder.config)
        trackers = Trackers()
        with ranks.agree("places"):
            if ranks.is_first:
                look_at_places(config)
                told = tracked(config.trackers, folder=folder.path, project=config.project, config=to_tree(config))
                trackers = stack.enter_context(told)
        with opened(config) as parts:
            state = _train(
                config, folder, algorithm=algorithm, parts=parts, ranks=ranks, ending=ending, trackers=trackers
            )
    best = state.best_accuracy_frac
    return TrainedRun(
        out=folder.path,
        step=state.step,
        best_accuracy_frac=best if best >= 0 else None,
        is_first=ranks.is_first,
    )


def with_own_functions(algorithm: Algorithm) -> Algorithm:
    """The algorithm with the user's functions that it names; raises UsageError for one that cannot be loaded."""
    functions = {}
    for name in OWN_FUNCTIONS:
        place = getattr(algorithm, name)
        if place is not None:
            functions[place] = load_function(place)
            if len(wanted_names(functions[place])) > 1:
                raise UsageError(f"algorithm.options.{name}: {place} must take one argument")
    return replace(algorithm, functions=functions)


def _train(
    config: RunConfig,
    folder: RunFolder,
    *,
    algorithm: Algorithm,
    parts: Parts,
    ranks: Ranks,
    ending: Ending,
    trackers: Trackers,
) -> RunState:
    samples, questions = _samples(config, folder, parts, ranks)
    given, config = config, config.with_samples(len(samples))
    found: Path | None = None
    with ranks.agree("start"):
        if ranks.is_first:
            check_same_start(config.model.path, folder.path / START)
            found = shelf.newest_whole(folder.checkpoints)
            if found is not None:
                check_can_go_on(config, found, step=checkpoint.load_state(found).step)
            folder.write_start(given)
    found = ranks.gather(found, of="checkpoint to go on from")[0]
    watchdog = Watchdog(config.train.stall_limit_s, file=folder.stalled_of(ranks.rank), note=folder.note_stopped)

    def evaluate(engine: Engine) -> list[ScoredResponse]:
        return answer_questions(
            questions or (), config, parts=parts, engine=engine, folder=folder, ranks=ranks, watched=watched
        )

    def watched(answers: Iterable[ScoredResponse], num_questions: int) -> Iterator[ScoredResponse]:
        return scored_within(answers, config, num_questions=num_questions, beat=watchdog.beat)

    with _reported(folder) if ranks.is_first else nullcontext(), ranks.losses_told():
        models = load_models(config, ranks, algorithm=algorithm, resume_from=found)
        policy = Policy(
            models.policy,
            algorithm=algorithm,
            optimizer=config.optimizer,
            total_steps=config.train.num_steps,
            temperature=config.rollout.temperature,
            reference=models.reference,
            ranks=ranks,
        )
        progress = open_progress(
            title=folder.path.name,
            total_steps=config.train.num_steps,
            start_step=checkpoint.load_state(found).step if found else 0,
            console=None if ranks.is_first else Console(quiet=True),
        )
        with progress, engine_of_policy(config, parts, policy, models) as engine, watchdog:
            trainer = Trainer(
                config,
                samples=samples,
                prepare=parts.prepare,
                engine=engine,
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
                track=trackers.log,
                read=parts.encoder.as_read,
            )
            ending.is_stepping = True
            state = trainer.run()
        ending.settle(state.step)
    return state


def _samples(
    config: RunConfig, folder: RunFolder, parts: Parts, ranks: Ranks
) -> tuple[Sequence[Sample], Sequence[Sample] | None]:
    """The checked samples and questions. The first rank checks first: what it found is remembered for the others."""
    skips = config.data.on_bad_sample == "skip"
    found: tuple[Sequence[Sample], Sequence[Sample] | None] | None = None

    def check(sources: Sequence[CheckedData]) -> None:
        prints = DataPrints(sources)
        if ranks.is_first:
            prints.check_same(sources, folder.data, is_begun=bool(shelf.list_checkpoints(folder.checkpoints)))
        parts.prepare.check_plan = prints.check_medium

    with ranks.agree("data"):
        if ranks.is_first:
            found = load_samples(config, parts, on_bad=folder.note_bad if skips else None, check=check)
    with ranks.agree("data of the other ranks"):
        if found is None:
            found = load_samples(config, parts, on_bad=(lambda error: None) if skips else None, check=check)
    return found


def answer_questions(
    questions: Sequence[Sample],
    config: RunConfig,
    *,
    parts: Parts,
    engine: Engine,
    folder: RunFolder | None = None,
    ranks: Ranks | None = None,
    watched: Callable[[Iterable[ScoredResponse], int], Iterable[ScoredResponse]] = lambda answers, _: answers,
) -> list[ScoredResponse]:
    """Scored responses to validation questions, as the configuration asks for them.

    Args:
        folder: where questions that cannot be asked are noted down; None: nowhere.
        ranks: that the questions are dealt to; each has the answers of all. None: one process.
        watched: is given the answers as they come, and the number of questions, and passes the answers on.
    """
    ranks = ranks or Ranks()
    bad: list[DataError] = []
    # Ranks wake the engine and let it sleep together; between that each is on its own.
    with engine.awake(), ranks.agree("validation"):
        share = ranks.share(questions)
        answers = validate(
            share,
            prepare=parts.prepare_question,
            on_bad=bad.append if config.data.on_bad_sample == "skip" else None,
            engine=engine,
            score=parts.rewards.score,
            sampling=Sampling(
                temperature=config.validation.temperature,
                top_p=config.validation.top_p,
                top_k=config.validation.top_k,
                presence_penalty=config.validation.presence_penalty,
                repetition_penalty=config.validation.repetition_penalty,
                max_response_tokens=config.validation.max_response_tokens or config.rollout.max_response_tokens,
            ),
            num_samples=config.train.validation_samples,
            seed=mix_seed(config.seed, VALIDATION_SEED),
        )
        own = list(watched(answers, len(share)))
    all_bad, parts_of_all = zip(*ranks.gather((bad, own), of="validation"), strict=True)
    for error in chain.from_iterable(all_bad):
        if folder is not None and ranks.is_first:
            folder.note_bad(error)
    return in_turns(parts_of_all, num_each=1 + config.train.validation_samples)


def in_turns(parts: Sequence[Sequence[Item]], *, num_each: int) -> list[Item]:
    """What `Ranks.share` dealt out, with `num_each` results for each of its items, in the order of before.

    >>> in_turns([["a", "a", "c", "c"], ["b", "b"]], num_each=2)
    ['a', 'a', 'b', 'b', 'c', 'c']
    """
    by_item = [[part[i : i + num_each] for i in range(0, len(part), num_each)] for part in parts]
    return [result for turn in zip_longest(*by_item, fillvalue=()) for item in turn for result in item]


def scored_within(
    answers: Iterable[ScoredResponse], config: RunConfig, *, num_questions: int, beat: Callable[[str], object]
) -> Iterator[ScoredResponse]:
    """The answers of a validation, as long as few enough of them cannot be scored.

    Args:
        beat: is told of each answer.

    Raises:
        RunError: more than reward.max_unscored_frac of all answers were asked for and could not be scored.
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
                f"reward.max_unscored_frac={limit:g} ({told}). Repair whatever failed to "
                "score them, then run the same command again"
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
