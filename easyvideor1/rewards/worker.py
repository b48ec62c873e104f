"""A process that judges responses, one JSON line in and one out; the pool starts, watches and kills it.

It is a program of its own rather than a multiprocessing child, so that it never imports the caller's main module
(and with it torch), and so that no lock of the caller is ever inherited.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

from easyvideor1.rewards.registry import REGISTRY, register_places
from easyvideor1.rewards.router import score, warm_up
from easyvideor1.rewards.sandbox import sandbox_reward
from easyvideor1.rewards.wire import read_item, write_score
from easyvideor1.types import Score


def main() -> int:
    """Serve until the input ends."""
    source = os.fdopen(0, encoding="utf-8", newline="\n")
    # Reward functions may print; that must not end up between the answers.
    sink = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - stays open for the life of the process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    settings = json.loads(source.readline())
    _limit(memory_bytes=settings["memory_bytes"])
    register_places(rewards=settings["rewards"], parts=settings["parts"])
    if settings["sandbox"]:
        # A little less than the deadline, so that the command is ended too and not only this process.
        REGISTRY.rewards["python code"] = sandbox_reward(settings["sandbox"], timeout_s=0.9 * settings["deadline_s"])
    for problem_type in settings["warm_up"]:
        warm_up(problem_type)
    _send(sink, {"ready": os.getpid()})
    for line in source:
        message = json.loads(line)
        if "warm_up" in message:
            warm_up(message["warm_up"])
            _send(sink, {"ready": os.getpid()})
            continue
        # A worker whose parent is gone and that hangs must end too: the default action of this signal ends it.
        signal.setitimer(signal.ITIMER_REAL, 2 * settings["deadline_s"] + 1)
        started = time.monotonic()
        result = _judged(message, settings)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _send(sink, {"number": message["number"], "score": write_score(result), "wall_s": time.monotonic() - started})
    return 0


def _judged(message: dict[str, Any], settings: dict[str, Any]) -> Score:
    sample, text, overlong = read_item(message["item"])
    try:
        return score(sample, text, weights=settings["weights"], thinking=settings["thinking"], overlong=overlong)
    except Exception as error:  # noqa: BLE001 - a reward may fail in any way; the score says so and is not counted as 0
        return Score.unscored(f"{type(error).__name__}: {error}"[:500])


def _limit(*, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def _send(sink: Any, message: dict[str, Any]) -> None:
    sink.write(json.dumps(message) + "\n")
    sink.flush()


if __name__ == "__main__":
    sys.exit(main())
