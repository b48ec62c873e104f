"""Hostile programs behind the walls that hold on this machine: they harm nothing, are worth 0, and leave nothing."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.hostile_programs import CALLED, ENDLESS, HONEST_CALLED, HONEST_PRINTING, PRINTING

from easyvideor1.errors import JobError, JobTimeout
from easyvideor1.rewards.code_tests import CodeTests
from easyvideor1.rewards.code_trial import tried
from easyvideor1.sandbox.isolation import Isolation
from easyvideor1.sandbox.probe import candidates, isolation_here, why_not
from easyvideor1.sandbox.runs import Limits, Sandbox

PR_SET_CHILD_SUBREAPER = 36
PLACES = 3
"""Sandboxes at work at once."""
SUM = CodeTests(pairs=(("2 3\n", "5\n"),))
ADDS = CodeTests(assertions="assert add(2, 3) == 5\n", entry_point="add")
COMPARES = CodeTests(assertions="assert abs(add(2, 3) - 5) < 1e-9 and math.isclose(add(2, 3), 5)\n")
LIMITS = Limits(cpu_s=20.0, wall_s=60.0, memory_bytes=256 << 20)
SHORT = Limits(cpu_s=0.2, wall_s=0.6, memory_bytes=256 << 20)


@dataclass(frozen=True)
class Place:
    """What hostile programs go for."""

    folder: Path
    secret: Path
    places: Mapping[str, object]
    listener: socket.socket
    local: socket.socket

    def is_untouched(self) -> bool:
        names = sorted(path.name for path in self.folder.iterdir())
        return (
            names == ["secret", "socket"] and self.secret.read_text() == "5" and self.secret.stat().st_mode & 0o777 != 0
        )

    def was_called(self) -> bool:
        for one in (self.listener, self.local):
            one.setblocking(False)
            try:
                one.accept() if one is self.listener else one.recv(1)
            except BlockingIOError:
                continue
            return True
        return False


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    secret = tmp_path / "secret"
    secret.write_text("5")
    listener, local = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with listener, local:
        local.bind(str(tmp_path / "socket"))
        places = {
            "secret": str(secret),
            "target": str(tmp_path / "target"),
            "socket": str(tmp_path / "socket"),
            "port": listener.getsockname()[1],
        }
        yield Place(tmp_path, secret, places, listener, local)


@pytest.fixture
def strays() -> Iterator[None]:
    """Fails the test where a process is left, wherever it hangs in the tree: what loses its parent becomes ours."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = children()
    yield
    until_s = time.monotonic() + 5.0
    while children() - before and time.monotonic() < until_s:
        time.sleep(0.05)
    left = children() - before
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes()[-200:] for pid in left]


def children() -> set[int]:
    """Processes whose parent is this one, dead ones that nobody waited for included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == os.getpid():
            found.add(int(path.parent.name))
    return found


def trial(source: str, tests: CodeTests, sandbox: Sandbox, limits: Limits = LIMITS) -> tuple[float, str]:
    try:
        return tried(source, tests, sandbox, limits)
    except JobTimeout:
        return 0.0, "late"
    except JobError as error:
        return 0.0, f"ended: {error.problem}"


def trials(
    programs: Mapping[str, str], tests: CodeTests, isolation: Isolation, limits: Limits = LIMITS
) -> dict[str, tuple[float, str]]:
    def some(names: Sequence[str]) -> dict[str, tuple[float, str]]:
        with Sandbox(isolation) as sandbox:
            return {name: trial(programs[name], tests, sandbox, limits) for name in names}

    names = list(programs)
    with ThreadPoolExecutor(PLACES) as threads:
        found = list(threads.map(some, [names[place::PLACES] for place in range(PLACES)]))
    return {name: result for part in found for name, result in part.items()}


def all_harmless(isolation: Isolation, place: Place) -> None:
    printing = {name: source.format(**place.places) for name, source in PRINTING.items()}
    called = {name: source.format(**place.places) for name, source in CALLED.items()}
    found = trials(printing, SUM, isolation)
    found |= trials(called, ADDS, isolation)
    found |= trials({"patches, compared": called["patches what compares"]}, COMPARES, isolation)
    worth = {name: reason for name, (value, reason) in found.items() if value}
    assert not worth
    late = [name for name, (_, reason) in found.items() if reason == "late"]
    assert not late
    endless = trials(ENDLESS, SUM, isolation, SHORT)
    assert {reason for _, reason in endless.values()} == {"late"}, endless
    assert place.is_untouched()
    assert not place.was_called()


def all_score(isolation: Isolation) -> None:
    found = trials(HONEST_PRINTING, SUM, isolation) | trials(HONEST_CALLED, ADDS, isolation)
    found |= trials(HONEST_CALLED, CodeTests(assertions=COMPARES.assertions, entry_point="add"), isolation)
    assert {name: reason for name, (value, reason) in found.items() if value != 1} == {}


def test_hostile_programs_harm_nothing_are_worth_0_and_leave_nothing(place, strays, caplog):
    with caplog.at_level("INFO", logger="easyvideor1"):
        isolation = isolation_here()
    assert isolation.seccomp
    assert f"Python answers run behind {isolation.text}" in caplog.text
    all_harmless(isolation, place)


def test_honest_programs_are_worth_1(strays):
    all_score(isolation_here())


KILLED = """
from easyvideor1.sandbox.probe import LIMITS, isolation_here
from easyvideor1.sandbox.runs import Sandbox
with Sandbox(isolation_here()).printing("while True: pass", LIMITS) as program:
    print("runs", flush=True)
    program.run("")
"""


def test_programs_end_with_a_process_that_is_killed_while_it_waits_for_them(strays):
    before = children()
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        time.sleep(0.1)
        process.kill()
    until_s = time.monotonic() + 10.0
    while children() - before and time.monotonic() < until_s:
        for pid in children() - before:  # in the place of the system's first process, who inherits orphans
            os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes a minute; run with -m slow")
@pytest.mark.parametrize("number", range(4))
def test_the_other_walls_hold_as_well(number, place, strays):
    isolation = [one for one in candidates() if one.seccomp][number:][:1]
    if not isolation or why_not(isolation[0]):
        pytest.skip("these walls do not hold on this machine")
    all_harmless(isolation[0], place)
    if isolation[0].may_open:
        all_score(isolation[0])


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes a minute; run with -m slow")
def test_without_the_kernels_filter_processes_memory_and_output_are_limited(place, strays):
    weak = candidates()[-1]
    assert not weak.seccomp
    names = ("forks", "fills memory", "becomes a daemon", "starts threads", "starts a pool", "prints without end")
    found = trials({name: PRINTING[name] for name in names}, SUM, weak)
    assert [value for value, _ in found.values()] == [0.0] * len(names)
    with Sandbox(weak) as sandbox:
        assert trial(HONEST_PRINTING["prints"], SUM, sandbox) == (1.0, "")
        assert trial(HONEST_CALLED["adds"], ADDS, sandbox) == (1.0, "")
        assert trial(CALLED["equals everything"], ADDS, sandbox)[0] == 0
