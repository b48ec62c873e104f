"""The folder of a run: names of its files, who may write them, and the records written at the start."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from easyvideor1 import __version__
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import absolute, to_tree
from easyvideor1.config_yaml import dump_yaml
from easyvideor1.errors import DataError, UsageError
from easyvideor1.jobs.locks import Held, held
from easyvideor1.records.drafts import reason

REPORT_MARK = b"easyvideor1 report</title>"
"""In the head of every report that this package writes, and of no other page."""
REPORT_HEAD_BYTES = 4096


RESERVE_BYTES = 64 << 10
log = logging.getLogger(__name__)


class RunFolder:
    """Names of the files in the folder of a run, and who may write them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = self.path / "metrics.jsonl"
        self.validation = self.path / "validation.jsonl"
        self.rollouts = self.path / "rollouts"
        self.bad_samples = self.path / "bad_samples.jsonl"
        self.config = self.path / "config.yaml"
        self.facts = self.path / "run.json"
        self.stopped = self.path / "stopped.txt"
        self.report = self.path / "report.html"
        self.checkpoints = self.path / "checkpoints"
        self.log = self.path / "log.txt"
        self.lock = self.path / ".lock"
        self.data = self.path / "data.safetensors"
        """What the rows and media of the run were."""
        self.stalled = self.path / "stalled.txt"
        self.reserve = self.path / ".reserve"
        """Room for `stopped` on a full disk."""

    def log_of(self, rank: int) -> Path:
        """The log of a rank; the first writes the one that people read."""
        return self.path / f"log.{rank}.txt" if rank else self.log

    def stalled_of(self, rank: int) -> Path:
        """Where a process of the run writes its stacks if it does not move any more."""
        return self.stalled if rank == 0 else self.path / f"stalled-{rank}.txt"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Have the folder for this process alone; it is made, or it is empty, or it holds a run.

        Raises:
            UsageError: it holds something else, another process writes to it, or it cannot be written.
        """
        with ExitStack() as stack:
            was_there = True
            try:
                self._check_is_free()
                was_there = self.path.exists()
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(self.lock, holder=_this_process()))
                if not self.facts.exists():
                    self._write_facts()
            except Held as holder:
                raise UsageError(
                    f"{self.path}: another process writes to this run: {holder}. Wait for it or stop it, or choose "
                    "another `out`"
                ) from None
            except OSError as error:
                if not was_there:  # a folder that could not even say what it is
                    shutil.rmtree(self.path, ignore_errors=True)
                raise UsageError(f"{self.path}: cannot write the folder of the run: {reason(error)}") from None
            yield

    def check_report_is_own(self) -> None:
        """Make sure that writing the report replaces no page of somebody else.

        Raises:
            UsageError: a report.html stands there that this package did not write.
        """
        try:
            with self.report.open("rb") as file:
                is_own = REPORT_MARK in file.read(REPORT_HEAD_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"{self.report}: cannot be read: {reason(error)}") from None
        if not is_own:
            raise UsageError(
                f"{self.report} was not written by easyvideor1, and the report of the run would replace it; nothing "
                "was changed: move it away, or choose another folder"
            )

    def _check_is_free(self) -> None:
        if self.is_run():
            self.check_report_is_own()
            return
        if self.path.is_symlink() and not self.path.exists():
            raise UsageError(
                f"{self.path} is a link to {os.readlink(self.path)}, which is not there; make that folder, or choose "
                "another `out`"
            )
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise UsageError(f"{self.path} is a file; `out` names the folder of the run: choose another")
        foreign = sorted(item.name for item in self.path.iterdir() if item != self.lock)
        if foreign:
            raise UsageError(
                f"{self.path} is not empty and holds no run ({', '.join(foreign[:3])}{', ..' * (len(foreign) > 3)}); "
                "nothing of it was touched: choose another `out`"
            )

    def is_run(self) -> bool:
        """Whether a run of this package began here."""
        try:
            return "easyvideor1" in json.loads(self.facts.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):
            return False

    def _write_facts(self) -> None:
        self.facts.write_text(json.dumps(run_facts(), indent=1) + "\n", encoding="utf-8")

    def note_bad(self, error: DataError) -> None:
        """Keep what is wrong with a sample that was skipped."""
        row = {"where": error.where, "field": error.field, "problem": error.problem, "remedy": error.remedy}
        with self.bad_samples.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def write_start(self, config: RunConfig) -> None:
        """Write the resolved configuration, its paths whole, and the command, commit and versions that use it."""
        self.config.write_text(dump_yaml(to_tree(absolute(config))), encoding="utf-8")
        self._write_facts()
        self.reserve.write_bytes(bytes(RESERVE_BYTES))
        self.stopped.unlink(missing_ok=True)
        self.stalled.unlink(missing_ok=True)

    def note_stopped(self, reason: str) -> None:
        """Keep why the run ended before its last step; the next start forgets it."""
        try:
            self._write_stopped(reason)
        except OSError:  # the disk may be full: there is room for this
            self.reserve.unlink(missing_ok=True)
            try:
                self._write_stopped(reason)
            except OSError as error:
                log.warning("%s: cannot be written: %s", self.stopped, error.strerror)

    def _write_stopped(self, reason: str) -> None:
        self.stopped.write_text(reason + "\n", encoding="utf-8", errors="backslashreplace")


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}, started {_now()}: {_command()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def run_facts() -> dict[str, str]:
    """The facts that a reader needs to make the run again: command, commit, versions, machine, start (UTC)."""
    return {
        "command": _command(),
        "started": _now(),
        "easyvideor1": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "transformers": _version("transformers"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def _command() -> str:
    program = Path(sys.argv[0]).name
    words = ["python", "-m", "easyvideor1"] if program == "__main__.py" else [program]
    return shlex.join([*words, *sys.argv[1:]])


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of the source tree the package runs from; "unknown" for an installed package or without git."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
