"""Fixtures that several parts share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import av
import numpy as np
import pytest
from support.warm_workers import WORKERS, WarmWorkers

from easyvideor1.jobs import worker
from easyvideor1.rewards.registry import REGISTRY

LONG_FILES = (
    "training/test_ranks_training.py",
    "training/test_sharded.py",
    "rewards/test_judge.py",
    "jobs/test_pool.py",
    "cli/test_faults.py",
    "training/test_ranks_engines.py",
    "training/test_collect.py",
    "training/test_trainer.py",
    "cli/test_train.py",
    "training/test_families.py",
    "rollout/hf/test_engine.py",
    "cli/test_kills.py",
    "training/test_pipeline.py",
    "cli/test_damaged_checkpoints.py",
    "runs/test_evaluating.py",
    "rewards/test_pool.py",
    "training/test_minibatch.py",
    "training/test_policy.py",
    "runs/test_planning.py",
    "test_packaging.py",
    "demo/test_command.py",
    "data/test_encode.py",
    "cli/test_export.py",
    "runs/test_python_api.py",
    "cli/test_public_formats.py",
    "training/test_sequence.py",
)
"""Files whose tests take longest, the longest first."""

# They import TRL and verl, which the tests do not install.
collect_ignore = ["support/make_trl_vectors.py", "support/make_verl_vectors.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several processes take whole files in this order: a long one taken last would leave the others idle."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture(scope="session")
def warm_workers() -> Iterator[WarmWorkers]:
    yield WORKERS
    WORKERS.close()


@pytest.fixture(autouse=True)
def workers_start_at_once(warm_workers: WarmWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes are forked; see support.warm_workers."""
    monkeypatch.setattr(worker, "subprocess", warm_workers)


@pytest.fixture(autouse=True)
def own_rewards_end_with_their_test() -> Iterator[None]:
    """What a test registers as a reward of its own is gone for the next one."""
    yield
    for table in (REGISTRY.rewards, REGISTRY.parts, REGISTRY.places, REGISTRY.arguments):
        table.clear()


@pytest.fixture
def write_video(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small real video of noise on a moving gradient: `write_video(name, seed=.., num_frames=..)`."""

    def write(name: str, *, seed: int = 0, num_frames: int = 12, fps: int = 6, side_px: int = 64) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(seed)
        ramp = np.linspace(0, 150, side_px).astype(np.uint8)
        with av.open(str(path), "w") as container:
            stream = container.add_stream("libx264", rate=fps)
            stream.width = stream.height = side_px
            stream.pix_fmt = "yuv420p"
            for number in range(num_frames):
                picture = np.broadcast_to(np.roll(ramp, 5 * number)[None, :, None], (side_px, side_px, 3))
                picture = picture + noise.integers(0, 60, (side_px, side_px, 1), dtype=np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode())
        return path

    return write


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as JSONL: `write_rows(rows, "data.jsonl")`."""

    def write(rows: Sequence[dict], name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write
