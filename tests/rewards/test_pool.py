"""Killable workers: a response that hangs, crashes or eats memory costs itself and nothing else."""

import logging
import math
import os
import subprocess
import sys
import time

import pytest

from easyvideor1.config_reward import RewardConfig
from easyvideor1.errors import DataError, JobError, UsageError
from easyvideor1.jobs.pool import Outcome
from easyvideor1.jobs.worker import Worker
from easyvideor1.rewards import budget, router
from easyvideor1.rewards.pool import RewardPool
from easyvideor1.rewards.registry import REGISTRY
from easyvideor1.types import Sample, Score

OWN = """
import os, signal, time
from easyvideor1.types import Score

def behave(sample, text):
    print("reward functions may print")
    if text == "hang":
        while True:
            pass
    if text == "tick":
        with open(sample.gold, "ab", buffering=0) as file:
            file.write(b".")
        return Score(value=1.0)
    if text.startswith("wait for"):
        while os.path.getsize(sample.gold) < int(text.split()[-1]):
            time.sleep(0.05)
        return Score(value=1.0)
    if text == "sleep":
        time.sleep(60)
    if text == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if text == "memory":
        return bytearray(8 * 1024**3)
    if text == "raise":
        raise KeyError("a bug in the reward")
    if text == "nan":
        return Score(value=float("nan"))
    if text == "pid":
        return Score(value=0.0, parsed=str(os.getpid()))
    if text == "torch":
        import sys
        return Score(value=float("torch" in sys.modules))
    return Score(value=float(text == sample.gold), parsed=text)

def brevity(sample, text):
    return 1 / (1 + len(text))
"""


@pytest.fixture
def own(tmp_path):
    """The place of a reward of the user; whatever a test registers is forgotten after it."""
    path = tmp_path / "own.py"
    path.write_text(OWN)
    yield str(path)
    for table in (REGISTRY.rewards, REGISTRY.parts, REGISTRY.places):
        table.clear()


def sample(problem_type: str = "behaviour", answer: str = "x") -> Sample:
    return Sample(id=f"{problem_type}-1", problem_type=problem_type, problem="?", gold=answer)


def test_hanging_crashing_and_greedy_responses_are_unscored_and_the_others_keep_their_order(own):
    texts = ["x", "hang", "y", "crash", "x", "memory", "raise", "nan", "x", "torch"]
    with RewardPool(rewards={"behaviour": f"{own}:behave"}, deadline_s=1.0) as pool:
        scores = pool.score([(sample(), text) for text in texts])
    accuracy = [score.parts.get("accuracy") for score in scores]
    assert accuracy == [1, None, 0, None, 1, None, None, None, 1, 0]
    reasons = [score.reason for score in scores if not score.is_scored]
    assert reasons[:4] == [
        "not done within 1 s; its process was killed",
        "the process that worked on it died (signal 11)",
        "not enough memory for it in its process",
        f"unexpected KeyError: 'a bug in the reward' ({own}:25: raise KeyError(\"a bug in the reward\"))",
    ]
    assert reasons[4] == f"the accuracy must be a number in [0, 1], got nan ({own}:behave)"
    assert all(math.isnan(score.value) for score in scores if not score.is_scored)
    assert pool.unscored.total() == 5


def test_the_others_of_a_batch_are_judged_while_one_is_stuck(own, tmp_path):
    # The stuck one ends when all the others are done: if they waited for it, it would never end.
    done = tmp_path / "done"
    done.touch()
    others = [(sample(answer=str(done)), "tick")] * 255
    stuck = (sample(answer=str(done)), "wait for 255")
    with RewardPool(rewards={"behaviour": f"{own}:behave"}, deadline_s=60.0) as pool:
        scores = pool.score([*others[:100], stuck, *others[100:]])
    assert [score.parts["accuracy"] for score in scores] == [1.0] * 256


def test_a_hanging_response_costs_one_worker_and_one_alone(own, monkeypatch):
    started, killed = [], []
    monkeypatch.setattr(Worker, "__init__", counting(Worker.__init__, started))
    monkeypatch.setattr(Worker, "kill", counting(Worker.kill, killed))
    with RewardPool(rewards={"behaviour": f"{own}:behave"}, deadline_s=1.0, workers=1) as pool:
        scores = pool.score([(sample(), "x"), (sample(), "sleep"), (sample(), "x"), (sample(), "x")])
        assert [score.is_scored for score in scores] == [True, False, True, True]
        assert len(started) == 2  # the first and its successor
        assert len(killed) >= 1


def test_a_killed_worker_is_replaced_at_once(own):
    with RewardPool(rewards={"behaviour": f"{own}:behave"}, deadline_s=1.0, workers=1) as pool:
        pool.score([(sample(), "x"), (sample(), "hang")])  # nothing is waiting when it is killed
        assert pool._workers._pool is not None
        (worker,) = pool._workers._pool._workers
        assert not worker.is_busy
        assert pool.score([(sample(), "x")])[0].parts["accuracy"] == 1
        assert pool._workers._pool._workers == {worker}


def counting(function, calls):
    def counted(self, *arguments, **named):
        calls.append(arguments)
        return function(self, *arguments, **named)

    return counted


def test_the_clock_of_a_response_starts_when_a_worker_gets_it(own):
    with RewardPool(rewards={"behaviour": f"{own}:behave"}, deadline_s=1.0, workers=1) as pool:
        scores = pool.score([(sample(), "hang"), (sample(), "hang"), (sample(), "x")])
    assert [score.is_scored for score in scores] == [False, False, True]


def test_workers_are_reused_and_end_with_the_pool(own):
    with RewardPool(rewards={"behaviour": f"{own}:behave"}, workers=1) as pool:
        pids = {pool.score([(sample(), "pid")])[0].parsed for _ in range(3)}
    assert len(pids) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(pids.pop())), 0)


def test_cheap_types_start_no_process():
    with RewardPool() as pool:
        score = pool.score([(sample("numerical", "4"), "<answer>4</answer>")])[0]
        assert (score.value, pool._workers._pool) == (1.0, None)


SMALL = '<svg viewBox="0 0 9 9"><rect width="5" height="5"/></svg>'
SLOW = (
    '<svg viewBox="0 0 9 9"><defs><rect id="a" width="9" height="9" rx="3" stroke="red"/></defs>'
    + '<use href="#a"/>' * 2400
    + "</svg>"
)
"""A drawing within all limits that takes some seconds."""


def drawing(answer: str) -> tuple[Sample, str]:
    return sample("svg code", SMALL), f"<answer>{answer}</answer>"


def test_an_answer_that_runs_into_the_deadline_is_wrong_and_counted_and_not_unscored():
    with RewardPool(deadline_s=1.0, workers=1) as pool:
        scores = pool.score([drawing(SLOW), drawing(SMALL), drawing(SLOW.replace("red", "blue"))])
        assert [score.parts["accuracy"] for score in scores] == [0, 1, 0]
        assert scores[0].reason.startswith("not done within")
        assert scores[0].parts["format"] == 0.5  # one answer block, with nothing that could be read in time
        assert not pool.unscored
        assert pool.cut == {"time": 2}


def test_an_honest_answer_that_is_slow_gets_the_time_that_is_left(monkeypatch):
    monkeypatch.setattr(budget, "FIRST_FRAC", 0.001)
    monkeypatch.setattr(budget, "FIRST_S", 0.05)
    slow = SLOW.replace('<use href="#a"/>' * 2100, "")  # some tenths of a second
    with RewardPool(deadline_s=60.0, workers=1) as pool:
        scores = pool.score([(sample("svg code", slow), f"<answer>{slow}</answer>")])
        assert [seconds > 0.05 for seconds, _ in pool.slowest] == [True, True]  # cut short once, and judged then
    assert scores[0].parts["accuracy"] == 1
    assert not pool.cut


def test_what_fails_here_is_scored_in_a_worker_and_logged(monkeypatch, caplog):
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(router, "quick_score", fail)
    with RewardPool(workers=1) as pool:
        scores = pool.score([(sample("numerical", "3"), "<answer>3</answer>")])
    assert scores[0].parts["accuracy"] == 1
    assert "numerical-1: scoring failed" in caplog.text


def test_an_answer_that_our_code_fails_on_is_wrong_and_counted_and_not_unscored(monkeypatch):
    def failing(heavy):
        for item in heavy:
            error = JobError("unexpected ZeroDivisionError") if item.text else None
            yield Outcome(item=item, result=None if item.text else Score(value=1.0), error=error, wall_s=0.0)

    monkeypatch.setattr(router, "quick_score", lambda *_, **__: None)
    with RewardPool(workers=1) as pool:
        monkeypatch.setattr(pool._workers, "_run", failing)
        scores = pool.score([(sample("numerical", "3"), "<answer>3</answer>")])
    assert (scores[0].parts["accuracy"], scores[0].reason) == (0, "unexpected ZeroDivisionError")
    assert pool.cut == {"error": 1}
    assert not pool.unscored


def test_golds_for_algebra_are_read_by_it_before_a_run():
    with RewardPool(workers=1) as pool:
        pool.check([sample("math", r"\sum_{n=1}^{10} n^2")])
        with pytest.raises(DataError, match=r"field 'answer': .* is no expression that algebra can read"):
            pool.check([sample("math", r"\foo{x} \to")])


def test_where_the_gold_itself_cannot_be_read_in_time_the_answer_is_not_to_blame():
    with RewardPool(deadline_s=0.3, workers=1) as pool:
        score = pool.score([(sample("svg code", SLOW), f"<answer>{SLOW}</answer>")])[0]
        assert not score.is_scored
        assert pool.unscored == {"not done within": 1}
        assert not pool.cut
        with pytest.raises(
            DataError, match=r"field 'answer': the gold answer could not be read: not done within 0\.3 s"
        ):
            pool.check([sample("svg code", SLOW + " ")])


def test_hostile_answers_among_honest_ones_hold_a_batch_for_a_few_deadlines_at_most():
    items = [drawing(SLOW.replace("red", f"#{number:03x}")) for number in range(20)]
    with RewardPool(deadline_s=1.0, workers=2) as pool:
        pool.score([drawing(SMALL)])  # the workers start
        started = time.monotonic()
        scores = pool.score([*items[:10], drawing(SMALL), *items[10:], (sample("math", "4"), "<answer>2+2</answer>")])
        assert (
            time.monotonic() - started < 20
        )  # one by one with the whole deadline they would take as long on one worker
    assert [score.parts["accuracy"] for score in scores] == [0] * 10 + [1] + [0] * 10 + [1]
    assert pool.cut == {"time": 20}


def test_gold_drawings_are_read_in_workers_and_errors_name_their_rows():
    bad = Sample(id="b", where="rows:7", problem_type="svg code", problem="", gold="<svg><script/></svg>")
    with (
        RewardPool(workers=1) as pool,
        pytest.raises(DataError, match="rows:7: field 'answer': an SVG answer is one safe"),
    ):
        pool.check([sample("svg code", SMALL), bad])


def test_parts_of_ones_own_are_weighed_like_the_others(own):
    weights = {"accuracy": 0.6, "format": 0.1, "brevity": 0.3}
    with RewardPool(weights=weights, parts={"brevity": f"{own}:brevity"}, workers=1) as pool:
        score = pool.score([(sample("numerical", "4"), "<answer>4</answer>")])[0]
    assert score.parts == {"accuracy": 1.0, "format": 1.0, "brevity": 1 / 19}
    assert score.value == pytest.approx(0.6 + 0.1 + 0.3 / 19)


def test_length_counts_in_tokens_and_keeps_the_value_in_range():
    weights = {"accuracy": 0.8, "format": 0.1, "overlong": 0.1}
    four = sample("numerical", "4")
    with RewardPool(weights=weights, max_response_tokens=1000, overlong_buffer_tokens=200) as pool:
        scores = pool.score([(four, "<answer>4</answer>", tokens) for tokens in (800, 850, 1000, 1200)])
        assert [score.parts["overlong"] for score in scores] == [0.0, -0.25, -1.0, -1.0]
        assert [score.value for score in scores] == pytest.approx([1.0, 0.975, 0.9, 0.9])
        with pytest.raises(UsageError, match="length in tokens"):
            pool.score([(four, "<answer>4</answer>")])


def test_weights_of_parts_that_no_score_has_are_refused():
    with pytest.raises(UsageError, match=r"'brevity'.*@part"):
        RewardPool(weights={"accuracy": 0.9, "brevity": 0.1})
    with pytest.raises(UsageError, match="overlong_buffer_tokens"):
        RewardPool(weights={"accuracy": 0.9, "overlong": 0.1})


def test_weights_that_favour_form_or_do_not_sum_to_one_are_refused():
    with pytest.raises(UsageError, match="must sum to 1"):
        RewardConfig(weights={"accuracy": 0.9, "format": 0.2})
    with pytest.raises(UsageError, match=r"format weighs 0\.6, more than accuracy with 0\.4"):
        RewardConfig(weights={"accuracy": 0.4, "format": 0.6})


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.py:f", "does not exist"),
        ("own.py", "path/to/file.py:function"),
        ("{own}:missing", "no function 'missing'"),
    ],
)
def test_a_reward_that_cannot_be_loaded_is_a_usage_error(own, place, message):
    with pytest.raises(UsageError, match=message):
        RewardPool(rewards={"behaviour": place.format(own=own)})


def test_a_file_that_fails_at_import_is_a_usage_error_naming_it(tmp_path):
    (tmp_path / "bad.py").write_text("import no_such_module_here")
    with pytest.raises(UsageError, match=r"bad\.py:1: cannot be imported: ModuleNotFoundError"):
        RewardPool(rewards={"behaviour": f"{tmp_path / 'bad.py'}:f"})


def test_unscored_responses_are_logged_with_their_reasons(caplog):
    with RewardPool() as pool, caplog.at_level(logging.WARNING):
        scores = pool.score([(sample("numerical", "no number"), "<answer>4</answer>")])
    assert not scores[0].is_scored
    assert "1 of 1 responses unscored" in caplog.text


def test_a_reward_that_is_gone_is_an_error_and_no_score(own):
    with RewardPool(rewards={"behaviour": f"{own}:behave"}) as pool:
        os.remove(own)
        with pytest.raises(UsageError, match="does not exist"):
            pool.score([(sample(), "x")])


def test_an_unknown_type_is_a_data_error_with_the_nearest_name():
    with pytest.raises(DataError, match="'temporal groundin' has no reward; did you mean 'temporal grounding'"):
        router.check([sample("temporal groundin")])


def test_decorated_rewards_work_in_process_and_in_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from easyvideor1.rewards import reward\n"
        "from easyvideor1.rewards.pool import RewardPool\n"
        "from easyvideor1.rewards.router import score\n"
        "from easyvideor1.types import Sample, Score\n"
        "@reward('shouting')\n"
        "def shouting(sample, text):\n"
        "    return Score(value=float(text.isupper()))\n"
        "if __name__ == '__main__':\n"
        "    loud = Sample(id='s', problem_type='Shouting', problem='', gold='')\n"
        "    with RewardPool(workers=1) as pool:\n"
        "        quiet = pool.score([(loud, 'HI'), (loud, 'hi')])[1]\n"
        "    print(score(loud, 'HI').parts['accuracy'], quiet.parts['accuracy'])\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert result.stdout == "1.0 0.0\n", result.stderr
