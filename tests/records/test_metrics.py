"""The metrics file, sums with counts, and the stopwatch."""

import math

import pytest
from support.made_run import made_group

from easyvideor1.errors import DataError
from easyvideor1.records.metrics import MetricsLog
from easyvideor1.records.stopwatch import Stopwatch
from easyvideor1.records.tally import Tally, group_tally
from easyvideor1.report.read import comparable, read_metrics


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_rows_come_back_as_written(tmp_path):
    log = MetricsLog(tmp_path / "deep" / "metrics.jsonl")
    log.log(1, {"reward/mean": 0.1 + 0.2, "rollout/response_tokens": 7})
    log.log(2, {"loss/kl": math.nan})
    assert read_metrics(tmp_path / "deep" / "metrics.jsonl") == [
        {"step": 1, "reward/mean": 0.1 + 0.2, "rollout/response_tokens": 7},
        {"step": 2, "loss/kl": None},
    ]


def test_a_torn_last_line_is_left_out_and_the_next_row_does_not_continue_it(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1.0}\n{"step": 2, "a":')
    assert [record["step"] for record in read_metrics(path)] == [1]
    MetricsLog(path).log(2, {"a": 3.0})
    assert read_metrics(path) == [{"step": 1, "a": 1.0}, {"step": 2, "a": 3.0}]


def test_a_resumed_run_drops_the_steps_it_will_make_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for step in range(5):
        log.log(step, {"a": float(step)})
    with path.open("a") as file:
        file.write('{"step": 5')
    resumed = MetricsLog(path)
    resumed.truncate_after(2)
    resumed.log(3, {"a": 30.0})
    assert [(record["step"], record["a"]) for record in read_metrics(path)] == [(0, 0.0), (1, 1.0), (2, 2.0), (3, 30.0)]
    assert [item.name for item in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("line", ["not json", "[1]", '{"a": 1}', '{"step": "1"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 2}}\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl:2"):
        read_metrics(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="nothing here"):
        read_metrics(tmp_path / "nothing here")


def test_comparable_rows_hold_no_clock():
    record = {"step": 1, "time/decode_s": 1.0, "rollout/tokens_per_s": 2.0, "rollout/response_tokens": 3}
    assert comparable([record, {"step": 1, "time/checkpoint_s": 0.1}]) == [{"step": 1, "rollout/response_tokens": 3}]


def test_means_of_unequal_parts_weigh_by_count():
    whole, part = Tally(), Tally()
    whole.add("loss/kl", total=1.0, count=10)
    part.add("loss/kl", total=2.0, count=2)
    part.add("loss/empty", total=0.0, count=0)
    part.add_max("policy/diff_max", 0.5)
    part.add_max("policy/diff_max", 0.25)
    whole.add_max("policy/diff_max", -1.0)
    whole.merge(part)
    assert whole.values() == {"loss/kl": 3.0 / 12, "policy/diff_max": 0.5}


def test_group_metrics_count_the_policy_and_name_the_unscored():
    first = made_group(rewards=[1.0, 0.0, None], problem_type="multiple choice")
    second = made_group(rewards=[1.0, 1.0], problem_type="numerical", sources=["policy", "offline"], stop="length")
    values = group_tally([first, second]).values()
    assert values["reward/mean"] == pytest.approx(2 / 3)
    assert values["reward/unscored_frac"] == pytest.approx(1 / 4)
    assert values["accuracy/multiple choice"] == 0.5
    assert values["accuracy/numerical"] == values["accuracy_modality/video"] / (2 / 3) == 1.0
    assert values["accuracy_source/clips of multiple choice"] == 0.5
    assert values["accuracy_source/clips of numerical"] == 1.0
    assert values["reward/no_signal_groups_frac"] == 0.5
    assert values["rollout/offline_frac"] == pytest.approx(1 / 5)
    assert values["rollout/truncated_frac"] == pytest.approx(1 / 4)


def test_a_part_within_a_part_is_counted_once():
    clock = Clock()
    watch = Stopwatch(now=clock)
    clock.seconds += 1
    with watch.part("rollout"):
        clock.seconds += 2
        with watch.part("decode"):
            clock.seconds += 4
        watch.note_item("decode", item="clip 7", seconds=4.0)
        clock.seconds += 8
    with watch.part("decode"):
        clock.seconds += 3
    watch.note_item("decode", item="clip 8", seconds=3.0)
    values = watch.values()
    assert values["time/rollout_s"] == 10.0
    assert values["time/decode_s"] == 7.0
    assert values["time/other_s"] == 1.0
    assert values["time/update_s"] == 0.0
    assert values["time/step_s"] == 18.0 == sum(values.values()) / 2
    assert watch.slowest == "decode clip 7: 4.00 s"
    assert watch.only("decode") == {"time/decode_s": 7.0}
    watch.restart()
    assert watch.values()["time/step_s"] == 0.0
    assert watch.slowest == ""
