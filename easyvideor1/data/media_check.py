"""Media planned and, where asked for, decoded, each once; results are remembered by the content of the file."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import DataError, UsageError
from easyvideor1.types import Clip, FrameSpec, Media, MediaKind, MediaPlan, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import known_files
from easyvideor1.video.sampling import plan_media

NO_CACHE = CacheConfig(dir=".", mode="realtime_only")


@dataclass(frozen=True, kw_only=True, slots=True)
class MediumFacts:
    """Facts about a medium that can be planned."""

    key: str
    """Cache key of its plan."""
    content: str
    """Digest of the file's content."""
    num_tokens: int
    """Vision tokens."""
    patch_digits: tuple[int, ...]
    """For a video: the number of temporal patches whose time has 1, 2, 3, .. digits before the point, which a prompt
    may spell."""
    duration_s: float
    """Length of the clip in seconds; 0.0 for an image."""
    source_fps: float
    width: int
    height: int
    """Pixels of the file, upright."""
    warnings: tuple[str, ...] = ()
    """What its plan says."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a medium can be decoded; a line of the verdict file."""

    key: str
    """Cache key of its plan."""
    reason: str = ""
    """Why not; "" if it can."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The result of a worker for one medium."""

    facts: MediumFacts
    verdict: Verdict | None = None
    """None where it was not asked whether it can be decoded."""
    decoded: bool = False


def facts_of(plan: MediaPlan, vision: VisionSpec) -> MediumFacts:
    """The facts of a plan that later checks need."""
    digits: Counter[int] = Counter()
    if plan.media.kind == "video":
        last_times = [*plan.times_s[vision.temporal_patch - 1 :: vision.temporal_patch], plan.times_s[-1]]
        digits.update(len(str(round(time_s))) for time_s in last_times[: plan.grid_thw[0]])
    return MediumFacts(
        key=plan.cache_key,
        content=plan.content,
        num_tokens=plan.num_tokens,
        patch_digits=tuple(digits[count] for count in range(1, max(digits, default=0) + 1)),
        duration_s=plan.duration_s,
        source_fps=plan.source_fps,
        width=plan.source_size[0],
        height=plan.source_size[1],
        warnings=plan.warnings,
    )


@dataclass(frozen=True, kw_only=True)
class PlanMedium:
    """Plan a medium, decoding nothing; picklable, to run in worker processes."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    cache: CacheConfig
    """Beside it what is known of files is remembered."""

    def __call__(self, media: Media) -> Seen:
        """Raises what `plan_media` raises."""
        plan = plan_media(media, self.specs[media.kind], self.vision, files=known_files(self.cache))
        return Seen(facts=facts_of(plan, self.vision))

    def recall(self, facts: MediumFacts) -> Seen:
        """The remembered facts: planning finds out nothing else."""
        return Seen(facts=facts)


@dataclass(frozen=True, kw_only=True)
class DecodeMedium:
    """Plan a medium and decode it unless its verdict is known; picklable, to run in worker processes."""

    specs: Mapping[MediaKind, FrameSpec]
    vision: VisionSpec
    known: Mapping[str, Verdict]
    cache: CacheConfig | None = None
    """Frame cache to read from and fill, whatever its mode; None: frames are decoded and dropped."""
    decode: Callable[[MediaPlan], Clip] | None = None
    """Makes the clip of a plan; None: `video.decode.decode` on one core."""

    def __call__(self, media: Media) -> Seen:
        """Raises what `plan_media` raises; a medium that cannot be decoded is a verdict."""
        config = replace(self.cache, mode="prefer_preprocessed") if self.cache else NO_CACHE
        files = known_files(config)
        plan = plan_media(media, self.specs[media.kind], self.vision, files=files)
        facts = facts_of(plan, self.vision)
        if plan.cache_key in self.known:
            return Seen(facts=facts, verdict=self.known[plan.cache_key])
        cache = FrameCache.open(config, decode=self.decode or partial(decode, threads=1, files=files))
        try:
            verdict = Verdict(key=plan.cache_key, warnings=cache.load(plan).warnings)
        except DataError as error:
            verdict = Verdict(key=plan.cache_key, reason=str(error))
        return Seen(facts=facts, verdict=verdict, decoded=cache.counters.decodes > 0)

    def recall(self, facts: MediumFacts) -> Seen | None:
        """The remembered facts, if the verdict is known too."""
        verdict = self.known.get(facts.key)
        return None if verdict is None else Seen(facts=facts, verdict=verdict)


class VerdictFile:
    """Verdicts of earlier checks, one JSON object per line; later lines count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.known: dict[str, Verdict] = {}
        with contextlib.suppress(FileNotFoundError):
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError, TypeError, KeyError):  # a line cut by a kill is checked again
                    row = json.loads(line)
                    self.known[row["key"]] = Verdict(**row | {"warnings": tuple(row["warnings"])})

    def note(self, seen: Seen) -> None:
        """Remember the verdict about a medium, on disk at once."""
        verdict = seen.verdict
        if verdict is None or verdict.key in self.known:
            return
        self.known[verdict.key] = verdict
        try:
            with self._path.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
        except OSError as error:
            raise UsageError(
                f"{self._path}: cannot keep verdicts there: {error.strerror} (use --verdicts FILE)"
            ) from None
