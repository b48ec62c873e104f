"""Where a run keeps what it tells about itself, and how those files begin."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import yaml

from easyvideor1 import __version__
from easyvideor1.config import RunConfig
from easyvideor1.config_tree import to_tree
from easyvideor1.errors import DataError


class RunFolder:
    """Names of the files in the folder of a run."""

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

    def note_bad(self, error: DataError) -> None:
        """Keep what is wrong with a sample that was skipped."""
        self.path.mkdir(parents=True, exist_ok=True)
        row = {"where": error.where, "field": error.field, "problem": error.problem, "remedy": error.remedy}
        with self.bad_samples.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def write_start(self, config: RunConfig) -> None:
        """Write the resolved configuration, and the command, commit and versions that use it."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.config.write_text(yaml.safe_dump(to_tree(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
        self.facts.write_text(json.dumps(run_facts(), indent=1) + "\n", encoding="utf-8")
        self.stopped.unlink(missing_ok=True)

    def note_stopped(self, reason: str) -> None:
        """Keep why the run ended before its last step; the next start forgets it."""
        self.stopped.write_text(reason + "\n", encoding="utf-8", errors="backslashreplace")


def run_facts() -> dict[str, str]:
    """What a reader needs to make the run again: command, commit, versions, machine, start (UTC)."""
    return {
        "command": _command(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
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
