"""Untrusted programs run in a sandbox, each within a time limit: what they print, or what tests say of them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from easyvideor1.errors import DataError, JobDied, JobError, JobTimeout
from easyvideor1.sandbox.frames import MOST_BYTES, packed
from easyvideor1.sandbox.isolation import Isolation, readable_paths

PIECE_BYTES = 1 << 16
START_S = 10.0
"""Time for the process behind the walls to start and lock itself, which is none of a program's."""
END_WAIT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a program may use."""

    cpu_s: float
    """Processor time over all its runs."""
    wall_s: float
    """Wall time over all its runs."""
    memory_bytes: int
    """Address space of a process of it."""


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One run of a program that reads and prints."""

    output: str
    code: int
    """Exit code; negative: the signal that ended it."""
    is_cut: bool
    """The program printed too much, and was ended."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What tests that call a program say of it."""

    passed: bool
    why: str


class Sandbox:
    """Runs untrusted programs in a locked-down process, one after another; use it as a context manager.

    Its process starts with the first program. A program that takes too long, or breaks something, costs that process,
    and the next program gets a new one. Not safe to use from several threads.
    """

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._process: _Process | None = None

    @contextlib.contextmanager
    def printing(self, source: str, limits: Limits) -> Iterator[PrintingProgram]:
        """A program that can be run on one text after another, while the block lasts.

        Raises:
            DataError: the sandbox itself does not start.
        """
        with self._following({"kind": "printing", "program": source}, limits) as process:
            yield PrintingProgram(process)
            process.send({"input": None})

    def called(self, source: str, tests: str, entry_point: str, limits: Limits) -> Verdict:
        """Run tests, a Python program of assertions, that call a program.

        Args:
            entry_point: the name of the function that is tested, "" where the tests tell.

        Raises:
            DataError: the sandbox itself does not start.
            JobTimeout: it takes longer than it may.
            JobDied: the process behind the walls ended.
        """
        with self._following({"kind": "calling", "program": source}, limits) as process:
            process.send({"tests": tests, "entry_point": entry_point})
            report = process.receive()
            return Verdict(passed=report["passed"] is True, why=str(report["why"]))

    def close(self) -> None:
        """End whatever runs in there."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _following(self, order: dict[str, Any], limits: Limits) -> Iterator[_Process]:
        try:
            if self._process is None:
                self._process = _Process(self._isolation)
                self._process.start()
            self._process.limit(limits.wall_s)
            bounds = {"memory_bytes": limits.memory_bytes, "cpu_s": limits.cpu_s}
            self._process.send(order | bounds)
            yield self._process
        except BaseException:  # an interrupt too must not leave a program of unknown state to the next one
            self.close()
            raise


class PrintingProgram:
    """A program that is run anew for every text it is given."""

    def __init__(self, process: _Process) -> None:
        self._process = process

    def run(self, given: str) -> Printed:
        """What it prints for a text on standard input.

        Raises:
            JobTimeout: the time of all its runs is used up.
            JobDied: the process behind the walls ended.
        """
        self._process.send({"input": given})
        report = self._process.receive()
        return Printed(output=str(report["output"]), code=int(report["code"]), is_cut=bool(report["is_cut"]))


class _Process:
    """The process behind the walls, and messages to and from it within a time."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self.limit(START_S)
        self._process = subprocess.Popen(
            isolation.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0"},
            cwd="/",
            start_new_session=True,  # a group of its own, which nothing in it can leave, to be killed as a whole
            bufsize=0,
        )
        assert self._process.stdin is not None, "asked for above"
        assert self._process.stdout is not None, "asked for above"
        self._writer, self._reader = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._writer, False)

    def start(self) -> None:
        """Wait until the walls stand.

        Raises:
            DataError: they cannot be put up.
        """
        walls = {
            "landlock": self._isolation.landlock,
            "seccomp": self._isolation.seccomp,
            "may_open": self._isolation.may_open,
            "readable": readable_paths(),
        }
        try:
            self.send(walls)
            self.receive()
        except JobError as error:
            raise DataError(f"the sandbox did not start: {error.problem}") from None

    def limit(self, wall_s: float) -> None:
        """Let everything from now on take this time together."""
        self._wall_s = wall_s
        self._until_s = time.monotonic() + wall_s

    def send(self, message: object) -> None:
        rest = memoryview(packed(message))
        if len(rest) > MOST_BYTES:
            raise JobDied(f"a test of {len(rest)} bytes is too large for the sandbox")
        while rest:
            self._wait([], [self._writer])
            try:
                rest = rest[os.write(self._writer, rest[:PIECE_BYTES]) :]
            except BrokenPipeError:
                raise JobDied(f"the sandbox ended ({self._ending()})") from None

    def receive(self) -> dict[str, Any]:
        length = int.from_bytes(self._exactly(4), "little")
        report = json.loads(self._exactly(length))
        if "is_late" in report:
            raise JobTimeout("it used up its processor time", remedy="raise the deadline")
        return report

    def end(self) -> None:
        """Let the process end what runs in it, and itself; kill it with all its group where it does not."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(END_WAIT_S)

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            self._wait([self._reader], [])
            part = os.read(self._reader, min(count, PIECE_BYTES))
            if not part:
                raise JobDied(f"the sandbox ended ({self._ending()})")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _wait(self, readers: list[int], writers: list[int]) -> None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0 or not any(select.select(readers, writers, [], left_s)):
            raise JobTimeout(f"not done within {self._wall_s:.3g} s", remedy="raise the deadline")

    def _ending(self) -> str:
        try:
            code = self._process.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            return "it closed its pipe"
        return f"signal {-code}" if code < 0 else f"exit code {code}"
