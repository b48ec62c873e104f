"""Killable workers: every item gets an outcome, whatever one of them does to its process."""

import os
import signal
import subprocess
import sys
import time

import pytest

from easyvideor1.errors import MediaError
from easyvideor1.video.workers import Worker, naming, run_all


def behave(item):
    """What the item says: a number is doubled."""
    match item:
        case "hang":
            time.sleep(60)
        case "hang deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                pass
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "refuse":
            raise MediaError("no video stream", where="a.mp4")
        case "bug":
            raise ZeroDivisionError("oops")
    return item * 2 if isinstance(item, int) else item


@pytest.mark.timeout(90)
def test_every_item_has_one_outcome_whatever_the_others_do():
    items = [1, "crash", 2, "hang", 3, "refuse", "exit", 4, "bug", "hang deaf", 5]
    outcomes = {outcome.item: outcome for outcome in run_all(behave, items, workers=2, deadline_s=1.5)}
    assert set(outcomes) == set(items)
    assert [outcomes[number].result for number in range(1, 6)] == [2, 4, 6, 8, 10]
    errors = {item: str(outcome.error) for item, outcome in outcomes.items() if outcome.error}
    assert "not done within 1.5 s" in errors["hang"]
    assert "not done within 1.5 s" in errors["hang deaf"]
    assert f"signal {signal.SIGSEGV.value}" in errors["crash"]
    assert "exit code 7" in errors["exit"]
    assert errors["refuse"] == "a.mp4: no video stream"
    assert "unexpected ZeroDivisionError: oops" in errors["bug"]
    assert len(errors) == 6


def test_items_are_taken_only_when_a_worker_is_free():
    taken = []

    def items():
        for number in range(6):
            taken.append(number)
            yield number

    outcomes = run_all(behave, items(), workers=1, deadline_s=30)
    next(outcomes)
    assert len(taken) <= 2
    assert len(list(outcomes)) == 5


def test_stopping_early_leaves_no_process():
    outcomes = run_all(pid_of_worker, range(4), workers=2, deadline_s=30)
    pid = next(outcomes).result
    outcomes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def pid_of_worker(_) -> int:
    return os.getpid()


def test_a_call_past_its_deadline_kills_the_process():
    worker = Worker(behave)
    assert worker.call(21, deadline_s=30) == 42
    with pytest.raises(MediaError, match="killed"):
        worker.call("hang", deadline_s=0.2)
    assert not worker.is_alive


def assert_ends(pid: int) -> None:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the worker outlived its parent")


def test_workers_end_with_a_killed_parent():
    code = (
        "import time; from easyvideor1.video.workers import Worker\n"
        "if __name__ == '__main__':\n"
        "    worker = Worker(abs); worker.call(-1, deadline_s=30)\n"
        "    print(worker.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert_ends(pid)


def test_workers_end_with_a_killed_parent_even_in_an_endless_item():
    code = (
        "from easyvideor1.video.workers import Worker\n"
        "from test_workers import behave\n"
        "if __name__ == '__main__':\n"
        "    worker = Worker(behave); worker.call(1, deadline_s=30)\n"
        "    worker.send('hang deaf'); worker.receive(); print(worker.pid, flush=True); worker.receive()"
    )
    paths = os.environ | {"PYTHONPATH": os.path.dirname(__file__)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=paths) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert_ends(pid)


def test_a_worker_that_died_while_idle_costs_no_item():
    def items():
        yield 1
        yield 2
        os.kill(pids.pop(), signal.SIGKILL)
        time.sleep(0.2)
        yield 3

    pids = []
    outcomes = run_all(pid_of_worker, items(), workers=1, deadline_s=30)
    for outcome in outcomes:
        assert outcome.error is None
        pids = [outcome.result]


def test_sending_to_a_dead_worker_is_told_when_its_answer_is_due():
    worker = Worker(behave)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    while worker.is_alive:
        time.sleep(0.01)
    worker.send("x" * 1_000_000)
    with pytest.raises(MediaError, match="died"):
        worker.receive()


def test_an_error_without_a_place_gets_the_name_and_others_keep_theirs():
    named = naming(MediaError("killed", remedy="wait"), "a.mp4")
    assert str(named) == "a.mp4: killed (wait)"
    assert str(naming(MediaError("bad", where="b.mp4"), "a.mp4")) == "b.mp4: bad"
