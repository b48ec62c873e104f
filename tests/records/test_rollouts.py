"""Readable rollouts, frame strips and validation answers."""

import numpy as np
import pytest
from PIL import Image
from support.made_run import made_answer, made_clip, made_group, made_score

from easyvideor1.records.responses import ValidationLog
from easyvideor1.records.rollouts import RolloutLog, save_strip, spread
from easyvideor1.report.read import read_rollouts, read_validation


def test_best_and_worst_rollout_of_a_group_are_kept_with_their_frames(tmp_path):
    log = RolloutLog(tmp_path)
    log.log(3, made_group(rewards=[0.0, 1.0, 0.5], number=7), [made_clip(num_frames=12, height=64, width=96)])
    best, worst = read_rollouts(tmp_path)
    assert (best["rollout"], best["value"], worst["rollout"], worst["value"]) == (1, 1.0, 0, 0.0)
    assert (best["step"], best["id"], best["problem_type"], best["gold"]) == (3, "clip_0007", "multiple choice", "B")
    assert best["parsed"] == "B"
    assert best["parts"] == {"accuracy": 1.0, "format": 1.0}
    assert best["group_rewards"] == [0.0, 1.0, 0.5]
    assert [(member["value"], member["response"][-11:-8]) for member in best["group"]] == [
        (0.0, ">A<"),
        (1.0, ">B<"),
        (0.5, ">B<"),
    ]
    (strip,) = best["strips"]
    assert (strip["frames"], strip["times_s"][0], strip["times_s"][-1]) == (12, 0.0, 5.5)
    with Image.open(tmp_path / strip["file"]) as image:
        assert image.size == (8 * 96 + 7 * 2, 64)


def test_one_row_stands_for_a_group_of_equal_rewards_and_unscored_counts_as_worst(tmp_path):
    log = RolloutLog(tmp_path)
    log.log(1, made_group(rewards=[1.0, 1.0]), [])
    log.log(2, made_group(rewards=[0.0, None, 1.0]), [])
    assert [(record["step"], record["rollout"], record["status"]) for record in read_rollouts(tmp_path)] == [
        (1, 0, "scored"),
        (2, 2, "scored"),
        (2, 1, "unscored"),
    ]
    assert read_rollouts(tmp_path)[2]["value"] is None


def test_a_strip_that_cannot_be_made_is_logged_and_the_row_is_kept(tmp_path, caplog):
    clip = made_clip()
    broken = type(clip)(frames=clip.frames[:, :1], times_s=clip.times_s, source_fps=2, duration_s=6, backend="made")
    RolloutLog(tmp_path).log(1, made_group(rewards=[1.0]), [broken])
    assert read_rollouts(tmp_path)[0]["strips"] == []
    assert "clip_0000" in caplog.text


def test_tall_frames_are_shrunk_and_small_ones_are_not(tmp_path):
    save_strip(tmp_path / "tall.jpg", np.zeros((2, 3, 448, 224), np.uint8))
    save_strip(tmp_path / "small.jpg", np.full((1, 3, 20, 40), 200, np.uint8))
    with Image.open(tmp_path / "tall.jpg") as tall, Image.open(tmp_path / "small.jpg") as small:
        assert (tall.size, small.size) == ((56 + 2 + 56, 112), (40, 20))
        assert abs(int(np.asarray(small).mean()) - 200) <= 1  # JPEG rounds
    with pytest.raises(ValueError, match=r"\[0, 3, 4, 4\]"):
        save_strip(tmp_path / "none.jpg", np.zeros((0, 3, 4, 4), np.uint8))


@pytest.mark.parametrize(("count", "most"), [(1, 8), (8, 8), (9, 8), (100, 8), (5, 1), (0, 8)])
def test_spread_indices_rise_and_reach_both_ends(count, most):
    chosen = spread(count, most)
    assert len(chosen) == min(count, most)
    assert chosen == sorted(set(chosen))
    assert not chosen or chosen[0] == 0
    assert len(chosen) < 2 or chosen[-1] == count - 1


def test_validation_answers_say_which_they_are_and_the_later_of_two_counts(tmp_path):
    path = tmp_path / "validation.jsonl"
    log = ValidationLog(path)
    log.log(0, made_answer("first", made_score(0.0)))
    log.log(0, made_answer("second", made_score(1.0), index=2))
    log.log(0, made_answer("again", made_score(1.0)))
    log.log(5, made_answer("late", made_score(None)))
    records = read_validation(path)
    assert [(record["step"], record["kind"], record["response"], record["value"]) for record in records] == [
        (0, "greedy", "again", 1.0),
        (0, "sample 2", "second", 1.0),
        (5, "greedy", "late", None),
    ]
    assert (records[0]["modality"], records[0]["parts"]) == ("video", {"accuracy": 1.0, "format": 1.0})
    log.truncate_after(4)
    assert {record["step"] for record in read_validation(path)} == {0}


def test_text_that_no_utf8_holds_is_kept_as_an_escape(tmp_path):
    log = ValidationLog(tmp_path / "v.jsonl")
    log.log(0, made_answer("line\u2028two \udc80 \n three", made_score(0.0)))
    assert read_validation(tmp_path / "v.jsonl")[0]["response"] == "line\u2028two \udc80 \n three"
