"""What a run will need is looked at before it begins."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from easyvideor1.config import RunConfig
from easyvideor1.config_data import CacheConfig
from easyvideor1.config_tree import build
from easyvideor1.errors import RunError, UsageError
from easyvideor1.runs.looks import look_at_cache, look_at_places


def config(folder: Path) -> RunConfig:
    tree = {
        "out": str(folder / "run"),
        "model": {"path": "tiny"},
        "data": {"train": [{"path": "rows.jsonl"}]},
        "cache": {"dir": str(folder / "cache")},
        "train": {"steps": 1},
    }
    return build(RunConfig, tree, where="test")


def test_folders_that_can_be_written_are_found_good_and_nothing_is_left_in_them(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    look_at_places(config(tmp_path))
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("full", ["run", "cache"])
def test_a_full_disk_is_named_by_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(
        shutil, "disk_usage", lambda folder: SimpleNamespace(free=0 if Path(folder).name == full else 1 << 40)
    )
    key = {"run": "out", "cache": "cache.dir"}[full]
    with pytest.raises(RunError, match=rf"^{key}=.*: the disk is full \(0 MiB are free\): make room there"):
        look_at_places(config(tmp_path))


def test_a_cache_that_cannot_be_written_names_the_mode_that_only_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(UsageError, match=r"cache\.dir=.*Read-only file system \(.*cache\.mode=preprocessed_only"):
        look_at_cache(CacheConfig(dir=str(tmp_path)))
    look_at_cache(CacheConfig(dir=str(tmp_path), mode="preprocessed_only"))
