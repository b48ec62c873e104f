"""Python answers run by a command of the user's."""

import sys

import pytest

from easyvideor1.rewards.pool import RewardPool
from easyvideor1.types import Sample

# Stands for a container: it checks that the program defines `f`, without running it.
COMMAND = "import json, sys; print('log'); print(float('def f' in json.load(sys.stdin)['code']))"
SAMPLE = Sample(id="s", problem_type="python", problem="Write f.", gold="def f(): pass")


def judge(command: str, *texts: str, deadline_s: float = 10.0) -> list[tuple[float | None, str]]:
    with RewardPool(sandbox=[sys.executable, "-c", command], deadline_s=deadline_s, workers=1) as pool:
        return [(score.parts.get("accuracy"), score.reason) for score in pool.score([(SAMPLE, text) for text in texts])]


def test_the_last_line_of_the_command_is_the_accuracy():
    results = judge(COMMAND, "<answer>```python\ndef f(): return 1\n```</answer>", "<answer>x = 1</answer>", "no tag")
    assert [accuracy for accuracy, _ in results] == [1, 0, 0]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("raise SystemExit(3)", "sandbox: CalledProcessError"),
        ("print('fine')", "sandbox: ValueError"),
        ("pass", "sandbox: IndexError"),
        ("print(7)", "must be a number in"),
        ("import time; time.sleep(60)", "sandbox: TimeoutExpired"),
    ],
)
def test_a_command_that_fails_leaves_the_answer_unscored(command, reason):
    ((accuracy, found),) = judge(command, "<answer>def f(): pass</answer>", deadline_s=2.0)
    assert accuracy is None
    assert reason in found
