"""The same work over a Ray cluster: one task per item, killed after its deadline. Needs the extra `ray`."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable

from easyvideor1.errors import EasyVideoError, JobDied
from easyvideor1.extras import need
from easyvideor1.jobs.pool import Outcome
from easyvideor1.jobs.worker import Item, Result, too_late

TASKS_PER_CORE = 2
"""Tasks handed to the cluster beyond those that run, so that no core waits for this process."""
POLL_S = 1.0


def run_all_on_ray(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    deadline_s: float,
    address: str | None = None,
    with_gpu: bool = False,
) -> Generator[Outcome[Item, Result]]:
    """Apply a function to every item as Ray tasks of one core each; yields outcomes as they come, in any order.

    Args:
        function: picklable; the package must be installed on every node, and files be visible there.
        items: picklable.
        deadline_s: time a task may take from when it runs; then it is killed and its outcome is an error.
        address: of a running cluster; None starts one on this machine unless the environment names one.
        with_gpu: each task has a GPU for itself, where the cluster has any; Ray hides them from all others.

    Raises:
        UsageError: Ray is not installed.
    """
    need("ray", for_what="a Ray cluster")
    import ray  # pyright: ignore[reportMissingImports]

    def work(item: Item) -> Outcome[Item, Result]:
        started = time.monotonic()
        try:
            result, error = function(item), None
        except EasyVideoError as raised:
            result, error = None, raised
        return Outcome(item=item, result=result, error=error, wall_s=time.monotonic() - started)

    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    num_gpus = int(with_gpu and ray.cluster_resources().get("GPU", 0) > 0)
    task_of = ray.remote(num_cpus=1, num_gpus=num_gpus, max_retries=0)(work).remote
    limit = TASKS_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting: dict = {}
    remaining = iter(items)
    while True:
        for _, item in zip(range(limit - len(waiting)), remaining, strict=False):
            # A queued task may wait for as many others as there are places per core before it runs.
            waiting[task_of(item)] = (item, time.monotonic() + TASKS_PER_CORE * deadline_s)
        if not waiting:
            return
        ready, _ = ray.wait(list(waiting), timeout=POLL_S)
        for task in ready:
            item, _ = waiting.pop(task)
            try:
                yield ray.get(task)
            except ray.exceptions.RayError as error:
                text = f"its task failed: {type(error).__name__}: {error}".splitlines()[0]
                yield Outcome(item=item, result=None, error=JobDied(text), wall_s=0.0)
        for task in [task for task, (_, kill_at_s) in waiting.items() if time.monotonic() > kill_at_s]:
            item, _ = waiting.pop(task)
            ray.cancel(task, force=True)
            yield Outcome(item=item, result=None, error=too_late(deadline_s), wall_s=deadline_s)
