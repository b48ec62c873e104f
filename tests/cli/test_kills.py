"""A run that is killed outright at random moments and restarted equals one that was never killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.small_run import environment


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("processes", ["1", "2", "1 2"])
def test_four_kills_at_random_moments_change_nothing(processes: str) -> None:
    command = [sys.executable, "-m", "perf.kills", "--kills", "4", "--steps", "12", "--seed", "1"]
    command += ["--processes", *processes.split()]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env=environment(), capture_output=True, text=True, timeout=880
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["equal"]
    assert (result["kills"], result["damaged"]) == (4, 0)
