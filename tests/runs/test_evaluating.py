"""`easyvideor1 eval` end to end: three benchmarks, a tiny model, broken media, kills."""

import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from support.made_benchmarks import NAMES, add_hanging_video, make_data, make_model, words
from support.warm_start import warm_command

from easyvideor1.cli import main
from easyvideor1.records.jsonl import read_objects
from easyvideor1.runs.eval_engines import weights_of

KILLS = 2
DEADLINE_S = "40"
"""Of one video; on a busy machine a small one takes seconds."""
FAILED = ["broken-0", "gone-0"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    make_data(root)
    return root


@pytest.fixture(scope="module")
def whole(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an uninterrupted run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert main(words(model, data, out)) == 1  # items failed
    return out


def answers(out: Path) -> dict[tuple[str, str], tuple[Any, ...]]:
    """(benchmark, id) -> response and scores; fails where one is there twice."""
    found = {}
    for name in NAMES:
        path = out / name / "answers.jsonl"
        for record in read_objects(path) if path.exists() else []:
            assert (name, record["id"]) not in found
            found[name, record["id"]] = record["response"], record["score"], record["official_score"], record["stop"]
    return found


def results(out: Path) -> dict[str, Any]:
    return json.loads((out / "results.json").read_text())


def test_every_item_has_one_answer_and_what_cannot_be_asked_is_named(whole: Path) -> None:
    found = results(whole)["benchmarks"]
    assert {name: found[name]["num_items"] for name in NAMES} == {"videomme": 11, "charades_sta": 9, "ovobench": 9}
    coverage = found["videomme"]["coverage"]
    assert (coverage["num_answered"], coverage["num_failed"], coverage["num_missing"]) == (9, 2, 0)
    assert sorted(item["id"] for item in coverage["failed"]) == FAILED
    assert "not a video" in coverage["failed"][0]["error"] + coverage["failed"][1]["error"]
    assert found["videomme"]["num_scored"] == 11
    assert any("cut by the token limit" in line for line in found["videomme"]["alarms"])
    assert len(answers(whole)) == 29


def test_videos_are_decoded_and_read_once_whatever_is_asked_about_them(whole: Path) -> None:
    counts = results(whole)["run"]["counts"]
    # Video-MME 3 whole videos, Charades-STA 3; OVO-Bench 3 videos up to 3 different times each.
    assert counts["groups"] == 3 + 3 + 9 + 2
    assert counts["decodes"] <= 3 + 3 + 9
    assert counts["engine_deaths"] == 0


def test_a_run_that_was_killed_goes_on_to_the_same_answers(
    model: Path, data: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "killed"
    arguments = words(model, data, out)
    for kill in range(1, KILLS + 1):
        with warm_command(*arguments, env=os.environ) as process:
            deadline = time.monotonic() + 120
            while len(answers(out)) < 3 * kill and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)
            assert process.poll() is None, "it ended before it was killed"
            process.kill()
        assert kill > 1 or 3 <= len(answers(out)) < 29
    with (out / "videomme" / "answers.jsonl").open("a") as file:
        file.write('{"id": "v0-0", "dra')  # what a kill may leave
    assert main(arguments) == 1
    assert answers(out) == answers(whole)
    before, after = results(whole)["benchmarks"], results(out)["benchmarks"]
    assert {name: after[name]["score"] for name in NAMES} == {name: before[name]["score"] for name in NAMES}


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes minutes: run it with -m slow")
@pytest.mark.timeout(1800)
def test_ten_kills_at_random_moments_change_nothing(model: Path, tmp_path: Path) -> None:
    """With a broken, a missing and a hanging video among the items."""
    data, rng = tmp_path / "data", random.Random(0)
    make_data(data, num_videos=8, num_questions=8)
    add_hanging_video(data)
    once = tmp_path / "once"
    assert main(words(model, data, once, "--deadline", DEADLINE_S)) == 1
    expected = answers(once)
    assert len(expected) == 3 * 8 * 8 + 3
    coverage = results(once)["benchmarks"]["videomme"]["coverage"]
    errors = {item["id"]: item["error"] for item in coverage["failed"]}
    assert errors.keys() == {"hangs-0", *FAILED}
    assert f"not done within {DEADLINE_S} s" in errors["hangs-0"]
    assert results(once)["benchmarks"]["videomme"]["num_scored"] == 8 * 8 + 3
    # The video that hangs is begun first, and most of the others are answered while it is waited for.
    order = [record["id"] for record in read_objects(once / "videomme" / "answers.jsonl")]
    assert order.index("hangs-0") > 8

    out = tmp_path / "killed"
    arguments = words(model, data, out, "--deadline", DEADLINE_S)
    kills = []
    while len(kills) < 10:
        before = len(answers(out))
        is_early, wanted = rng.random() < 0.3, before + rng.randint(1, 20)
        with warm_command(*arguments, env=os.environ) as process:
            while not is_early and len(answers(out)) < wanted and process.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 5.0 if is_early else 0.02))
            assert process.poll() is None, f"it ended before kill {len(kills) + 1}"
            process.kill()
        kills.append(len(answers(out)) - before)
    assert sum(num > 0 for num in kills) >= 5, kills
    assert main(arguments) == 1
    assert answers(out) == expected
    scores = [{name: results(folder)["benchmarks"][name]["score"] for name in NAMES} for folder in (once, out)]
    assert scores[0] == scores[1]


def test_shards_share_a_folder_and_make_one_result(model: Path, data: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    assert main(words(model, data, out, "--shard", "1/2")) == 1
    assert not results(out)["benchmarks"]["charades_sta"]["is_complete"]
    assert main(words(model, data, out, "--shard", "2/2")) == 1
    shards = [read_objects(path) for path in sorted(out.glob("*/answers-*-of-2.jsonl"))]
    assert sum(map(len, shards)) == 29
    found = {(r["id"], r["response"], r["score"]) for shard in shards for r in shard}
    assert found == {(id_, response, score) for (_, id_), (response, score, *_) in answers(whole).items()}
    assert all(each["is_complete"] for each in results(out)["benchmarks"].values())


def test_a_score_is_traced_to_what_made_it(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "show", str(whole), "v1-2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["protocol"]["hash"] == json.loads((whole / "videomme" / "protocol.json").read_text())["hash"]
    assert "Which colour 2?\nA. red\nB. blue\nC. green\nD. grey\nThe best answer is:" in found["prompt"]["text"]
    [medium] = found["frames"]["media"]
    assert medium["times_s"] == [0.0, 0.625, 1.25, 1.875]  # 16 frames of 8 fps, every fifth
    assert (found["gold"], len(found["repeats"])) == ("C", 1)
    assert main(["eval", "show", str(whole), "nobody"]) == 2


def test_a_folder_of_other_settings_is_refused(model: Path, data: Path, whole: Path, capsys: Any) -> None:
    assert main([*words(model, data, whole), "--seed", "7"]) == 2
    assert "made with other settings (seed)" in capsys.readouterr().err


def test_weights_of_one_size_are_told_apart(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "copy")
    assert weights_of(str(tmp_path / "copy")) == weights_of(str(model))
    file = tmp_path / "copy" / "model.safetensors"
    tensors = {name: 1.001 * tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    assert file.stat().st_size == (model / "model.safetensors").stat().st_size
    assert weights_of(str(tmp_path / "copy")) != weights_of(str(model))
    assert weights_of("a-name-at-a-server") == []


def test_two_runs_are_compared_by_their_folders(whole: Path, capsys: Any) -> None:
    assert main(["eval", "diff", str(whole / "videomme"), str(whole / "videomme")]) == 0
    report = (whole / "report.md").read_text()
    assert "| videomme | accuracy |" in report
    assert "9 of 11" in report


def test_what_is_missing_is_said(tmp_path: Path, capsys: Any) -> None:
    assert main(["eval", "--model", "m"]) == 2
    assert "--benchmarks, --data-root, --out" in capsys.readouterr().err
