"""Planning and decoding in processes that can be killed: a hanging file costs its deadline once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from easyvideor1.errors import JobDied, JobError, JobTimeout, MediaError
from easyvideor1.jobs.pool import Pool, naming
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import FRESH, Files
from easyvideor1.video.sampling import plan_media

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Unplanned:
    """A medium, and how it is to be looked at."""

    media: Media
    spec: FrameSpec
    vision: VisionSpec


def look(item: Unplanned | MediaPlan, *, files: Files = FRESH) -> MediaPlan | Clip:
    """The plan of a medium, or the frames of a plan, by one thread."""
    if isinstance(item, Unplanned):
        return plan_media(item.media, item.spec, item.vision, files=files)
    return decode(item, threads=1, files=files)


class DecodePool:
    """A few decoder processes for the threads of this one.

    Args:
        workers: processes, started when first needed; as many calls run at once, more wait.
        deadline_s: wall time one file may take.
        files: who is asked about video files (see `known_files.known_files`).
        function: what runs in the processes (picklable); None: `look`.
    """

    def __init__(
        self,
        workers: int,
        deadline_s: float,
        *,
        files: Files = FRESH,
        function: Callable[[Any], Any] | None = None,
    ) -> None:
        self.quarantine: dict[str, str] = {}
        """Files that killed two processes or outlasted one, with the reason; they are not tried again."""
        work = partial(look, files=files) if function is None else function
        self._pool: Pool[Unplanned | MediaPlan, Any] = Pool(work, workers=workers, deadline_s=deadline_s)

    def plan(self, media: Media, spec: FrameSpec, vision: VisionSpec) -> MediaPlan:
        """`plan_media` in another process; safe to call from many threads.

        Raises:
            MediaError, UsageError: as `plan_media`.
            MediaError: two processes died, or one was killed at the deadline, now or in an earlier call.
        """
        return self._call(Unplanned(media=media, spec=spec, vision=vision), name=media.name)

    def decode(self, plan: MediaPlan) -> Clip:
        """The frames of a plan, decoded in another process; safe to call from many threads.

        Raises:
            MediaError: as `decode`; or two processes died, or one was killed at the deadline, now or in an earlier
                call.
        """
        return self._call(plan, name=plan.media.name)

    def _call(self, item: Unplanned | MediaPlan, *, name: str) -> Any:
        if name in self.quarantine:
            raise MediaError(f"not tried again: {self.quarantine[name]}", where=name)
        try:
            return self._tried_twice(item, name=name)
        except JobError as error:
            if isinstance(error, (JobDied, JobTimeout)):
                self.quarantine[name] = error.problem
            raise MediaError(error.problem, where=name, remedy=error.remedy) from None
        except MediaError as error:
            raise naming(error, name) from None

    def _tried_twice(self, item: Unplanned | MediaPlan, *, name: str) -> Any:
        """The result of an item; a process that dies may have been killed for no fault of the file (by the kernel,
        where memory is short), so another one tries once more."""
        try:
            return self._pool.call(item)
        except JobDied as death:
            log.warning("%s: %s; it is tried once more in a fresh process", name, death.problem)
            return self._pool.call(item)

    def close(self) -> None:
        """Kill all processes."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
