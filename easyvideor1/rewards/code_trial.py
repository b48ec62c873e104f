"""A Python answer run on the tests of its row, behind walls; all tests must pass."""

from __future__ import annotations

from easyvideor1.rewards.code_tests import CodeTests, same_text
from easyvideor1.sandbox.runs import Limits, Printed, Sandbox


def tried(source: str, tests: CodeTests, sandbox: Sandbox, limits: Limits) -> tuple[float, str]:
    """1 where a program passes every test, else 0 and the first that it does not.

    Args:
        limits: time for all tests together, and memory.

    Raises:
        DataError: the sandbox does not start.
        JobTimeout, JobDied: the program takes too long, or ends the sandbox.
    """
    if tests.assertions:
        verdict = sandbox.called(source, tests.assertions, tests.entry_point, limits)
        return float(verdict.passed), verdict.why
    with sandbox.printing(source, limits) as program:
        for number, (given, wanted) in enumerate(tests.pairs, 1):
            problem = _problem(program.run(given), wanted)
            if problem:
                return 0.0, f"test {number} of {len(tests.pairs)}: {problem}"
    return 1.0, ""


def _problem(printed: Printed, wanted: str) -> str:
    if printed.is_cut:
        return "the program prints too much"
    if printed.code:
        return f"the program ended with {_ending(printed.code)}"
    return "" if same_text(printed.output, wanted) else "the program prints something else"


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
