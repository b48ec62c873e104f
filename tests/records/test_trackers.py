"""What trackers keep of a run, read back from their own files."""

import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.fake_mlflow import FakeMLflow

from easyvideor1.errors import UsageError
from easyvideor1.records import trackers
from easyvideor1.records.metrics import MetricsLog
from easyvideor1.records.mlflow_run import NAME_LENGTH, fitting_name
from easyvideor1.records.tracked_run import TrackedRun
from easyvideor1.records.trackers import Trackers, tracked

LONG = [f"{'deep/' * 80}{end}" for end in ("first", "second")]
CONFIG = {"seed": 3, "rollout": {"n": 8}}


def log_steps(names: list[str], folder: Path, steps: range) -> None:
    """Two calls for each step, as a trainer makes them."""
    folder.mkdir(exist_ok=True)
    with tracked(names, folder=folder, project="made-up", config=CONFIG) as found:
        log = MetricsLog(folder / "metrics.jsonl", track=found.log)
        for step in steps:
            log.log(step, {"reward/mean": step / 8, "accuracy/multiple choice": 0.5, "loss/kl_ref": float("nan")})
            log.log(step, {"time/checkpoint_s": 0.25})


def test_tensorboard_has_every_number_of_a_run_that_went_on_once(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log_steps(["tensorboard"], tmp_path / "run", range(5))
    log_steps(["tensorboard"], tmp_path / "run", range(3, 7))  # goes on from a checkpoint of step 2
    found = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    for name, values in {
        "reward/mean": [step / 8 for step in range(7)],
        "accuracy/multiple choice": [0.5] * 7,
        "time/checkpoint_s": [0.25] * 7,
    }.items():
        assert [(event.step, event.value) for event in found.Scalars(name)] == list(enumerate(values))


@pytest.fixture
def wandb_mode(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets WANDB_MODE; wandb reads it once in the life of its process, which ends with the test."""
    wandb = pytest.importorskip("wandb")
    wandb.teardown()
    yield lambda mode: monkeypatch.setenv("WANDB_MODE", mode)
    wandb.teardown()


def wandb_records(path: Path) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log format behind a header of seven bytes."""
    data, block = path.read_bytes(), 32768
    assert data[:4] == b":W&B"
    place, whole = 7, b""
    while place + 7 <= len(data):
        if block - place % block < 7:
            place += block - place % block
            continue
        _, size, kind = struct.unpack("<IHB", data[place : place + 7])
        whole += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last piece
            yield whole
            whole = b""


def test_wandb_offline_has_every_number(tmp_path: Path, wandb_mode: Callable[[str], None]) -> None:
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined] - made when it is imported

    wandb_mode("offline")
    log_steps(["wandb"], tmp_path / "run", range(3))
    wandb.teardown()  # its service writes the file to the end
    (file,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    steps: list[dict[str, str]] = []
    ids = set()
    for data in wandb_records(file):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            steps.append({"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item})
        elif record.WhichOneof("record_type") == "run":
            ids.add((record.run.project, record.run.display_name, record.run.run_id))
    assert [(step["_step"], float(step["reward/mean"])) for step in steps] == [("0", 0.0), ("1", 0.125), ("2", 0.25)]
    assert {step["time/checkpoint_s"] for step in steps} == {"0.25"}
    run_id = (tmp_path / "run" / "tracker_id.txt").read_text().strip()
    assert ids == {("made-up", "run", run_id)}


def test_swanlab_offline_writes_into_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("swanlab")
    monkeypatch.setenv("SWANLAB_MODE", "offline")
    log_steps(["swanlab"], tmp_path / "run", range(3))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run" / "swanlab").rglob("*") if path.is_file())
    assert b"reward/mean" in kept


def test_trackio_keeps_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    log_steps(["trackio"], tmp_path / "run", range(3))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "trackio").rglob("*") if path.is_file())
    assert b"reward/mean" in kept


def test_mlflow_has_every_number_and_goes_on_in_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own table on this machine."""
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    log_steps(["mlflow"], tmp_path / "run", range(2))
    log_steps(["mlflow"], tmp_path / "run", range(1, 4))  # the second step is made again
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'run' / 'mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("made-up").experiment_id])
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert run.data.params == {"seed": "3", "rollout.n": "8"}
    history = client.get_metric_history(run.info.run_id, "reward/mean")
    assert sorted((item.step, item.value) for item in history) == [(0, 0), (1, 0.125), (2, 0.25), (3, 0.375)]
    assert len(client.get_metric_history(run.info.run_id, "accuracy/multiple choice")) == 4


def test_what_mlflow_is_told_is_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of problem types and reward parts come from data: one that it refuses must not end the charts."""
    fake = FakeMLflow()
    fake.install(monkeypatch)
    config = {"reward": {"weights": {"iou@0.5": 1.0, "": 2.0}}, "data": {"train": [{"path": "x" * 9000}]}} | {
        f"key{number}": number for number in range(150)
    }
    names = ["accuracy/multiple choice", "reward/iou@0.5", "part/../../x", "\u00e9t\u00e9", "a//b", *LONG]
    for steps in (range(2), range(1, 3)):  # the second step is made again
        (tmp_path / "run").mkdir(exist_ok=True)
        with tracked(["mlflow"], folder=tmp_path / "run", project="p", config=config) as found:
            for step in steps:
                found.log(step, dict.fromkeys(names, 0.5) | {f"m{number}": 1.0 for number in range(1200)})
            assert found._open, "it was let go"
    (run,) = fake.runs.values()
    assert run.status == "FINISHED"
    assert len(run.params) == 153
    assert run.metrics["accuracy/multiple choice"] == run.metrics["reward/iou_0.5"] == [0, 1, 2]
    assert len(run.metrics) == len(names) + 1200, "no two names became one"
    assert fitting_name("a" * NAME_LENGTH) == "a" * NAME_LENGTH


def test_one_that_needs_a_key_stops_the_run_with_a_line_and_asks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wandb_mode: Callable[[str], None]
) -> None:
    wandb_mode("online")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(UsageError, match=r"^trackers: wandb .* cannot start: .*API key.* leave it out\)$"):
        log_steps(["wandb"], tmp_path / "run", range(3))
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_one_that_is_not_installed_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"trackers: \[trackio\] needs trackio.* pip install 'easyvideor1\[trackio\]'"):
        log_steps(["trackio"], tmp_path / "run", range(3))


class Fails:
    """A tracker that fails from its second step on, and when it is closed."""

    def __init__(self, run: TrackedRun) -> None:
        self.steps: list[int] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.steps.append(step)
        if step == 2:
            raise ConnectionError("the server is gone")

    def close(self, *, is_done: bool) -> None:
        raise ConnectionError("the server is gone")


def test_one_that_fails_later_is_let_go_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trackers, "KINDS", {**trackers.KINDS, "trackio": Fails, "swanlab": Fails})
    monkeypatch.setattr(trackers, "need", lambda name, for_what: None)
    run = TrackedRun(folder=tmp_path, project="p", config={}, id="1")
    found = Trackers()
    found.start("trackio", run)
    found.log(1, {})
    found.start("swanlab", run)
    fails = dict(found._open)
    with caplog.at_level(logging.WARNING):
        for step in (2, 3):
            found.log(step, {"reward/mean": 0.5})
        found.close(is_done=True)
    assert [fails[name].steps for name in ("trackio", "swanlab")] == [[1, 2], [2]]  # type: ignore[attr-defined]
    assert "trackio failed at step 2 and is off from here on" in caplog.text
    found.start("swanlab", run)
    found.close(is_done=False)
    assert "swanlab failed at the end of the run" in caplog.text
