"""Offline trajectories as rollouts: tokenized once, at load, like what the policy writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easyvideor1.data.rows import read_rows
from easyvideor1.data.samples import read_samples
from easyvideor1.errors import DataError
from easyvideor1.types import Rollout, Sample, StopReason

ResponseIds = Callable[[str], tuple[int, ...]]
"""Text of a response -> its token ids with the end token (`Encoder.response_ids`)."""
ResponseText = Callable[[Sequence[int]], str]
"""Token ids -> text without special tokens (`Encoder.response_text`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """An offline response as it stands in a file."""

    response: str
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each token of the response, the end token included."""
    where: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class OfflineTrajectories:
    """The offline trajectories of a data set, ready to be put into groups."""

    by_sample: Mapping[str, tuple[Rollout, ...]]
    num_too_long: int
    """Trajectories left out because they exceed the response limit: a cut one would teach not to end."""

    def pick(self, sample_id: str, *, turn: int) -> Rollout | None:
        """The trajectory for this turn (any counter that a resumed run has too); several take turns."""
        rollouts = self.by_sample.get(sample_id, ())
        return rollouts[turn % len(rollouts)] if rollouts else None


def sample_trajectories(samples: Iterable[Sample]) -> dict[str, list[Trajectory]]:
    """Sample id -> the trajectories that the sample carries."""
    return {
        sample.id: [Trajectory(response=text, where=sample.where) for text in sample.trajectories]
        for sample in samples
        if sample.trajectories
    }


def read_trajectories(path: str | Path) -> dict[str, list[Trajectory]]:
    """Sample id -> trajectories of a JSONL file with rows {"id", "response"} and optionally "logprobs", or of a data
    file whose rows carry them, such as `data filter --collect` writes.

    Raises:
        DataError: unreadable file or row.
    """
    found: dict[str, list[Trajectory]] = {}
    rows = list(read_rows(path))
    if any("offline_output" in row.fields for row in rows):
        return sample_trajectories(read_samples(path))
    for row in rows:
        response, logprobs = _text(row.fields, "response", row.where), _logprobs(row.fields, row.where)
        trajectory = Trajectory(response=response, logprobs=logprobs, where=row.where)
        found.setdefault(_text(row.fields, "id", row.where), []).append(trajectory)
    return found


def offline_trajectories(
    trajectories: Mapping[str, Sequence[Trajectory]],
    *,
    response_ids: ResponseIds,
    response_text: ResponseText,
    max_response_tokens: int,
) -> OfflineTrajectories:
    """Tokenize trajectories; those longer than the response limit are left out and counted.

    Raises:
        DataError: log-probabilities that do not fit the tokens.
    """
    by_sample: dict[str, tuple[Rollout, ...]] = {}
    num_too_long = 0
    for sample_id, items in trajectories.items():
        rollouts = [_rollout(item, response_ids=response_ids, response_text=response_text) for item in items]
        fitting = tuple(rollout for rollout in rollouts if len(rollout.token_ids) <= max_response_tokens)
        num_too_long += len(rollouts) - len(fitting)
        if fitting:
            by_sample[sample_id] = fitting
    return OfflineTrajectories(by_sample=by_sample, num_too_long=num_too_long)


def _rollout(item: Trajectory, *, response_ids: ResponseIds, response_text: ResponseText) -> Rollout:
    token_ids = response_ids(item.response)
    if item.logprobs is not None and len(item.logprobs) != len(token_ids):
        raise DataError(
            f"{len(item.logprobs)} log-probabilities for {len(token_ids)} tokens",
            where=item.where,
            field="logprobs",
            remedy="store one per token of this model's tokenizer, the end token included, or leave them out",
        )
    return Rollout(
        token_ids=token_ids,
        # As the text of a sampled response is made, so that the rewards see the same thing.
        text=response_text(token_ids),
        logprobs=item.logprobs,
        stop_reason=StopReason.EOS,
        source="offline",
    )


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"must be a text, got {value!r}", where=where, field=name, remedy='rows are {"id", "response"}')
    return value


def _logprobs(row: Mapping[str, Any], where: str) -> tuple[float, ...] | None:
    values = row.get("logprobs")
    if values is None:
        return None
    if not isinstance(values, list) or not all(
        type(value) in (int, float) and -math.inf < value <= 0 for value in values
    ):
        raise DataError(
            "must be a list of finite numbers <= 0", where=where, field="logprobs", remedy="or leave it out"
        )
    return tuple(map(float, values))
