"""Functions in a fork: whatever they do, this process goes on."""

import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from easyvideor1.errors import DataError, JobDied, JobError, JobOutOfMemory, JobTimeout
from easyvideor1.rewards.child import in_child, in_time


def test_a_result_comes_back_however_long_it_is():
    assert in_child(lambda: {"text": "x" * 1_000_000}, limit_s=60) == {"text": "x" * 1_000_000}


def test_a_function_that_never_ends_is_killed_and_nothing_stays_behind():
    started, before = time.monotonic(), children()
    with pytest.raises(JobTimeout, match=r"not done within 0\.2 s"):
        in_child(forever, limit_s=0.2)
    assert time.monotonic() - started < 30
    assert children() == before


def children() -> list[str]:
    """Processes that this thread started; those of other tests may be among them."""
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()


def forever() -> None:
    while True:
        pass


def test_a_crash_is_told_with_its_signal():
    with pytest.raises(JobDied, match="signal 9"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), limit_s=60)


def test_errors_cross_over_as_what_they_are():
    with pytest.raises(DataError, match="rows:3: bad"):
        in_child(lambda: fail(DataError("bad", where="rows:3")), limit_s=60)
    with pytest.raises(JobError, match="unexpected KeyError: 'x'"):
        in_child(lambda: fail(KeyError("x")), limit_s=60)
    with pytest.raises(JobOutOfMemory):
        in_child(greedy, limit_s=60)


def test_python_code_that_never_ends_is_interrupted():
    assert in_time(lambda: 5, limit_s=60) == 5
    for _ in range(3):
        with pytest.raises(JobTimeout, match=r"not done within 0\.1 s"):
            in_time(forever, limit_s=0.1)
    with pytest.raises(KeyError):
        in_time(lambda: fail(KeyError("x")), limit_s=60)
    with pytest.raises(JobTimeout):
        in_time(stubborn, limit_s=0.1)


def stubborn() -> None:
    while True:
        try:
            forever()
        except Exception:  # noqa: BLE001, S112 (an interruption is none)
            continue


def fail(error: Exception) -> None:
    raise error


def greedy() -> int:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    return len(bytearray(8 << 30))
