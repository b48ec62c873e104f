"""Planning and decoding in processes that can be killed: a hanging file costs its deadline once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from easyvideor1.errors import MediaError
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan, VisionSpec
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media
from easyvideor1.video.workers import Worker, naming


@dataclass(frozen=True, kw_only=True)
class Unplanned:
    """A medium, and how it is to be looked at."""

    media: Media
    spec: FrameSpec
    vision: VisionSpec


def look(item: Unplanned | MediaPlan) -> MediaPlan | Clip:
    """The plan of a medium, or the frames of a plan, by one thread."""
    if isinstance(item, Unplanned):
        return plan_media(item.media, item.spec, item.vision)
    return decode(item, threads=1)


class DecodePool:
    """A few decoder processes for the threads of this one.

    Args:
        workers: processes, started when first needed; as many calls run at once, more wait.
        deadline_s: wall time one file may take.
        function: what runs in the processes (picklable).
    """

    def __init__(self, workers: int, deadline_s: float, *, function: Callable[[Any], MediaPlan | Clip] = look) -> None:
        self.deadline_s = deadline_s
        self.quarantine: dict[str, str] = {}
        """Files that killed or outlasted a process, with the reason; they are not tried again."""
        self._function = function
        self._places: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(workers):
            self._places.put(None)
        self._workers: set[Worker] = set()
        self._lock = threading.Lock()

    def plan(self, media: Media, spec: FrameSpec, vision: VisionSpec) -> MediaPlan:
        """`plan_media` in another process; safe to call from many threads.

        Raises:
            MediaError, UsageError: as `plan_media`.
            MediaError: the process died, or was killed at the deadline, now or in an earlier call.
        """
        return self._call(Unplanned(media=media, spec=spec, vision=vision), name=media.name)

    def decode(self, plan: MediaPlan) -> Clip:
        """The frames of a plan, decoded in another process; safe to call from many threads.

        Raises:
            MediaError: as `decode`; or the process died, or was killed at the deadline, now or in an earlier call.
        """
        return self._call(plan, name=plan.media.name)

    def _call(self, item: Unplanned | MediaPlan, *, name: str) -> Any:
        if name in self.quarantine:
            raise MediaError(f"not tried again: {self.quarantine[name]}", where=name)
        worker = self._places.get()
        try:
            if worker is None or not worker.is_alive:  # it may have died of nobody's item
                worker = Worker(self._function)
                with self._lock:
                    self._workers.add(worker)
            return worker.call(item, deadline_s=self.deadline_s)
        except MediaError as error:
            if worker is not None and not worker.is_alive:
                self.quarantine[name] = error.problem
                worker = self._buried(worker)
            raise naming(error, name) from None
        finally:
            self._places.put(worker)

    def _buried(self, worker: Worker) -> None:
        with self._lock:
            self._workers.discard(worker)

    def close(self) -> None:
        """Kill all processes."""
        with self._lock:
            for worker in self._workers:
                worker.kill()
            self._workers.clear()

    def __enter__(self) -> DecodePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
