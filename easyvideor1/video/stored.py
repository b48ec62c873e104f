"""Plans of media whose frames lie in a cache, made where a file can be killed: who loads them then only maps files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from easyvideor1.config_data import CacheConfig
from easyvideor1.types import MediaPlan
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import known_files
from easyvideor1.video.pool import Unplanned
from easyvideor1.video.sampling import plan_media


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A plan, whose frames are in the cache now."""

    plan: MediaPlan
    is_decoded: bool
    """Whether they were not there before."""


@dataclass(frozen=True, kw_only=True)
class StoreClip:
    """Plans a medium and makes sure that its frames are in a cache; picklable."""

    cache: CacheConfig

    def __call__(self, item: Unplanned) -> Stored:
        """Errors as of `plan_media` and `FrameCache.load`."""
        config = replace(self.cache, mode="prefer_preprocessed")
        files = known_files(config)
        plan = plan_media(item.media, item.spec, item.vision, files=files)
        cache = FrameCache.open(config, decode=partial(decode, threads=1, files=files))
        if not cache.contains(plan):
            cache.load(plan)
        return Stored(plan=plan, is_decoded=cache.counters.decodes > 0)


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a plan says of a medium."""

    duration_s: float
    num_frames: int
    num_tokens: int
    num_bytes: int
    """Size of its frames, decoded."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LookAtMedium:
    """Plans a medium and decodes nothing; picklable."""

    cache: CacheConfig

    def __call__(self, item: Unplanned) -> Looked:
        """Errors as of `plan_media`."""
        return looked(plan_media(item.media, item.spec, item.vision, files=known_files(self.cache)))


def looked(plan: MediaPlan) -> Looked:
    return Looked(
        duration_s=plan.duration_s,
        num_frames=len(plan.times_s),
        num_tokens=plan.num_tokens,
        num_bytes=3 * len(plan.times_s) * plan.height * plan.width,
        warnings=plan.warnings,
    )
