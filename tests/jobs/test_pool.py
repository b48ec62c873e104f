"""Killable workers: every item gets an outcome, whatever one of them does to its process."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.behaviours import behave, pid_of_worker
from support.values import present

from easyvideor1.errors import JobDied, JobTimeout, MediaError, RunError
from easyvideor1.jobs.pool import Pool, naming, run_all
from easyvideor1.jobs.worker import Worker


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
        os.kill(present(pid), 0)


def test_a_call_past_its_deadline_kills_the_process():
    worker = Worker(behave)
    assert worker.call(21, deadline_s=30) == 42
    with pytest.raises(JobTimeout, match="killed"):
        worker.call("hang", deadline_s=0.2)
    assert not worker.is_alive


def assert_ends(pid: int) -> None:
    for _ in range(100):
        try:
            os.kill(present(pid), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the worker outlived its parent")


def test_workers_end_with_a_killed_parent():
    code = (
        "import time; from easyvideor1.jobs.worker import Worker\n"
        "worker = Worker(abs); worker.call(-1, deadline_s=30)\n"
        "print(worker.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert_ends(pid)


def test_workers_end_with_a_killed_parent_even_in_an_endless_item():
    code = (
        "from easyvideor1.jobs.worker import Worker\n"
        "from support.behaviours import behave\n"
        "worker = Worker(behave); worker.call(1, deadline_s=30)\n"
        "worker.send('hang deaf', deadline_s=30); worker.receive(); print(worker.pid, flush=True); worker.receive()"
    )
    paths = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=paths) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert_ends(pid)


def test_a_worker_that_died_while_idle_costs_no_item():
    def items():
        yield 1
        yield 2
        os.kill(present(pids.pop()), signal.SIGKILL)
        time.sleep(0.2)
        yield 3

    pids = []
    outcomes = run_all(pid_of_worker, items(), workers=1, deadline_s=30)
    for outcome in outcomes:
        assert outcome.error is None
        pids = [outcome.result]


def test_sending_to_a_dead_worker_is_told_when_its_answer_is_due():
    worker = Worker(behave)
    assert worker.call(1, deadline_s=30) == 2
    os.kill(worker.pid, signal.SIGKILL)
    while worker.is_alive:
        time.sleep(0.01)
    worker.send("x" * 1_000_000, deadline_s=30)
    with pytest.raises(JobDied, match=r"died \(signal 9\)"):
        worker.receive()


def test_an_error_without_a_place_gets_the_name_and_others_keep_theirs():
    named = naming(MediaError("killed", remedy="wait"), "a.mp4")
    assert str(named) == "a.mp4: killed (wait)"
    assert str(naming(MediaError("bad", where="b.mp4"), "a.mp4")) == "b.mp4: bad"


def test_a_process_that_ends_before_it_is_ready_names_how():
    worker = Worker(behave)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RunError, match=r"before it was ready \(signal 9\)"):
        worker.call(1, deadline_s=30)


def test_a_function_that_cannot_be_imported_is_told():
    class Unimportable:
        def __reduce__(self):
            return (__import__, ("no_such_module_anywhere",))

        def __call__(self, item):
            return item

    with (
        Pool(Unimportable(), workers=1, deadline_s=30) as pool,
        pytest.raises(RunError, match="no_such_module_anywhere"),
    ):
        pool.call(1)


def test_a_script_without_a_main_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from easyvideor1.jobs.pool import run_all\n"
        "print('once')\n"
        "print([outcome.result for outcome in run_all(abs, [-3], workers=1, deadline_s=30)])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "once\n[3]\n"


def test_an_interrupted_item_does_not_answer_the_next_one():
    with Pool(behave, workers=1, deadline_s=30) as pool:
        outcomes = pool.run(["hang"])
        worker_is_busy = pool.run([1])
        threading.Timer(1.0, lambda: signal.raise_signal(signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            next(outcomes)
        assert next(worker_is_busy).result == 2


def test_a_process_is_replaced_after_its_number_of_items():
    with Pool(pid_of_worker, workers=1, deadline_s=30, recycle_after=2) as pool:
        pids = [pool.call(None) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_memory_beyond_the_limit_costs_the_item_and_not_the_process():
    with Pool(behave, workers=1, deadline_s=30, memory_bytes=1 << 30) as pool:
        first, second = pool.run(["memory", 4])
    assert "not enough memory" in str(first.error)
    assert second.result == 8
