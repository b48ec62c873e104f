"""Rewards beyond the score of a response alone, for right answers: to look at the order of frames, and to think long
enough but not too long.

Source: Video-R1 (arXiv:2503.21776), T-GRPO and its length-based reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from easyvideor1.algo.algorithms import Algorithm
from easyvideor1.types import Group, Score


def with_bonuses(group: Group, algorithm: Algorithm, *, shuffled: Sequence[Score] = ()) -> Group:
    """The group with its scores raised where an answer is right (accuracy >= pass_threshold).

    temporal_bonus is added to every right answer of a group whose share of right answers is not below the share among
    the responses to the same question with shuffled frames. length_bonus is added to right answers of length_low to
    length_high tokens. Both stand in the parts `temporal` and `length` as 1 or 0.

    Args:
        shuffled: scores of the responses to shuffled frames; none: the question has no video of several frames.
    """
    if not (algorithm.temporal_bonus or algorithm.length_bonus):
        return group
    ordered_frac, shuffled_frac = _right_frac(group.scores, algorithm), _right_frac(shuffled, algorithm)
    uses_order = algorithm.temporal_bonus > 0 and bool(shuffled) and ordered_frac >= shuffled_frac
    scores = []
    for rollout, score in zip(group.rollouts, group.scores, strict=True):
        is_right = _is_right(score, algorithm)
        has_length = algorithm.length_low <= len(rollout.token_ids) <= algorithm.length_high
        parts = dict(score.parts)
        value = score.value
        if algorithm.temporal_bonus:
            parts["temporal"] = float(is_right and uses_order)
            value += algorithm.temporal_bonus * parts["temporal"]
        if algorithm.length_bonus:
            parts["length"] = float(is_right and has_length)
            value += algorithm.length_bonus * parts["length"]
        scores.append(replace(score, value=value, parts=parts) if score.is_scored else score)
    return replace(group, scores=tuple(scores))


def _right_frac(scores: Sequence[Score], algorithm: Algorithm) -> float:
    """Share of right answers among the scored ones; NaN for none, which is not below anything."""
    scored = [score for score in scores if score.is_scored]
    return sum(_is_right(score, algorithm) for score in scored) / len(scored) if scored else math.nan


def _is_right(score: Score, algorithm: Algorithm) -> bool:
    return score.is_scored and score.parts["accuracy"] >= algorithm.pass_threshold
