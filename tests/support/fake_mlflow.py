"""A stand-in for the mlflow package that refuses what its stores refuse (mlflow/utils/validation.py of 3.17)."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

NAMES = re.compile(r"^[/\w.\- ]*$", re.ASCII)


@dataclass
class FakeRun:
    name: str
    tags: Mapping[str, str]
    status: str = "RUNNING"
    params: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, list[int]] = field(default_factory=dict)
    """Name -> the steps it was told for."""


class FakeMLflow:
    """Its runs, and the package that makes them."""

    def __init__(self) -> None:
        self.runs: dict[str, FakeRun] = {}

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entities: Any = ModuleType("mlflow.entities")
        entities.Metric = lambda key, value, timestamp, step: SimpleNamespace(key=key, step=step)
        entities.Param = lambda key, value: SimpleNamespace(key=key, value=value)
        package: Any = ModuleType("mlflow")
        package.entities, package.MlflowClient = entities, lambda tracking_uri: self
        package.is_tracking_uri_set = lambda: False
        monkeypatch.setitem(sys.modules, "mlflow", package)
        monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
        monkeypatch.setattr("easyvideor1.records.trackers.need", lambda name, for_what: None)

    def get_experiment_by_name(self, name: str) -> Any:
        return None

    def create_experiment(self, name: str, artifact_location: str) -> str:
        return "1"

    def search_runs(self, experiments: Sequence[str], query: str) -> list[Any]:
        found = [key for key, run in self.runs.items() if any(f"= '{value}'" in query for value in run.tags.values())]
        return [
            SimpleNamespace(info=SimpleNamespace(run_id=key), data=SimpleNamespace(metrics=self.runs[key].metrics))
            for key in found
        ]

    def get_metric_history(self, key: str, name: str) -> list[Any]:
        return [SimpleNamespace(step=step) for step in self.runs[key].metrics[name]]

    def create_run(self, experiment: str, run_name: str, tags: Mapping[str, str]) -> Any:
        key = str(len(self.runs))
        self.runs[key] = FakeRun(run_name, tags)
        return SimpleNamespace(info=SimpleNamespace(run_id=key))

    def update_run(self, key: str, status: str) -> None:
        self.runs[key].status = status

    def set_terminated(self, key: str, status: str) -> None:
        self.runs[key].status = status

    def log_batch(self, key: str, metrics: Sequence[Any] = (), params: Sequence[Any] = ()) -> None:
        run = self.runs[key]
        if len(metrics) > 1000 or len(params) > 100:
            raise ValueError("too many at once")
        for item in (*metrics, *params):
            if not NAMES.match(item.key) or not item.key or len(item.key) > 250:
                raise ValueError(f"invalid name {item.key!r}")
            normal = posixpath.normpath(item.key)
            if normal != item.key or normal == "." or normal.startswith(("..", "/")):
                raise ValueError(f"a name that is no path of its own: {item.key!r}")
        for item in metrics:
            run.metrics.setdefault(item.key, []).append(item.step)
        for item in params:
            if len(item.value) > 500 or run.params.get(item.key, item.value) != item.value:
                raise ValueError(f"parameter {item.key}: too long, or it has another value")
            run.params[item.key] = item.value
