"""Experiment trackers: thin sinks of the metrics that metrics.jsonl holds in any case.

Each takes its server, its key and whether it is offline from its own settings (WANDB_MODE, SWANLAB_MODE,
TRACKIO_SERVER_URL, MLFLOW_TRACKING_URI, `wandb login`, ..). One that cannot start stops the run before it begins; one
that fails later is let go with a warning.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from easyvideor1.errors import UsageError
from easyvideor1.extras import need
from easyvideor1.records.mlflow_run import MLflow
from easyvideor1.records.tracked_run import TrackedRun

log = logging.getLogger(__name__)


class Tracker(Protocol):
    """One tracker, started."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Take the metrics of a step; a step comes several times, with other metrics each time."""

    def close(self, *, is_done: bool) -> None:
        """Send and write what is left.

        Args:
            is_done: the run came to its end.
        """


class TensorBoard:
    """Event files in the folder `tensorboard` of the run, one for each start."""

    def __init__(self, run: TrackedRun) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = run.folder / "tensorboard"
        self._goes_on = folder.is_dir() and any(folder.glob("events.*"))
        self._writer = EventFileWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore - made when it is imported
        from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore - made when it is imported

        if self._goes_on:  # what earlier event files say of this step and later ones is made again
            self._goes_on = False
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=step, session_log=start))
        found = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=found)))
        self._writer.flush()

    def close(self, *, is_done: bool) -> None:
        self._writer.close()


class _Run:
    """A tracker whose package gives a run to log to."""

    _run: Any

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)


class WeightsAndBiases(_Run):
    """A run of Weights & Biases; its files are in the folder `wandb` of the run."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        self._run = wandb.init(
            project=run.project,
            name=run.name,
            id=run.id,
            resume="allow",
            dir=str(run.folder),
            config=dict(run.config),
            settings=wandb.Settings(console="off", silent=True),
        )

    def close(self, *, is_done: bool) -> None:
        self._run.finish(exit_code=0 if is_done else 1)


class Trackio(_Run):
    """A run of trackio, in its own folder (TRACKIO_DIR)."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio  # type: ignore - an extra that the checks go without

        self._run = trackio.init(
            project=run.project, name=f"{run.name}-{run.id}", config=dict(run.config), resume="allow", embed=False
        )

    def close(self, *, is_done: bool) -> None:
        self._run.finish()


class SwanLab(_Run):
    """A run of SwanLab; its files are in the folder `swanlab` of the run."""

    def __init__(self, run: TrackedRun) -> None:
        import swanlab  # type: ignore - an extra that the checks go without

        self._run = swanlab.init(
            project=run.project,
            name=run.name,
            id=run.id,
            resume="allow",
            log_dir=str(run.folder / "swanlab"),
            config=dict(run.config),
        )

    def close(self, *, is_done: bool) -> None:
        self._run.finish("success" if is_done else "crashed")


KINDS: Mapping[str, Callable[[TrackedRun], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
    "swanlab": SwanLab,
    "mlflow": MLflow,
}
"""Name in a recipe, which is that of the package too -> what starts it."""


class Trackers:
    """The trackers of a run; one that fails is let go."""

    def __init__(self) -> None:
        self._open: dict[str, Tracker] = {}

    def start(self, name: str, run: TrackedRun) -> None:
        """Start one of KINDS.

        Raises:
            UsageError: it is not installed or cannot start.
        """
        need(name, for_what=f"trackers: [{name}]")
        try:
            with _no_questions():
                self._open[name] = KINDS[name](run)
        except Exception as error:  # whatever a service says against the run has to be seen before it begins
            lines = str(error).strip().splitlines()
            raise UsageError(
                f"trackers: {name} {_version(name)} cannot start: "
                f"{lines[0] if lines else type(error).__name__} (log in, set it to offline, or leave it out)"
            ) from error

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, tracker in list(self._open.items()):
            try:
                tracker.log(step, values)
            except Exception:  # hours of training are worth more than a chart; metrics.jsonl has the numbers
                del self._open[name]
                log.warning("%s failed at step %d and is off from here on", name, step, exc_info=True)

    def close(self, *, is_done: bool) -> None:
        for name, tracker in self._open.items():
            try:
                tracker.close(is_done=is_done)
            except Exception:  # as above
                log.warning("%s failed at the end of the run", name, exc_info=True)
        self._open = {}


@contextmanager
def tracked(names: Sequence[str], *, folder: Path, project: str, config: Mapping[str, Any]) -> Iterator[Trackers]:
    """Trackers for the time of a run.

    Args:
        names: among KINDS.
        folder: of the run; there already.
        config: plain values.

    Raises:
        UsageError: one is not installed or cannot start.
    """
    trackers = Trackers()
    is_done = False
    try:
        if names:
            run = TrackedRun(folder=folder, project=project, config=config, id=_run_id(folder))
            for name in names:
                trackers.start(name, run)
        yield trackers
        is_done = True
    finally:
        trackers.close(is_done=is_done)


def _version(package: str) -> str:
    """Version of the distribution that brings a package; mlflow comes from mlflow-skinny too."""
    brought_by = importlib.metadata.packages_distributions().get(package, [package])
    return importlib.metadata.version(brought_by[0])


def _run_id(folder: Path) -> str:
    """The id under which trackers know a run; made once, a run that goes on has the same."""
    path = folder / "tracker_id.txt"
    if not path.exists():
        path.write_text(uuid.uuid4().hex[:12] + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").strip()


@contextmanager
def _no_questions() -> Iterator[None]:
    """Standard input at its end, so that a package that would ask for a key fails instead of waiting."""
    before = sys.stdin
    with open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before
