"""Validation: which answers there are, and that they do not depend on anything but the questions."""

from types import SimpleNamespace
from typing import cast

import pytest

from easyvideor1.errors import MediaError
from easyvideor1.evals.validation import validate
from easyvideor1.records.tally import response_tally
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.types import Example, Prompt, Sample, Score


def question(index) -> Example:
    sample = Sample(id=f"q{index}", problem_type="numerical", problem="?", gold=str(index), source=f"file {index % 2}")
    return Example(prompt=cast(Prompt, SimpleNamespace(sample=sample)), clips=(), features={})


def example_of(sample) -> Example:
    return question(int(sample.gold))


class Noting(FakeEngine):
    """Answers "ID/rollout/seed" and notes (sample, n, temperature) of every request."""

    def __init__(self):
        super().__init__(
            lambda example, index, seed: f"{example.sample.id}/{index}/{seed % 997}", lambda text: (1,) * len(text)
        )
        self.calls = []

    def generate(self, requests):
        requests = list(requests)
        asked = [request for request in requests if request is not None]
        self.calls += [
            (request.example.sample.id, request.sampling.n, request.sampling.temperature) for request in asked
        ]
        return super().generate(requests)


class LastFirst(Noting):
    """Completes requests in the opposite order."""

    def generate(self, requests):
        yield from reversed(list(super().generate(requests)))


def score(items):
    """Right where the question has an even number; the last one cannot be judged."""
    return [
        Score.unscored("timed out") if sample.id == "q4" else Score(value=1.0, parts={"accuracy": right, "format": 1.0})
        for sample, _, _ in items
        for right in [float(int(sample.gold) % 2 == 0)]
    ]


def answers(engine, *, num_samples=2, made_example=example_of, on_bad=None):
    return list(
        validate(
            [question(index).sample for index in range(5)],
            prepare=made_example,
            on_bad=on_bad,
            engine=engine,
            score=score,
            sampling=Sampling(max_response_tokens=50),
            num_samples=num_samples,
            seed=3,
        )
    )


def test_every_question_is_answered_greedily_once_and_k_times_by_sampling():
    engine = Noting()
    found = answers(engine)
    assert sorted((answer.sample.id, answer.index or 0) for answer in found) == [
        (f"q{number}", index) for number in range(5) for index in (0, 1, 2)
    ]
    # The requests of a question stand together, so that its prompt is read once.
    assert engine.calls == [(f"q{number}", *way) for number in range(5) for way in ((1, 0.0), (2, 1.0))]
    engine = Noting()
    answers(engine, num_samples=0)
    assert engine.calls == [(f"q{number}", 1, 0.0) for number in range(5)]


def test_answers_come_in_the_order_of_the_questions_whatever_completes_first():
    found = answers(LastFirst())
    assert [(answer.sample.id, answer.index) for answer in found] == [
        (f"q{number}", index) for number in range(5) for index in (None, 1, 2)
    ]
    assert found == answers(Noting())
    assert {answer.response.split("/")[-1] for answer in found} == {"3"}


def test_a_response_that_the_engine_gave_up_counts_as_wrong():
    given_up = FakeEngine(lambda example, index, seed: None if example.sample.id == "q0" else "x", lambda text: (1,))
    values = response_tally(answers(given_up)).values()
    assert values["validation/greedy_accuracy_frac"] == pytest.approx(1 / 5)  # q2 only: q4 cannot be judged
    assert values["validation/unscored_frac"] == pytest.approx(2 / 5)


def test_an_answer_that_cannot_be_judged_counts_as_wrong_and_sources_are_told_apart():
    values = response_tally(answers(Noting())).values()
    assert values["validation/greedy_accuracy_frac"] == pytest.approx(2 / 5)
    assert values["validation/unscored_frac"] == pytest.approx(1 / 5)
    assert values["validation/sampled_accuracy_source/file 0"] == pytest.approx(2 / 3)
    assert values["validation/greedy_accuracy_source/file 1"] == 0.0


def test_a_question_that_cannot_be_asked_is_an_error_or_stays_in_the_denominator():
    def broken(sample):
        if sample.id == "q2":
            raise MediaError("cannot be decoded", where="q2.mp4")
        return example_of(sample)

    with pytest.raises(MediaError, match=r"q2\.mp4"):
        answers(Noting(), made_example=broken)
    noted = []
    found = answers(Noting(), made_example=broken, on_bad=noted.append)
    assert [error.where for error in noted] == ["q2.mp4"]
    assert len(found) == 15
    assert {answer.score.reason for answer in found if answer.sample.id == "q2"} == {"q2.mp4: cannot be decoded"}
    assert response_tally(found).values()["validation/greedy_accuracy_frac"] == pytest.approx(1 / 5)


def test_a_question_at_the_end_that_cannot_be_asked_is_answered_too():
    def broken(sample):
        raise MediaError("cannot be decoded", where=f"{sample.id}.mp4")

    found = answers(Noting(), made_example=broken, on_bad=lambda error: None)
    assert [answer.sample.id for answer in found] == [f"q{number}" for number in range(5) for _ in range(3)]
    assert not any(answer.score.is_scored for answer in found)


def test_questions_are_prepared_as_the_engine_takes_them():
    made = []

    def noted(sample):
        made.append(sample.id)
        return example_of(sample)

    class Slow(FakeEngine):
        """Takes the next request when the one before is done."""

        def generate(self, requests):
            for place, rollouts in super().generate(requests):
                yield place, rollouts
                assert len(made) == place + 1

    engine = Slow(lambda example, index, seed: "x", lambda text: (1,) * len(text))
    stream = validate(
        [question(index).sample for index in range(4)],
        prepare=noted,
        on_bad=None,
        engine=engine,
        score=score,
        sampling=Sampling(max_response_tokens=50),
        num_samples=0,
        seed=3,
    )
    assert len(list(stream)) == 4
    assert made == ["q0", "q1", "q2", "q3"]
