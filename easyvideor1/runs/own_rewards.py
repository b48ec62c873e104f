"""Rewards of the user, tried on rows of the data before a run starts: a mistake in them costs seconds, not a step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from easyvideor1.config_reward import RewardConfig
from easyvideor1.data.check import CheckedData
from easyvideor1.data.samples import Samples
from easyvideor1.errors import UsageError
from easyvideor1.problem_types import canonical
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.registry import ANY_TYPE

TRIED_ROWS = 3
TRIED_TOKENS = 16
"""Length that the tried responses are said to have."""


def try_own_rewards(rewards: RewardPool, config: RewardConfig, data: Sequence[CheckedData]) -> None:
    """Score the gold answers of three rows with each function of reward.rewards.

    Raises:
        UsageError: no row has a problem type that a reward is named for; or a function cannot score a gold answer.
    """
    rows = [_rows_by_type(part) for part in data]
    present = {kind for of_types in rows for kind in of_types}
    own = {canonical(name): place for name, place in config.rewards.items()}
    for name, place in own.items():
        kinds = present - own.keys() if name == ANY_TYPE else {name} & present
        if not kinds:
            raise UsageError(
                f"reward.rewards: no row is of the type '{name}' that {place} is for; the rows are of "
                f"{', '.join(sorted(present)) or 'no type'}. Correct the name, or remove the entry"
            )
        tried = [
            (part.samples(), index)
            for part, of_types in zip(data, rows, strict=True)
            for kind in sorted(kinds & of_types.keys())
            for index in of_types[kind]
        ]
        for samples, index in islice(tried, TRIED_ROWS):
            _try(rewards, samples, index, place)


def _try(rewards: RewardPool, samples: Samples, index: int, place: str) -> None:
    sample = samples[index]
    score = rewards.score([(sample, f"<answer>{sample.gold}</answer>", TRIED_TOKENS)])[0]
    if not score.is_scored:
        raise UsageError(
            f"reward.rewards: {place} cannot score the gold answer of {sample.where or sample.id}: {score.reason}. "
            "Correct the function; `easyvideor1 reward test DATA --recipe RECIPE` tries it on all rows"
        )


def _rows_by_type(data: CheckedData) -> dict[str, list[int]]:
    """Problem type -> indices of the first few samples of it."""
    found: dict[str, list[int]] = {}
    for index, (number, place) in enumerate(data.places()):
        of_type = found.setdefault(data.files[number].columns.problem_types[place], [])
        if len(of_type) < TRIED_ROWS:
            of_type.append(index)
    return found
