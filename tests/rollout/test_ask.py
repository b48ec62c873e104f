"""Asking and scoring at the same time, by a scripted engine."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from easyvideor1.errors import DataError
from easyvideor1.rollout.ask import ABORTED, ask
from easyvideor1.rollout.engine import Request, Sampling
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.types import Example, Prompt, Sample, Score, StopReason

WAIT_S = 30.0


def request(number, n=2):
    sample = Sample(id=f"q{number}", problem_type="numerical", problem="?", gold="")
    prompt = cast(Prompt, SimpleNamespace(sample=sample))
    sampling = Sampling(n=n, max_response_tokens=9)
    return Request(example=Example(prompt=prompt, clips=(), features={}), sampling=sampling, seed=0)


def scripted(example, index, seed):
    return f"{example.sample.id}.{index}"


def sized(text: str) -> tuple[int, ...]:
    """A token for each character."""
    return (1,) * len(text)


def engine(script=scripted, kind=FakeEngine):
    return kind(script, sized)


def score(items):
    return [Score(value=float(text[1]), reason=f"{sample.id} {text} {length}") for sample, text, length in items]


def test_every_rollout_has_its_own_score_and_every_request_its_place():
    found = dict(ask([request(number, n=1 + number % 3) for number in range(7)], engine=engine(), score=score))
    assert sorted(found) == list(range(7))
    for number, scored in found.items():
        expected = [f"q{number} q{number}.{index} 4" for index in range(1 + number % 3)]
        assert [item.reason for item in scored.scores] == expected
        assert [rollout.text for rollout in scored.rollouts] == [words.split()[1] for words in expected]


class LastFirst(FakeEngine):
    """Completes requests in the opposite order."""

    def generate(self, requests):
        yield from reversed(list(super().generate(requests)))


def test_requests_may_complete_in_any_order():
    found = list(ask(map(request, range(4)), engine=engine(kind=LastFirst), score=score))
    assert [place for place, _ in found] == [3, 2, 1, 0]
    assert all(scored.scores[0].value == place for place, scored in found)


class Patient(FakeEngine):
    """Gives the second request only after the first was scored."""

    def __init__(self, *args):
        super().__init__(*args)
        self.is_scored = threading.Event()

    def generate(self, requests):
        for place, rollouts in super().generate(requests):
            if place == 1:
                assert self.is_scored.wait(WAIT_S)
            yield place, rollouts


def test_rewards_are_made_while_others_are_still_sampled():
    patient = Patient(scripted, sized)

    def noting(items):
        patient.is_scored.set()
        return score(items)

    assert len(list(ask(map(request, range(3)), engine=patient, score=noting))) == 3


def test_what_waits_is_scored_in_one_call():
    calls, is_first_under_way, is_rest_there = [], threading.Event(), threading.Event()

    def slow(items):
        calls.append(len(items))
        is_first_under_way.set()
        assert is_rest_there.wait(WAIT_S)
        return score(items)

    def paced():
        yield request(0)
        yield request(1)
        assert is_first_under_way.wait(WAIT_S)
        yield from map(request, range(2, 6))
        is_rest_there.set()

    assert len(list(ask(paced(), engine=engine(), score=slow))) == 6
    assert sum(calls) == 12
    assert max(calls) >= 6  # the workers of the scorer are busy together, though requests come one by one


def test_requests_are_taken_one_by_one_and_their_errors_come_through():
    def failing(items: Sequence[object]) -> list[Score]:
        raise ZeroDivisionError

    def broken():
        yield request(0)
        raise DataError("cannot be read", where="a.jsonl:2")

    with pytest.raises(DataError, match=r"a\.jsonl:2"):
        list(ask(broken(), engine=engine(), score=score))
    with pytest.raises(ZeroDivisionError):
        list(ask([request(0)], engine=engine(), score=failing))
    assert not [thread.name for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]


def test_a_response_that_was_given_up_is_not_scored():
    def script(example, index, seed):
        return None if (example.sample.id, index) in {("q0", 1), ("q1", 0), ("q1", 1)} else "x7"

    judged = []

    def noting(items):
        judged.extend(items)
        return score(items)

    found = dict(ask(map(request, range(3)), engine=engine(script), score=noting))
    assert [[item.is_scored for item in found[place].scores] for place in range(3)] == [
        [True, False],
        [False, False],
        [True, True],
    ]
    assert len(judged) == 3
    lost = found[1]
    assert {item.reason for item in lost.scores} == {ABORTED}
    assert {rollout.stop_reason for rollout in lost.rollouts} == {StopReason.ABORT}


def test_the_time_of_the_engine_and_of_the_scores_after_it_are_told_apart():
    parts = []

    class Part:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            parts.append(self.name)

        def __exit__(self, *_):
            pass

    is_over = threading.Event()

    def late(items):
        assert is_over.wait(WAIT_S)
        return score(items)

    def requests():
        yield request(0)
        is_over.set()

    list(ask(requests(), engine=engine(), score=late, timed=Part))
    assert parts[:2] == ["rollout", "rollout"]
    assert set(parts[2:]) <= {"reward"}
