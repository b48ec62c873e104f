"""Validation questions answered by a model, without training it."""

from __future__ import annotations

from easyvideor1.config import RunConfig
from easyvideor1.errors import UsageError
from easyvideor1.extras import need_extras
from easyvideor1.runs.engines import engine_alone
from easyvideor1.runs.parts import opened
from easyvideor1.runs.samples import load_questions
from easyvideor1.runs.training import answer_questions
from easyvideor1.types import ScoredResponse


def evaluate(config: RunConfig) -> list[ScoredResponse]:
    """Scored responses of the configured model to the validation questions: greedy, and `train.validation_samples`
    sampled ones per question.

    What cannot be asked or scored is in the list too, unscored, so that every question is in a denominator.

    Raises:
        UsageError: the configuration has no validation data.
        DataError: a bad sample, where the configuration does not skip them.
    """
    if not config.data.validation:
        raise UsageError("data.validation names no file, so there is nothing to evaluate; add one")
    need_extras(config)
    on_bad = None if config.data.on_bad_sample == "error" else lambda error: None
    with opened(config) as parts:
        questions = load_questions(config, parts, on_bad=on_bad)
        with engine_alone(config, parts) as engine:
            return answer_questions(questions, config, parts=parts, engine=engine)
