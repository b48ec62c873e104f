"""A run of MLflow: metrics and configuration, in the forms that its stores take."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import xxhash

from easyvideor1.records.tracked_run import TrackedRun

OUR_ID = "easyvideor1.id"
"""Tag by which a run that goes on is found again."""
NAME_LENGTH, VALUE_LENGTH = 250, 500
"""Longest names, and longest values of parameters, that all its versions take."""
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100


class MLflow:
    """A run in the store that MLFLOW_TRACKING_URI names, else in `mlflow.db` in the folder of the run.

    It forgets nothing: of a step that is made again after a resume, the numbers of the first time stay, alone.
    """

    def __init__(self, run: TrackedRun) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        import mlflow  # type: ignore - an extra that the checks go without

        folder = run.folder.resolve()
        store = None if mlflow.is_tracking_uri_set() else f"sqlite:///{folder / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(tracking_uri=store)
        experiment = self._client.get_experiment_by_name(run.project)
        if experiment is not None:
            number = experiment.experiment_id
        else:
            place = None if store is None else (folder / "mlflow").as_uri()
            number = self._client.create_experiment(run.project, artifact_location=place)
        self._last: dict[str, int] = {}
        """Name of a metric -> the last step that the run had of it before it went on."""
        found = self._client.search_runs([number], f"tags.`{OUR_ID}` = '{run.id}'")
        if found:
            self._id = found[0].info.run_id
            for name in found[0].data.metrics:
                history = self._client.get_metric_history(self._id, name)
                self._last[name] = max(metric.step for metric in history)
            self._client.update_run(self._id, status="RUNNING")
            return  # its parameters cannot change any more
        self._id = self._client.create_run(number, run_name=run.name, tags={OUR_ID: run.id}).info.run_id
        entities = mlflow.entities
        given = [entities.Param(fitting_name(name), value[:VALUE_LENGTH]) for name, value in _flat(run.config)]
        for some in _portions(given, PARAMETERS_AT_ONCE):
            self._client.log_batch(self._id, params=some)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric  # type: ignore - as above

        now_ms = int(time.time() * 1000)
        fitting = {fitting_name(name): value for name, value in values.items()}
        metrics = [
            Metric(name, value, now_ms, step) for name, value in fitting.items() if step > self._last.get(name, -1)
        ]
        for some in _portions(metrics, METRICS_AT_ONCE):
            self._client.log_batch(self._id, metrics=some)

    def close(self, *, is_done: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if is_done else "FAILED")


def fitting_name(name: str) -> str:
    """A name that MLflow takes: of letters, digits and some signs, no path that leads elsewhere, and not too long.

    >>> fitting_name("accuracy/multiple choice"), fitting_name("iou@0.5/../x"), fitting_name("//")
    ('accuracy/multiple choice', 'iou_0.5/_/x', '_/_/_')
    """
    parts = re.sub(r"[^A-Za-z0-9_\-. /]", "_", name).split("/")
    fitting = "/".join("_" if part in ("", ".", "..") else part for part in parts)
    if len(fitting) <= NAME_LENGTH:
        return fitting
    end = f"_{xxhash.xxh3_64_hexdigest(name.encode())}"  # so that two long names do not become one
    return fitting[: NAME_LENGTH - len(end)] + end


def _portions(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and values of a configuration."""
    if isinstance(tree, Mapping) and tree:
        for name, child in tree.items():
            yield from _flat(child, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, str(tree)
