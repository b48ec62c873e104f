"""All media of a run looked at before its model is loaded: how long they are, and which cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from easyvideor1.config_data import CacheConfig
from easyvideor1.evals.preflight import Looks
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.types import FrameSpec, Media, VisionSpec
from easyvideor1.video.pool import Unplanned
from easyvideor1.video.stored import LookAtMedium

LOOK_S = 20.0
"""Time a look at one file may take; a plan reads no more than its headers or packets."""


def look_at_all(
    media: Sequence[tuple[Media, FrameSpec]], vision: VisionSpec, cache: CacheConfig, *, workers: int
) -> Looks:
    """What plans say of media; one that hangs or is broken is noted, and holds nobody else up."""
    looks = Looks()
    asked = [Unplanned(media=medium, spec=spec, vision=vision) for medium, spec in media]
    if not asked:
        return looks
    deadline_s = min(LOOK_S, cache.deadline_s)
    with (
        Pool(LookAtMedium(cache=cache), workers=workers, deadline_s=deadline_s) as pool,
        closing(pool.run(asked)) as outcomes,
    ):
        for outcome in outcomes:
            key = outcome.item.media, outcome.item.spec
            if outcome.error is not None:
                looks.faults[key] = str(naming(outcome.error, outcome.item.media.name))
            elif outcome.result is not None:
                looks.facts[key] = outcome.result
    return looks
