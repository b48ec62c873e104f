"""Responses of any origin, scored by the grader of training."""

from __future__ import annotations

from collections.abc import Sequence

from easyvideor1.config_reward import RewardConfig
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample, Score


def score(
    responses: Sequence[tuple[Sample, str]], *, reward: RewardConfig | None = None, thinking: bool = False
) -> list[Score]:
    """A score for each (sample, response), in order; what cannot be scored says why.

    Args:
        reward: weights, rewards of your own, a judge; None: the built-in rewards.
        thinking: a response must think before it answers, for the part "format".

    Raises:
        DataError: an unknown problem type or an unreadable gold answer.
        UsageError: a reward of your own cannot be loaded, or the judge cannot be reached.

    >>> question = Sample(id="1", problem_type="multiple choice", problem="?", gold="B", options=("red", "blue"))
    >>> [scored.value for scored in score([(question, "<answer>B</answer>"), (question, "<answer>A</answer>")])]
    [1.0, 0.1]
    """
    with RewardPool.from_config(reward or RewardConfig(), thinking=thinking, max_response_tokens=0) as pool:
        pool.check(sample for sample, _ in responses)
        return pool.score(list(responses))
