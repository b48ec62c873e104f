"""A run that is killed outright at random moments and restarted equals one that was never killed."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest
from support.small_run import environment
from support.warm_start import WarmProcess

from easyvideor1.cli import main
from perf import kills

WHEN_ASKED = pytest.mark.skipif("not config.getoption('markexpr')", reason="takes minutes: run it with -m slow")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("processes", ["1", pytest.param("2", marks=WHEN_ASKED), pytest.param("1 2", marks=WHEN_ASKED)])
def test_four_kills_at_random_moments_change_nothing(processes: str) -> None:
    words = ["--kills", "4", "--steps", "12", "--seed", "1", "--processes", *processes.split()]
    result = kills.main(words, begin=_warm if processes == "1" else kills.start)
    assert result["equal"]
    assert (result["kills"], result["damaged"]) == (4, 0)


def _warm(words: list[str], processes: int, file: IO[str]) -> WarmProcess:
    assert processes == 1
    return WarmProcess(main, words[2:], env=environment(), output=Path(file.name))
