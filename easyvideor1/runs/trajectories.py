"""The offline trajectories that a run puts into its groups."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from easyvideor1.config import RunConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.errors import DataError
from easyvideor1.rollout.offline import (
    OfflineTrajectories,
    Trajectory,
    offline_trajectories,
    read_trajectories,
    sample_trajectories,
)
from easyvideor1.types import Sample

log = logging.getLogger(__name__)


def load_trajectories(config: RunConfig, samples: Sequence[Sample], encoder: Encoder) -> OfflineTrajectories | None:
    """The trajectories for the training samples; None where the run uses none.

    Raises:
        DataError: they are asked for, but none fits a sample.
    """
    if not config.offline.enable:
        return None
    source = config.offline.source
    trajectories = read_trajectories(source) if source else sample_trajectories(samples)
    found = offline_trajectories(
        trajectories,
        response_ids=encoder.response_ids,
        response_text=encoder.response_text,
        max_response_tokens=config.rollout.max_response_tokens,
    )
    if found.num_too_long:
        log.warning(
            "%d offline trajectories are longer than rollout.max_response_tokens and left out", found.num_too_long
        )
    if not any(sample.id in found.by_sample for sample in samples):
        raise DataError(
            _why_unusable(trajectories, found),
            where=source or ", ".join(source.path for source in config.data.train),
            field="offline_output",
            remedy="collect responses with `easyvideor1 data filter --collect`, or set offline.enable=false",
        )
    return found


def _why_unusable(trajectories: Mapping[str, Sequence[Trajectory]], found: OfflineTrajectories) -> str:
    if not trajectories:
        return "offline.enable is set, but there is no offline trajectory"
    if not found.by_sample:
        return f"all {found.num_too_long} offline trajectories are longer than rollout.max_response_tokens"
    ids = ", ".join(list(found.by_sample)[:3])
    return f"the offline trajectories belong to samples that are not in data.train ({ids}, ..)"
