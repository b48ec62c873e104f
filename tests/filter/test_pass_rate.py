"""Pass rates of a scripted model: which rows are kept, what is collected, and going on after a kill."""

import json
import random

import numpy as np
import pytest

from easyvideor1.config_data import SourceConfig
from easyvideor1.data.samples import read_samples
from easyvideor1.errors import MediaError, UsageError
from easyvideor1.filter.measure import measure
from easyvideor1.filter.pass_rate import Bounds, Measured, RateFile, check_settings, collected, load_rows, select
from easyvideor1.rewards import router
from easyvideor1.rollout.engine import Sampling
from easyvideor1.rollout.fake import FakeEngine
from easyvideor1.types import Example, Prompt, Score

K = 4
RIGHT, WRONG = "<think>{}</think><answer>3</answer>", "<think>{}</think><answer>5</answer>"


def made_row(number, **changes):
    row = {"problem_id": f"q{number}", "problem": "How many?", "problem_type": "numerical", "answer": "3", "höhe": 1.5}
    return row | changes


def prepare(sample):
    none = np.zeros(0, np.int64)
    prompt = Prompt(sample=sample, text="", input_ids=none, token_types=none, position_ids=none, plans=())
    return Example(prompt=prompt, clips=(), features={})


def judge(items):
    return [router.score(sample, text, thinking=True) for sample, text, _ in items]


class Filter:
    """A data file, and the measuring of it by a script."""

    def __init__(self, path, folder, script, *, prepare=prepare, judge=judge, max_tokens=1000):
        self.rows, self.failures = load_rows([SourceConfig(path=str(path))], lambda sample: router.check([sample]))
        self.rates_path = folder / "rates.jsonl"
        self.script, self.prepare, self.judge = script, prepare, judge
        self.sampling = Sampling(n=K, max_response_tokens=max_tokens)
        self.num_asked = 0

    def run(self):
        """(kept, dropped, collected) after all rows were measured."""
        rates = RateFile(self.rates_path)
        engine = FakeEngine(self._counted, lambda text: tuple(text.encode()))
        for _, failed in measure(
            self.rows,
            prepare=self.prepare,
            engine=engine,
            score=self.judge,
            sampling=self.sampling,
            seed=7,
            rates=rates,
        ):
            self.failures += failed
        kept, dropped = select(self.rows, rates, bounds=Bounds(), threshold=None)
        return kept, dropped, list(collected(self.rows, rates, threshold=None))

    def _counted(self, example, index, seed):
        self.num_asked += 1
        return self.script(example, index, seed)


def some_right(example, index, seed):
    """The first n of the k responses to question `qn` are right."""
    return (RIGHT if index < int(example.sample.id[1:].split("#")[0]) else WRONG).format("x" * index)


def by_chance(example, index, seed):
    """Right by the seed: what a sampled response is like."""
    chance = random.Random(f"{seed} {example.sample.id} {index}")
    return (RIGHT if chance.random() < 0.4 else WRONG).format("x" * chance.randrange(30))


@pytest.mark.parametrize(
    ("accuracies", "threshold", "rate"),
    [
        ((1.0, 0.0, 0.0, 1.0), None, 0.5),
        ((0.3, 0.6, 0.9), None, 0.6),  # graded: the mean, by hand
        ((0.3, 0.6, 0.9), 0.6, 2 / 3),
        ((0.3, None, 0.9), None, 0.6),
        ((0.1,) * 10, None, 0.1),
        ((1.0,) * 3, None, 1.0),
    ],
)
def test_a_pass_rate_is_the_mean_accuracy_or_the_share_at_the_threshold(accuracies, threshold, rate):
    assert Measured(accuracies=accuracies, best=None).pass_rate(threshold) == pytest.approx(rate, abs=1e-15)


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({}, [0.25, 0.5, 0.75]),
        ({"inclusive": True}, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ({"low": 0.25, "high": 0.75}, [0.5]),
        ({"low": 0.25, "high": 0.75, "inclusive": True}, [0.25, 0.5, 0.75]),
        ({"low": 0.5, "high": 0.5, "inclusive": True}, [0.5]),
        ({"low": 0.0, "high": 0.3}, [0.25]),
    ],
)
def test_bounds_keep_what_lies_strictly_between_them_unless_inclusive(bounds, kept):
    assert [rate for rate in (0.0, 0.25, 0.5, 0.75, 1.0) if Bounds(**bounds).keep(rate)] == kept


@pytest.mark.parametrize(
    ("low", "high", "inclusive"), [(0.5, 0.5, False), (0.6, 0.5, True), (-0.1, 1, True), (0, 2, 0)]
)
def test_bounds_that_keep_nothing_are_wrong_usage(low, high, inclusive):
    with pytest.raises(UsageError, match=r"--min .* and --max"):
        Bounds(low=low, high=high, inclusive=inclusive)


def test_rows_are_kept_unchanged_but_for_their_rate_and_in_their_order(tmp_path, write_rows):
    rows = [made_row(number) for number in (3, 0, 1, 4, 2)]
    kept, dropped, _ = Filter(write_rows(rows), tmp_path, some_right).run()
    assert kept == [rows[0] | {"pass_rate": 0.75}, rows[2] | {"pass_rate": 0.25}, rows[4] | {"pass_rate": 0.5}]
    assert dropped == [rows[1] | {"pass_rate": 0.0}, rows[3] | {"pass_rate": 1.0}]


def test_killed_at_any_byte_and_resumed_equals_uninterrupted(tmp_path, write_rows):
    data = write_rows([made_row(number) for number in range(8)])
    whole = Filter(data, tmp_path, by_chance)
    expected = whole.run()
    assert len({row["pass_rate"] for row in (*expected[0], *expected[1])}) > 2
    text = whole.rates_path.read_bytes()
    lines = text.splitlines(keepends=True)
    assert len(lines) == 8
    for cut in range(0, len(text), 11):
        resumed = Filter(data, tmp_path, by_chance)
        resumed.rates_path.write_bytes(text[:cut])
        assert resumed.run() == expected
        assert resumed.rates_path.read_bytes() == text
        assert resumed.num_asked == (8 - text[:cut].count(b"\n")) * K  # only the rows that are missing


def test_known_rates_need_no_model(tmp_path, write_rows):
    data = write_rows([made_row(number) for number in range(5)])
    expected = Filter(data, tmp_path, by_chance).run()
    again = Filter(data, tmp_path, by_chance)
    assert again.run() == expected
    assert again.num_asked == 0


def test_an_edited_row_is_measured_again_and_the_others_are_not(tmp_path, write_rows):
    Filter(write_rows([made_row(1), made_row(2), made_row(3)]), tmp_path, some_right).run()
    edited = Filter(write_rows([made_row(1), made_row(2, answer="5"), made_row(3)]), tmp_path, some_right)
    kept, _, _ = edited.run()
    assert edited.num_asked == K
    assert [row["pass_rate"] for row in kept] == [0.25, 0.5, 0.75]


def test_bad_rows_are_listed_and_the_others_are_measured(tmp_path):
    data = tmp_path / "data.jsonl"
    rows = [made_row(1), made_row(2, problem=""), made_row(3, problem_type="riddle"), made_row(1), made_row(3)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")

    def fussy(sample):
        if sample.id == "q3#2":
            raise MediaError("cannot be decoded", where="clip.mp4")
        return prepare(sample)

    made = Filter(data, tmp_path, some_right, prepare=fussy)
    kept, dropped, _ = made.run()
    assert [row["problem_id"] for row in kept + dropped] == ["q1#1", "q1#2"]  # the ids of two rows are made unique
    said = [(failure.where.rpartition(":")[2], failure.id, failure.error) for failure in made.failures]
    assert [place for place, _, _ in said] == ["2", "3", "6", "5"]
    assert [id_ for _, id_, _ in said] == ["", "q3#1", "", "q3#2"]
    for (_, _, error), word in zip(said, ("problem", "riddle", "broken JSON", "clip.mp4"), strict=True):
        assert word in error


def test_a_row_that_could_not_be_read_is_tried_again_by_the_next_run(tmp_path, write_rows):
    data = write_rows([made_row(1), made_row(2)])

    def without_second(sample):
        if sample.id == "q2":
            raise MediaError("missing", where="clip.mp4")
        return prepare(sample)

    first = Filter(data, tmp_path, some_right, prepare=without_second)
    assert len(first.run()[0]) == 1
    again = Filter(data, tmp_path, some_right, prepare=without_second)
    again.run()
    assert (len(again.failures), again.num_asked) == (1, 0)
    mended = Filter(data, tmp_path, some_right)
    assert [row["pass_rate"] for row in mended.run()[0]] == [0.25, 0.5]
    assert mended.failures == []


def test_a_response_that_cannot_be_scored_does_not_count_and_a_row_of_them_has_no_rate(tmp_path, write_rows):
    def broken(items):
        scores = judge(items)
        return [
            Score.unscored("timed out") if index % K == 0 or item[0].id == "q3" else score
            for index, (item, score) in enumerate(zip(items, scores, strict=True))
        ]

    made = Filter(write_rows([made_row(2), made_row(3)]), tmp_path, some_right, judge=broken)
    kept, dropped, _ = made.run()
    assert [row["pass_rate"] for row in kept + dropped] == [1 / 3]
    [failure] = made.failures
    assert (failure.id, failure.error) == ("q3", "no response could be scored: timed out")


def test_the_shortest_right_well_formed_and_finished_response_is_collected(tmp_path, write_rows):
    responses = {
        "q1": [RIGHT.format("xxxx"), RIGHT.format("xx"), WRONG.format(""), RIGHT.format("xxx")],
        "q2": ["<answer>3</answer>", WRONG.format(""), "3", WRONG.format("x")],  # right, but without thoughts
        "q3": [RIGHT.format("x" * 80), *[WRONG.format("")] * 3],  # cut at the limit
        "q4": [RIGHT.format("y")] * 4,
    }
    rows = [made_row(1), made_row(2), made_row(3), made_row(4, offline_output=["an older one"], problem="Why?")]
    made = Filter(
        write_rows(rows), tmp_path, lambda example, index, seed: responses[example.sample.id][index], max_tokens=60
    )
    _, dropped, rows_collected = made.run()
    assert [row["problem_id"] for row in rows_collected] == ["q1", "q4"]
    assert all(row["has_offline_trajectory"] is True for row in rows_collected)
    assert "has_offline_trajectory" not in dropped[-1]
    samples = read_samples(write_rows(rows_collected, "collected.jsonl"))
    assert [sample.trajectories for sample in samples] == [(RIGHT.format("xx"),), (RIGHT.format("y"),)]


def test_rates_of_other_settings_are_not_mixed_in(tmp_path):
    path = tmp_path / "out" / "settings.json"
    check_settings(path, {"k": 8, "frames": (1, 2)})
    check_settings(path, {"k": 8, "frames": (1, 2)})
    with pytest.raises(UsageError, match="other values of k, seed; choose another --out"):
        check_settings(path, {"k": 4, "frames": (1, 2), "seed": 0})
