"""What running a Python answer in the sandbox costs, behind each kind of wall that holds here, and without any.

python -m perf.sandbox [--answers 30] [--runs 10]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping

from easyvideor1.rewards.code_tests import CodeTests
from easyvideor1.rewards.code_trial import tried
from easyvideor1.sandbox.probe import LIMITS, candidates, why_not
from easyvideor1.sandbox.runs import Sandbox

PRINTS = "print(sum(map(int, input().split())))"
DEFINES = "def add(a, b): return a + b"


def cpu_s() -> float:
    """Of this process and of all those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def cost_ms(work: Callable[[], object]) -> float:
    """Milliseconds of a core; work in a sandbox counts once that has ended, so this does it in one of its own."""
    started = cpu_s()
    work()
    return 1000 * (cpu_s() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=30, help="answers of each kind")
    parser.add_argument("--runs", type=int, default=10, help="texts that an answer with many tests is given")
    args = parser.parse_args()
    pair = ("2 3\n", "5\n")
    kinds: Mapping[str, tuple[str, CodeTests]] = {
        "one_text": (PRINTS, CodeTests(pairs=(pair,))),
        f"{args.runs}_texts": (PRINTS, CodeTests(pairs=(pair,) * args.runs)),
        "one_assertion": (DEFINES, CodeTests(assertions="assert add(2, 3) == 5", entry_point="add")),
    }

    def alone() -> None:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", PRINTS], input=pair[0], text=True, check=True, capture_output=True
        )

    walls = [isolation for isolation in candidates() if why_not(isolation) is None]
    found: dict[str, list[float]] = {}
    for _ in range(3):  # in turn, so that a busy machine is busy for all of them
        found.setdefault("an interpreter of its own, no walls, one_text", []).append(cost_ms(alone))
        for isolation in walls:
            for name, (source, tests) in kinds.items():

                def answers(number: int, source: str = source, tests: CodeTests = tests) -> None:
                    with Sandbox(isolation) as sandbox:  # noqa: B023 - called in this round only
                        for _ in range(number):
                            assert tried(source, tests, sandbox, LIMITS)[0] == 1.0

                start_ms = cost_ms(lambda: answers(1))
                all_ms = cost_ms(lambda: answers(1 + args.answers))
                found.setdefault(f"{isolation.text}: {name}", []).append((all_ms - start_ms) / args.answers)
                found.setdefault(f"{isolation.text}: start", []).append(start_ms)
    for name, costs in found.items():
        print(f"{statistics.median(costs):8.1f} ms of a core  {name}")
    print(json.dumps({name: round(statistics.median(costs), 2) for name, costs in found.items()}))


if __name__ == "__main__":
    main()
