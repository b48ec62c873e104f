"""Everything that would stop or spoil a run, found before it: what `easyvideor1 data check` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from easyvideor1.config import Settings, SourceConfig
from easyvideor1.data.check import CheckMedium, Report, VerdictFile, check_data
from easyvideor1.data.prompts import instruction
from easyvideor1.extras import need
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.runs.media import media_specs, model_vision
from easyvideor1.types import MediaPlan, Sample


def check_files(
    sources: Sequence[SourceConfig], settings: Settings, *, verdicts: Path | None = None, workers: int
) -> Report:
    """Check rows, media, gold answers and prompt lengths of data files.

    Args:
        verdicts: file of what is known of media; None: beside the first data file.

    Raises:
        DataError: a data file cannot be opened.
        UsageError: contradicting settings, or a missing package.
    """
    known = VerdictFile(verdicts or Path(f"{sources[0].path}.verdicts.jsonl"))
    work = CheckMedium(
        specs=media_specs(settings.data),
        vision=model_vision(settings.model),
        known=dict(known.known),
        cache=settings.cache,
    )
    with RewardPool.from_config(settings.reward, thinking=False, max_response_tokens=0) as rewards:
        return check_data(
            [(source.path, source.media_root) for source in sources],
            work=work,
            verdicts=known,
            check_gold=lambda sample: rewards.check([sample]),
            prompt_tokens=_prompt_tokens(settings),
            max_prompt_tokens=settings.data.max_prompt_tokens,
            workers=workers,
            deadline_s=settings.cache.deadline_s if settings.cache else DEADLINE_S,
        )


DEADLINE_S = 300.0
"""Time one file may take where no cache says so."""


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
    }


def _prompt_tokens(settings: Settings) -> Callable[[Sample, Sequence[MediaPlan]], int]:
    """Length of a prompt: exact where a model is named, its vision tokens alone where not."""
    if settings.model is None:
        return lambda _, plans: sum(plan.num_tokens for plan in plans)
    need("torch", "transformers", for_what="counting the tokens of a model's prompts")
    from easyvideor1.data.encode import Encoder  # imports the tokenizer's library

    encoder, data = Encoder.from_pretrained(settings.model.path), settings.data
    return lambda sample, plans: len(
        encoder.encode(sample, plans, instruction(sample, thinking=data.thinking, templates=data.templates))
    )
