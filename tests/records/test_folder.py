"""A run's folder belongs to one process, and nothing foreign in it is touched."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from easyvideor1.errors import UsageError
from easyvideor1.records.folder import RunFolder


def claim(folder: Path) -> None:
    with RunFolder(folder).claimed():
        pass


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_an_empty_folder_or_none_becomes_a_run_and_a_run_goes_on(tmp_path):
    for _ in range(2):
        with RunFolder(tmp_path / "deep" / "run").claimed():
            pass
    with RunFolder(tmp_path / "deep" / "run").claimed():
        (tmp_path / "deep" / "run" / "metrics.jsonl").write_text("{}\n")
    with RunFolder(tmp_path / "deep" / "run").claimed():
        pass


@pytest.mark.parametrize("name", ["recipe.yaml", "config.yaml", "report.html", "train.jsonl", "run.json", "data/a.mp4"])
def test_a_folder_that_holds_something_else_is_refused_and_left_as_it_is(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"steps": 3}')
    before = digests(tmp_path)
    with pytest.raises(UsageError, match=rf"holds no run \({name.split('/')[0]}\).*choose another `out`"):
        claim(tmp_path)
    assert digests(tmp_path) == before


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        claim(tmp_path / "run")


def test_a_link_to_nowhere_in_the_place_of_the_folder_is_named_and_one_to_a_folder_is_followed(tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "purged")
    with pytest.raises(UsageError, match=r"run is a link to .*purged, which is not there; make that folder"):
        claim(tmp_path / "run")
    (tmp_path / "purged").mkdir()
    claim(tmp_path / "run")
    assert (tmp_path / "run").is_symlink()
    assert RunFolder(tmp_path / "purged").is_run()


@pytest.mark.parametrize("was_there", [True, False])
def test_a_disk_that_is_full_at_once_leaves_no_half_made_folder(tmp_path, monkeypatch, was_there):
    folder = tmp_path / "run"
    if was_there:
        folder.mkdir()

    def fail(path, *args, **options):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(UsageError, match=r"No space left on device \(make room there, or choose another place\)"):
        claim(folder)
    assert folder.exists() == was_there


HOLDER = """
import sys
from easyvideor1.records.folder import RunFolder
with RunFolder(sys.argv[1]).claimed():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_has_the_folder_and_a_dead_one_has_none(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        before = digests(tmp_path / "run")
        with pytest.raises(UsageError, match=rf"another process writes to this run: process {other.pid} on "):
            claim(tmp_path / "run")
        assert digests(tmp_path / "run") == before
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
    with RunFolder(tmp_path / "run").claimed():
        pass


def test_the_lock_does_not_follow_a_link(tmp_path):
    (tmp_path / "precious.txt").write_text("keep me")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "precious.txt")
    with pytest.raises(UsageError, match="cannot write the folder"):
        claim(tmp_path / "run")
    assert (tmp_path / "precious.txt").read_text() == "keep me"
