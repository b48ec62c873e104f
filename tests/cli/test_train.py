"""`easyvideor1 train` on a handful of real files with an untrained tiny model: wiring, bad input, kill and resume."""

import json
import time

import pytest
import torch
import yaml
from support.on_ranks import results
from support.rank_training import command
from support.small_run import start_warm

from easyvideor1.cli import main
from easyvideor1.demo.clips import Scene, Thing, write_clip, write_image
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.report.read import comparable, read_metrics, read_validation

TEXTS = ["What colour is it? A. red B. blue Think in <think> tags, then give the option letter in <answer> tags."] * 50
OPTIONS = ["A. red", "B. blue"]
WHEN_ASKED = pytest.mark.skipif("not config.getoption('markexpr')", reason="takes minutes: run it with -m slow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, three media and a data file."""
    folder = tmp_path_factory.mktemp("train")
    tokenizer = train_tokenizer(TEXTS)
    save(new_model(tokenizer, seed=0), tokenizer, folder / "model")
    scene = Scene(
        things=(Thing(colour="red", shape="circle", x=0.3, y=0.5, radius=0.2, dx_per_s=0.1),),
        duration_s=2.0,
        background="plain",
        shade=60,
        texture_seed=0,
    )
    write_clip(scene, folder / "a.mp4", side_px=64)
    write_clip(scene, folder / "b.mp4", side_px=64)
    write_image(scene, folder / "c.png", side_px=64)
    write_rows(folder / "rows.jsonl", rows())
    return folder


def rows():
    question = {"problem": "What colour is it?", "answer": "A", "problem_type": "multiple choice", "options": OPTIONS}
    return [
        {**question, "problem_id": "video-a", "videos": ["a.mp4"]},
        {**question, "problem_id": "video-b", "videos": ["b.mp4"]},
        {**question, "problem_id": "image", "images": ["c.png"]},
        {"problem": "What is 1 + 2?", "answer": "3", "problem_type": "numerical", "problem_id": "text"},
    ]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recipe(folder, out, data="rows.jsonl", **train):
    small = {"fps": 2.0, "min_frames": 2, "max_frames": 4, "min_pixels": 4096, "max_pixels": 4096}
    tree = {
        "out": str(out),
        "model": {"path": str(folder / "model")},
        "data": {
            "train": [{"path": str(folder / data)}],
            "validation": [{"path": str(folder / "rows.jsonl")}],
            "video": small,
            "image": small,
            "max_prompt_tokens": 1000,
            "workers": 1,
            "allow_shared_validation": True,  # the same rows, to keep this short
        },
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"n": 2, "max_response_tokens": 4},
        "optimizer": {"learning_rate": 0.001},
        "train": {"steps": 3, "prompts_per_step": 2, "stop": {"zero_reward_steps": 0}} | train,
    }
    path = out.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(tree))
    return str(path)


def test_a_run_leaves_metrics_validation_rollouts_and_a_report(folder, tmp_path):
    words = ["train", recipe(folder, tmp_path / "run"), "algorithm.options={entropy_coef: 0.01}"]  # every group trains
    # Modes that a notebook left on are not those of the run.
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        assert main(words) == 0
        assert not torch.is_grad_enabled()
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in comparable(metrics)] == [0, 1, 2, 3, 3]
    for part in ("validate", "checkpoint"):
        assert [row["step"] for row in metrics if row.get(f"time/{part}_s", 0.0) > 0] == (
            [0, 3] if part == "validate" else [0, 1, 2, 3]
        )
    assert max(row.get("policy/sampler_logprob_diff_max", 0.0) for row in metrics) < 1e-4
    answers = read_validation(tmp_path / "run" / "validation.jsonl")
    assert {(row["step"], row["id"]) for row in answers} == {
        (step, row["problem_id"]) for step in (0, 3) for row in rows()
    }
    assert "before" in (tmp_path / "run" / "report.html").read_text()


def test_the_same_folder_with_other_values_is_refused(folder, tmp_path, capsys):
    path = recipe(folder, tmp_path / "run", steps=1)
    assert main(["train", path]) == 0
    assert main(["train", path, "optimizer.learning_rate=0.5", "seed=3"]) == 2
    assert "other values: seed was 0" in capsys.readouterr().err
    assert main(["train", path, "train.steps=2"]) == 0
    assert read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["step"] == 2


def test_a_run_that_a_rule_ends_says_so_in_its_report_and_goes_on_with_another_rule(folder, tmp_path, capsys):
    out = tmp_path / "run"
    path = recipe(folder, out, steps=3, stop={"zero_reward_steps": 2})
    assert main(["train", path]) == 3
    error = capsys.readouterr().err
    assert "step 2: no rollout was right in 2 steps" in error
    page = (out / "report.html").read_text()
    assert "This run ended before its last step." in page
    assert "step 2: no rollout was right in 2 steps" in page
    assert "of 3</span>" in page
    assert main(["train", path, "train.stop.zero_reward_steps=0"]) == 0
    assert f"report: {out / 'report.html'}" in capsys.readouterr().out
    assert "This run ended" not in (out / "report.html").read_text()


def test_stored_trajectories_of_other_samples_are_refused(folder, tmp_path, capsys):
    stored = write_rows(tmp_path / "stored.jsonl", [{"id": "elsewhere", "response": "<answer>A</answer>"}])
    path = recipe(folder, tmp_path / "run")
    words = ["offline.enable=true", f"offline.source={stored}"]
    assert main(["train", path, *words]) == 1
    assert "all 1 offline trajectories are longer than rollout.max_response_tokens" in capsys.readouterr().err
    assert main(["train", path, *words, "rollout.max_response_tokens=40"]) == 1
    assert "belong to samples that are not in data.train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"videos": ["gone.mp4"]}, 1, "gone.mp4"),
        ({"videos": ["text.mp4"]}, 1, "text.mp4"),
        ({"answer": None}, 1, "bad.jsonl:2: field 'answer': missing"),
        ({"problem_type": "multipel choice"}, 1, "bad.jsonl:2: field 'problem_type': .*did you mean 'multiple choice'"),
        ({"problem": "<video> and <video>?"}, 1, "bad.jsonl:2: field 'problem': 2 <video> tags but 1 videos"),
        ({"problem": "What? " * 2000}, 1, "bad.jsonl:2: sample bad: the prompt has .* the limit is 1000"),
        ({"answer": "Z"}, 1, "bad.jsonl:2"),
    ],
)
def test_a_bad_sample_is_an_error_that_names_file_line_and_remedy_or_a_counted_skip(
    folder, tmp_path, capsys, change, code, message
):
    (folder / "text.mp4").write_text("<html>not a video</html>")
    good = rows()
    bad = {**good[0], "problem_id": "bad", "videos": ["a.mp4"]} | change
    write_rows(folder / "bad.jsonl", [good[0], bad, *good[1:]])
    path = recipe(folder, tmp_path / "run", data="bad.jsonl", steps=1)
    assert main(["train", path]) == code
    error = capsys.readouterr().err
    import re

    assert re.search(message, error), error
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    if "answer" in change and change["answer"] is None:
        return  # rows that do not parse are errors whatever the policy, see the test below
    assert main(["train", path, "data.on_bad_sample=skip"]) == 0
    skipped = [json.loads(line) for line in (tmp_path / "run" / "bad_samples.jsonl").read_text().splitlines()]
    assert len(skipped) == 1
    assert skipped[0]["where"]


def test_a_prompt_that_leaves_no_room_for_a_response_is_named_before_the_model_is_loaded(folder, tmp_path, capsys):
    path = recipe(folder, tmp_path / "run", tokens_per_pack=60)
    assert main(["train", path]) == 1
    error = capsys.readouterr().err
    assert "rows.jsonl:1: sample video-a: the prompt has " in error
    assert "with rollout.max_response_tokens=4 it has to fit into train.tokens_per_pack=60 (raise " in error
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert main(["train", path, "data.on_bad_sample=skip", "data.validation=[]"]) == 0
    skipped = [json.loads(line) for line in (tmp_path / "run" / "bad_samples.jsonl").read_text().splitlines()]
    assert {entry["where"].rpartition(":")[2] for entry in skipped} < {"1", "2", "3", "4"}


def test_rows_that_do_not_parse_are_skipped_and_counted_too(folder, tmp_path):
    (folder / "bad.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows())
        + '{"problem": "no answer", "problem_type": "math"}\n{broken\n'
    )
    path = recipe(folder, tmp_path / "run", data="bad.jsonl", steps=1)
    assert main(["train", path]) == 1
    assert main(["train", path, "data.on_bad_sample=skip"]) == 0
    skipped = [json.loads(line) for line in (tmp_path / "run" / "bad_samples.jsonl").read_text().splitlines()]
    assert [entry["where"].rpartition(":")[2] for entry in skipped] == ["5", "6"]


def test_a_typo_in_the_configuration_is_named_with_its_remedy(folder, tmp_path, capsys):
    assert main(["train", recipe(folder, tmp_path / "run"), "rollout.temprature=1"]) == 2
    assert "unknown key 'rollout.temprature'; did you mean 'temperature'?" in capsys.readouterr().err
    assert main(["train", recipe(folder, tmp_path / "run"), "algorithm.name=grpoo"]) == 2
    assert "did you mean 'grpo'?" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "none.yaml")]) == 2


@pytest.mark.slow
def test_a_process_killed_outright_and_restarted_equals_one_never_killed(folder, tmp_path):
    whole, killed = (recipe(folder, tmp_path / name, steps=6) for name in ("whole", "killed"))
    assert main(["train", whole]) == 0
    with start_warm("train", killed) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "killed" / "checkpoints" / "step-000002").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    assert main(["train", killed]) == 0
    first, second = (comparable(read_metrics(tmp_path / name / "metrics.jsonl")) for name in ("whole", "killed"))
    assert first == second
    weights = [
        (tmp_path / name / "checkpoints" / "step-000006" / "model" / "model.safetensors").read_bytes()
        for name in ("whole", "killed")
    ]
    assert weights[0] == weights[1]


def test_a_problem_type_of_ones_own_is_judged_by_its_function_from_load_to_update(folder, tmp_path):
    code = "from easyvideor1.types import Score\n\n\ndef judge(sample, text):\n    return Score(value=0.25)\n"
    (tmp_path / "mine.py").write_text(code)
    own = [row | {"problem_type": "my type"} for row in rows()]
    write_rows(folder / "own.jsonl", own)
    place = f"reward.rewards={{my type: '{tmp_path / 'mine.py'}:judge'}}"
    path = recipe(folder, tmp_path / "run", data="own.jsonl", steps=1)
    assert main(["train", path, place]) == 0
    metrics = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["accuracy/my type"] for row in metrics if "accuracy/my type" in row] == [0.25]


@pytest.mark.parametrize("words", [(), pytest.param(("parallel.sequence=2",), marks=[pytest.mark.slow, WHEN_ASKED])])
def test_two_processes_go_on_with_the_run_of_one_as_it_does(folder, tmp_path, words):
    """Each with packs of its own, and both with all packs together."""
    overrides = ["algorithm.options={kl_coef: 0.1}", "train.validation_samples=1", "train.checkpoint_every=2"]
    one, two = recipe(folder, tmp_path / "one"), recipe(folder, tmp_path / "two")
    assert main(["train", one, *overrides, "train.steps=3"]) == 0
    assert main(["train", two, *overrides, "train.steps=2"]) == 0
    assert results(command, ["train", two, *overrides, "train.steps=3", *words]) == [0, 0]
    found, expected = (comparable(read_metrics(tmp_path / run / "metrics.jsonl")) for run in ("two", "one"))
    at_steps = [[record for record in records if "loss/total" in record] for records in (found, expected)]
    assert [record["step"] for record in at_steps[0]] == [1, 2, 3]
    for record, wanted in zip(*at_steps, strict=True):
        assert record.keys() == wanted.keys()
        for name in wanted.keys() - {"update/model_tokens"}:
            assert record[name] == pytest.approx(wanted[name], rel=1e-3, abs=1e-5), name
    answers = [
        [(answer["step"], answer["id"], answer["kind"], answer["response"]) for answer in read_validation(path)]
        for path in (tmp_path / run / "validation.jsonl" for run in ("two", "one"))
    ]
    assert [answer for answer in answers[0] if answer[0] in (0, 3)] == answers[1]
    assert (tmp_path / "two" / "report.html").exists()
    assert (tmp_path / "two" / "log.1.txt").exists()
