"""Validation: which answers there are, and that they do not depend on anything but the questions."""

from types import SimpleNamespace
from typing import cast

import pytest

from easyvideor1.errors import MediaError
from easyvideor1.evals.validation import validate
from easyvideor1.records.tally import response_tally
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.types import Example, Prompt, Sample, Score


def question(index) -> Example:
    sample = Sample(id=f"q{index}", problem_type="numerical", problem="?", gold=str(index), source=f"file {index % 2}")
    return Example(prompt=cast(Prompt, SimpleNamespace(sample=sample)), clips=(), features={})


def example_of(sample) -> Example:
    return question(int(sample.gold))


class Noting(FakeEngine):
    """Answers "ID/rollout/seed" and notes (n, temperature) of the requests of every call."""

    def __init__(self):
        super().__init__(
            lambda example, index, seed: f"{example.sample.id}/{index}/{seed % 997}", lambda text: (1,) * len(text)
        )
        self.calls = []

    def generate(self, requests, *, seed):
        self.calls.append([(request.sampling.n, request.sampling.temperature) for request in requests])
        return super().generate(requests, seed=seed)


def score(items):
    """Right where the question has an even number; the last one cannot be judged."""
    return [
        Score.unscored("timed out") if sample.id == "q4" else Score(value=1.0, parts={"accuracy": right, "format": 1.0})
        for sample, _, _ in items
        for right in [float(int(sample.gold) % 2 == 0)]
    ]


def answers(engine, *, num_samples=2, batch=2, made_example=example_of, on_bad=None):
    return list(
        validate(
            [question(index).sample for index in range(5)],
            prepare=made_example,
            on_bad=on_bad,
            engine=engine,
            score=score,
            max_response_tokens=50,
            num_samples=num_samples,
            seed=3,
            batch=batch,
        )
    )


def test_every_question_is_answered_greedily_once_and_k_times_by_sampling():
    engine = Noting()
    found = answers(engine)
    assert sorted((answer.sample.id, answer.index or 0) for answer in found) == [
        (f"q{number}", index) for number in range(5) for index in (0, 1, 2)
    ]
    greedy, sampled = (1, 0.0), (2, 1.0)
    assert engine.calls == [[greedy, greedy, sampled, sampled], [greedy, greedy, sampled, sampled], [greedy, sampled]]
    assert _calls(num_samples=0) == [[greedy, greedy], [greedy, greedy], [greedy]]


def _calls(**options):
    engine = Noting()
    answers(engine, **options)
    return engine.calls


def test_the_same_questions_get_the_same_answers_and_batches_their_own_seeds():
    first, again = answers(Noting()), answers(Noting())
    assert first == again
    seeds = {answer.sample.id: answer.response.split("/")[-1] for answer in first if answer.index}
    assert seeds["q0"] == seeds["q1"] != seeds["q2"] == seeds["q3"] != seeds["q4"]


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


def test_only_one_batch_of_questions_is_in_memory():
    made = []

    def noted(sample):
        made.append(sample.id)
        return example_of(sample)

    stream = validate(
        [question(index).sample for index in range(4)],
        prepare=noted,
        on_bad=None,
        engine=Noting(),
        score=score,
        max_response_tokens=50,
        num_samples=0,
        seed=3,
        batch=2,
    )
    next(stream)
    assert made == ["q0", "q1"]
