"""Processes of their own that start at once: forked from one that has imported what a run needs.

An interpreter that imports torch and Transformers takes five seconds of CPU; tests of a few seconds start dozens.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from easyvideor1.cli import main
from easyvideor1.jobs import worker
from support.warm_workers import WORKERS, WarmWorkers

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "easyvideor1.cli.train",
        "easyvideor1.runs.training",
        "easyvideor1.runs.evaluating",
        "tests.support.warm_imports",  # looked for from the working folder: it does not get this process's paths
    ]
)


class WarmProcess:
    """A function in a process of its own; used like `subprocess.Popen` with pipes and text."""

    def __init__(
        self, function: Callable[..., Any], *args: Any, env: Mapping[str, str], output: Path | None = None
    ) -> None:
        """
        Args:
            function: of a module that can be imported; what it returns is the exit code.
            env: its whole environment. What Python reads at its start (PYTHONPATH) has no effect.
            output: file that all it says is added to; None: a file of its own for each stream.
        """
        self._folder = tempfile.TemporaryDirectory()
        self._output, self._errors = (Path(self._folder.name) / name for name in ("stdout", "stderr"))
        files = (str(output or self._output), str(output or self._errors))
        for file in files:
            Path(file).touch()  # it may be killed before it says anything
        # Its workers start as those of the test do.
        address = WORKERS.address if worker.subprocess is WORKERS else None
        self._process = CONTEXT.Process(target=_become, args=(function, args, dict(env), files, address))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, kind: object, error: object, trace: object, /) -> None:
        self._process.join()
        self._folder.cleanup()

    @property
    def returncode(self) -> int | None:
        """Negative: the signal that ended it; None: it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutError(f"it did not end within {timeout} s")
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Its output and errors when it has ended.

        Raises:
            TimeoutError: it did not end in time; it is killed.
        """
        self._process.join(timeout)
        if self.returncode is None:
            self.kill()
            self._process.join()
            raise TimeoutError(f"it did not end within {timeout} s: {self._errors.read_text()[-3000:]}")
        return self._output.read_text(), self._errors.read_text()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def warm_command(*words: str, env: Mapping[str, str]) -> WarmProcess:
    """The command line in a process of its own."""
    return WarmProcess(main, list(words), env=env)


def with_small_files(num_bytes: int, words: Sequence[str]) -> int:
    """The command line in a process that may write no file of more bytes, as a quota would have it."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))
    return main(words)


def _become(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    env: dict[str, str],
    files: tuple[str, str],
    address: str | None,
) -> None:
    if address is not None:
        worker.subprocess = WarmWorkers(address)  # pyright: ignore[reportAttributeAccessIssue]
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(function(*args))
