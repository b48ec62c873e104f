"""Locks are files of their own: private, and never what somebody has put in their place."""

import logging
import os
import stat

import pytest

from easyvideor1.errors import RunError
from easyvideor1.jobs import locks
from easyvideor1.jobs.locks import held, locked


def test_a_lock_is_private_and_gone_afterwards(tmp_path):
    path = tmp_path / "locks" / "a"
    with locked(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert str(os.getpid()) in path.read_text()
    assert not path.exists()


@pytest.mark.parametrize("lock", [locked, lambda path: held(path, holder="me")], ids=["locked", "held"])
def test_a_link_is_not_followed(lock, tmp_path):
    target, path = tmp_path / "precious", tmp_path / "locks" / "a"
    target.write_text("keep me")
    path.parent.mkdir()
    path.symlink_to(target)
    with pytest.raises((RunError, OSError), match=r"a is a link|Too many levels"), lock(path):
        pass
    assert target.read_text() == "keep me"
    path.unlink()
    path.symlink_to(tmp_path / "not there")
    with pytest.raises((RunError, OSError)), lock(path):
        pass
    assert not (tmp_path / "not there").exists()


@pytest.mark.parametrize("lock", [locked, lambda path: held(path, holder="me")], ids=["locked", "held"])
def test_a_file_that_has_another_name_is_not_written(lock, tmp_path):
    target, path = tmp_path / "precious", tmp_path / "a"
    target.write_text("keep me")
    path.hardlink_to(target)
    with pytest.raises((RunError, OSError), match="something else stands in its place"), lock(path):
        pass
    assert target.read_text() == "keep me"


@pytest.mark.timeout(20)
def test_a_pipe_or_a_folder_in_its_place_is_named_and_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, says in (("pipe", "something else stands in its place"), ("folder", "Is a directory")):
        with pytest.raises(RunError, match=rf"cannot make a lock file: {says}"), locked(tmp_path / name):
            pass


def test_a_lock_left_by_another_user_stops_nobody(tmp_path, monkeypatch, caplog):
    path = tmp_path / "a"
    path.write_text("host 1\n")
    path.chmod(0o600)
    real_open = os.open

    def refuse(name, *args, **options):
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied")
        return real_open(name, *args, **options)

    monkeypatch.setattr(locks.os, "open", refuse)
    with pytest.raises(RunError, match="Permission denied"), locked(path):
        pass  # it is our own: something else is wrong
    monkeypatch.setattr(locks.os, "geteuid", lambda: os.getuid() + 1)
    with caplog.at_level(logging.WARNING), locked(path):
        pass
    assert "a lock of another user" in caplog.text
    assert path.exists()
