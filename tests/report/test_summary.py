"""What is read out of the files of a run."""

import pytest
from support.values import present

from easyvideor1.records.stopwatch import PARTS
from easyvideor1.report.summary import (
    changed_answers,
    mean_times,
    pick_rollouts,
    scoreboard,
    series,
    time_verdict,
    validation_series,
)


def answer(step, question, value, *, kind="greedy", problem_type="numerical", status="scored"):
    return {
        "step": step,
        "id": question,
        "kind": kind,
        "problem_type": problem_type,
        "modality": "video",
        "status": status,
        "value": value,
        "parts": {"accuracy": value, "format": 1.0},
    }


def test_first_and_last_validation_are_compared_question_by_question():
    records = [answer(0, "a", 0.0), answer(0, "b", 1.0), answer(0, "c", 0.5, problem_type="boolean")]
    records += [answer(5, "a", 0.0), answer(5, "b", 0.0), answer(5, "c", 0.0)]
    records += [answer(9, "b", 1.0), answer(9, "a", 1.0), answer(9, "c", 0.5)]
    board = present(scoreboard(records, is_greedy=True))
    assert (board.first_step, board.last_step, board.num_answers) == (0, 9, 1)
    assert board.total.first.mean == pytest.approx(0.5)
    assert board.total.change.mean == pytest.approx(1 / 3)
    assert [(record.name, record.first.count, record.change.mean) for record in board.by_type] == [
        ("boolean", 1, 0.0),
        ("numerical", 2, 0.5),
    ]


def test_unscored_answers_count_as_wrong_and_are_named():
    records = [answer(0, "a", 1.0), answer(1, "a", 1.0, status="unscored")]
    board = present(scoreboard(records, is_greedy=True))
    assert (board.total.last.mean, board.num_unscored) == (0.0, 1)


def test_questions_asked_only_once_are_left_out_and_named():
    records = [answer(0, "a", 1.0), answer(0, "b", 1.0), answer(1, "a", 1.0), answer(1, "c", 0.0)]
    board = present(scoreboard(records, is_greedy=True))
    assert (board.total.first.count, board.num_unpaired) == (1, 2)


def test_sampled_answers_are_averaged_per_question_and_kept_apart_from_greedy_ones():
    records = [answer(0, "a", 0.0)]
    for step, values in ((0, (1.0, 0.0)), (4, (1.0, 1.0))):
        records += [answer(step, "a", value, kind=f"sample {draw}") for draw, value in enumerate(values, start=1)]
    board = present(scoreboard(records, is_greedy=False))
    assert (board.total.first.mean, board.total.last.mean, board.total.first.count, board.num_answers) == (
        0.5,
        1.0,
        1,
        2,
    )
    assert scoreboard(records, is_greedy=True) is None
    assert validation_series(records) == {"greedy": [(0, 0.0)], "sampled": [(0, 0.5), (4, 1.0)]}


def test_changed_answers_come_with_the_largest_change_first():
    records = [answer(0, "a", 0.5), answer(0, "b", 1.0), answer(0, "c", 1.0)]
    records += [answer(1, "a", 1.0), answer(1, "b", 0.0), answer(1, "c", 1.0)]
    assert [(item.first["id"], item.is_better) for item in changed_answers(records)] == [("b", False), ("a", True)]


def test_picked_rollouts_hold_every_type_and_the_whole_run():
    records = [{"step": step, "problem_type": "common"} for step in range(100)]
    records += [{"step": 50, "problem_type": "rare"}, {"step": 2, "problem_type": "odd"}]
    picked = pick_rollouts(records, most=20)
    assert len(picked) == 20
    assert {record["problem_type"] for record in picked} == {"common", "rare", "odd"}
    assert [record["step"] for record in picked] == sorted(record["step"] for record in picked)
    assert (picked[0]["step"], picked[-1]["step"]) == (0, 99)
    assert pick_rollouts([], most=20) == []


def test_mean_times_are_over_all_steps_also_for_a_part_that_ran_once():
    records = [{"step": step, "time/update_s": 1.0, "time/step_s": 1.0} for step in range(4)]
    records[0]["time/validate_s"] = 2.0
    times = mean_times(series(records))
    assert times == {"update": 1.0, "validate": 0.5}
    assert time_verdict(times).startswith("Update takes 67% of the time (1.00 of 1.50 s a step): ")
    assert time_verdict({}) == "No part of the time was measured."
    for part in PARTS:
        assert time_verdict({part: 1.0}).startswith(f"{part.capitalize()} takes 100% of the time")
