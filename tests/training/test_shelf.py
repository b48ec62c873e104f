"""Which checkpoints stay, and which one a run goes on from; each case is one that trainers got wrong in public."""

from __future__ import annotations

from pathlib import Path

import pytest

from easyvideor1.errors import RunError
from easyvideor1.training import manifest, shelf


def made(folder: Path, step: int) -> Path:
    """A checkpoint of one file."""
    path = folder / shelf.name_of(step)
    path.mkdir(parents=True)
    (path / "state.json").write_text(f'{{"step": {step}}}')
    manifest.seal(path, {})
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_is_so_by_its_number_and_not_by_its_name(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000, 9):
        made(tmp_path, step)
    newest = shelf.newest_whole(tmp_path)
    assert newest is not None
    assert newest.name == "step-1000000"
    shelf.prune(tmp_path, keep=2)
    assert names(tmp_path) == ["step-1000000", "step-999999"]


def test_keeping_one_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        made(tmp_path, step)
        if step == 2:
            shelf.mark_best(tmp_path / shelf.name_of(2))
        shelf.prune(tmp_path, keep=1)
    assert names(tmp_path) == ["best", "step-000003"]
    assert (tmp_path / "best" / "state.json").read_text() == '{"step": 2}'


def test_a_new_checkpoint_is_not_older_than_those_of_a_past_that_was_damaged(tmp_path: Path) -> None:
    for step in (1, 5, 6, 7):
        made(tmp_path, step)
    for step in (5, 6, 7):
        (tmp_path / shelf.name_of(step) / "state.json").write_text("{}")
    assert shelf.newest_whole(tmp_path) == tmp_path / shelf.name_of(1)
    made(tmp_path, 2)
    shelf.prune(tmp_path, keep=2)
    assert names(tmp_path) == ["step-000001", "step-000002"]


def test_a_best_checkpoint_that_is_gone_is_no_error_and_one_that_is_there_is_the_last_resort(tmp_path: Path) -> None:
    shelf.mark_best(made(tmp_path, 1))
    (tmp_path / shelf.name_of(1) / "state.json").unlink()
    assert shelf.newest_whole(tmp_path) == tmp_path / "best"
    (tmp_path / "best" / manifest.NAME).unlink()
    with pytest.raises(RunError, match=r"no checkpoint of this run is whole"):
        shelf.newest_whole(tmp_path)


def test_an_empty_folder_has_none_and_what_is_half_written_is_cleared(tmp_path: Path) -> None:
    made(tmp_path, 3).rename(tmp_path / f".{shelf.name_of(3)}{shelf.DRAFT}")
    assert shelf.newest_whole(tmp_path) is None
    assert names(tmp_path) == []
