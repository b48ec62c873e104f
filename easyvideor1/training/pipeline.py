"""The groups of one step after another. At `train.async_level` 1 those of the next are sampled while this one trains.

    async_level 0:  | sample 1 | train 1 | sample 2 | train 2 |
    async_level 1:  | sample 1 | train 1  | train 2  |
                               | sample 2 | sample 3 |

At level 1 the weights go to the engine between two steps, when it is at rest; so the rollouts that step k trains on
come from the weights that step k - 1 began with, one update behind. What is under way is in no checkpoint: a run that
goes on samples the same prompts again, with the weights of the checkpoint.

With several ranks the threads that sample gather among each other, apart from those that train; both make the same
calls in the same order on all ranks. So a rank that ends its thread early must end those of the others too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.rollout.engine import Engine
from easyvideor1.training.collect import Collected, Collector
from easyvideor1.training.ranks import Ranks

PARTS = ("process", "decode", "rollout", "reward")
"""Parts of a step's time that sampling is made of."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """The groups of a step, and how long they took where that was beside an update."""

    collected: Collected
    times: Mapping[str, float]
    """`time/<part>_s`; empty where the step's own watch has them."""
    slowest: str
    """See Stopwatch.slowest."""


class Pipeline:
    """Gives the groups of each step in turn; use it as a context manager around the steps."""

    def __init__(
        self,
        collector: Collector,
        *,
        engine: Engine,
        overlaps: bool,
        last_step: int,
        watch: Stopwatch,
        before_scoring: Callable[[], object],
        ranks: Ranks,
    ) -> None:
        """
        Args:
            ranks: those of the collector.
            overlaps: the groups of a step may be begun before the update of the one before is done.
            last_step: of the run; nothing is begun after it.
            watch: the one that the collector charges: where it overlaps, one of its own.
            before_scoring: called before the responses of each step are scored.
        """
        self.overlaps = overlaps
        self._collector, self._engine, self._last_step = collector, engine, last_step
        self._watch, self._before_scoring = watch, before_scoring
        self._ranks = ranks
        self._thread = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="rollouts", initializer=_use_gpu, initargs=(_current_gpu(),)
        )
        self._begun: Future[Made] | None = None

    def take(self, step: int, cursor: int, *, version: int) -> Made:
        """The groups of a step: those that were begun, or made now.

        Args:
            version: of the weights that the engine has.

        Raises:
            As Collector.collect.
        """
        if self._begun is None:
            self._before_scoring()
            return self._make(step, cursor, version=version)
        begun, self._begun = self._begun, None
        return begun.result()

    def begin(self, step: int, cursor: int, *, version: int) -> None:
        """Begin with the groups of the next step; the actor may change from here on.

        Where the engine compares itself with the actor this time, they are made before this returns.
        """
        assert self.overlaps
        if step > self._last_step:
            return
        must_wait = any(self._ranks.gather(self._engine.needs_still_actor, of="engines that need the actor"))
        self._before_scoring()
        self._begun = self._thread.submit(self._make, step, cursor, version=version)
        if must_wait:
            self.settle()

    def settle(self) -> None:
        """Wait until the engine is at rest; an error comes up where the groups are taken."""
        if self._begun is not None:
            self._begun.exception()

    def close(self) -> None:
        """End what is under way as soon as its next request is done, with several ranks as soon as that of all is."""
        self._collector.stop()
        self._thread.shutdown(wait=self._ranks.size > 1, cancel_futures=True)
        self._collector.supply.close()

    def _make(self, step: int, cursor: int, *, version: int) -> Made:
        if self.overlaps:
            self._watch.restart()
        collected = self._collector.collect(step, cursor, version=version)
        times = self._watch.values() if self.overlaps else {}
        return Made(
            collected=collected,
            times={f"time/{part}_s": times[f"time/{part}_s"] for part in PARTS if times},
            slowest=self._watch.slowest,
        )


def _current_gpu() -> int | None:
    return torch.cuda.current_device() if torch.cuda.is_available() else None


def _use_gpu(index: int | None) -> None:
    """Make a GPU the current one of this thread, which begins with the first."""
    if index is not None:
        torch.cuda.set_device(index)
