"""`easyvideor1 data check`: everything that would stop or spoil a run, found before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from easyvideor1.config import Settings
from easyvideor1.config_data import SourceConfig
from easyvideor1.data import doubts
from easyvideor1.data.check import CheckedData, Steps, Workers, check_sources
from easyvideor1.data.length_check import LengthCheck, LengthLimit
from easyvideor1.data.media_check import DecodeMedium, VerdictFile
from easyvideor1.data.prompts import require_matching
from easyvideor1.data.report import Problem, Report, report_of
from easyvideor1.extras import need
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.gold_doubts import doubtful_golds, doubtful_trajectories
from easyvideor1.runs.media import media_specs, model_vision
from easyvideor1.runs.steps import length_check, length_limit, memory_of, row_check, shown_progress, try_judge

DEADLINE_S = 300.0
"""Longest time for one file where no cache sets it, in seconds."""
SHOWN_KEYS = 5
FINDERS: tuple[Callable[[CheckedData], Iterable[doubts.Doubt]], ...] = (
    doubts.odd_rows, doubts.contradictions, doubts.frame_rates, doubts.empty_trajectories, doubtful_golds
)  # fmt: skip


def check_files(
    sources: Sequence[SourceConfig],
    settings: Settings,
    *,
    validation: Sequence[SourceConfig] = (),
    verdicts: Path | None = None,
    workers: int,
) -> Report:
    """Check rows, media, gold answers and prompt lengths of data files, and warn of what looks wrong.

    Args:
        validation: files of a recipe's validation questions, which should share nothing with the others.
        verdicts: file of what is known of media; None: beside the first data file.

    Raises:
        DataError: a data file cannot be opened.
        UsageError: contradicting settings, or a missing package.
    """
    with RewardPool.from_config(settings.reward, thinking=False, max_response_tokens=0) as rewards:
        first = [*sources, *validation][0]
        known = VerdictFile(verdicts or Path(f"{first.path}.verdicts.jsonl"))
        both = [
            examine(part, settings, rewards, known=known, workers=workers) for part in (sources, validation) if part
        ]
        report = Report()
        for part in both:
            report.merge(report_of(part))
            for find in FINDERS:
                report.add_doubts(find(part))
            report.add_doubts(doubtful_trajectories(part, rewards))
    if len(both) == 2:
        report.add_doubts(doubts.shared(*both))
    if settings.train is not None and sources:
        _check_batch(report, both[0], settings.train.prompts_per_step)
    return report


def examine(
    sources: Sequence[SourceConfig], settings: Settings, rewards: RewardPool, *, known: VerdictFile, workers: int
) -> CheckedData:
    """Check data files as `data check` and `data clean` do: every medium is decoded once in its life."""
    data, specs, vision = settings.data, media_specs(settings.data), model_vision(settings.model)
    with shown_progress() as progress:
        found = check_sources(
            sources,
            Steps(
                rows=row_check(data, settings.reward),
                look=DecodeMedium(specs=specs, vision=vision, known=known.known, cache=settings.cache),
                lengths=_lengths(settings),
                note=known.note,
            ),
            workers=Workers(processes=workers, deadline_s=settings.cache.deadline_s if settings.cache else DEADLINE_S),
            memory=memory_of(data, settings.reward, settings.model, settings.cache, limit=_limit(settings)),
            progress=progress,
        )
    kinds = {kind for file in found.files for kind in file.columns.problem_types if kind}
    require_matching(data.templates, kinds)
    try_judge(rewards, settings.reward, kinds)
    return found


def summary(report: Report, settings: Settings) -> dict[str, Any]:
    """The report in plain values."""
    lengths = np.array(report.num_tokens or [0])
    return {
        "rows": report.num_rows,
        "errors": report.num_errors,
        "warnings": len(report.problems) - report.num_errors,
        "by_problem_type": dict(report.by_problem_type),
        "by_modality": dict(report.by_modality),
        "media": {"distinct": report.media.total(), **report.media, "decoded_now": report.num_decoded},
        "tokens": {
            "of": "prompt" if settings.model else "vision",
            "median": int(np.median(lengths)),
            "p95": int(np.quantile(lengths, 0.95)),
            "max": int(lengths.max()),
        },
        "unknown_keys": {"distinct": len(report.unknown_keys), **dict(report.unknown_keys.most_common(SHOWN_KEYS))},
        "repeated_ids": {"distinct": len(report.repeated_ids), "rows": sum(report.repeated_ids.values())},
    }


def _check_batch(report: Report, training: CheckedData, prompts_per_step: int) -> None:
    num_usable = len(training.places())
    if num_usable < prompts_per_step:
        text = (
            f"train.prompts_per_step is {prompts_per_step}, but only {num_usable} rows can be used: every step would "
            "see some of them more than once; lower it, or add rows"
        )
        where = ", ".join(file.source.path for file in training.files)
        report.problems.append(Problem(level="warning", about="row", where=where, sample_id="", text=text))


def _limit(settings: Settings) -> LengthLimit:
    return length_limit(settings.data, settings.rollout, settings.train)


def _lengths(settings: Settings) -> LengthCheck:
    """Length of a prompt: exact or nearly so where a model is named, its vision tokens alone where not."""
    data = settings.data
    if settings.model is None:
        return LengthCheck(limit=_limit(settings))
    need("torch", "transformers", for_what="counting the tokens of a model's prompts")
    from easyvideor1.runs.encoders import encoder_of  # imports the tokenizer's library
    from easyvideor1.video.sampling import plan_media

    # Every medium was planned in another process before, so that none can hang this one.
    encoder = encoder_of(settings.model, system=data.system)
    return length_check(data, encoder, plan_media, limit=_limit(settings), count_all=True)
