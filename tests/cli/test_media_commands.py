"""The commands that look at media, run as a person runs them."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from easyvideor1.cli import main
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.errors import JobDied
from easyvideor1.jobs.pool import Outcome
from easyvideor1.runs import preprocessing
from easyvideor1.types import Clip
from easyvideor1.video.clip_file import read_clip
from easyvideor1.video.contact_sheet import contact_sheet

ANSWER_KEYS = {
    "verdict", "reason", "warnings", "width", "height", "times_s", "source_fps", "duration_s", "num_tokens", "grid_thw",
    "backend", "stored_frames",
}  # fmt: skip
SMALL = ["--max-frames", "8", "--min-pixels", "4096"]
SETTINGS = ["data.video.max_frames=8", "data.video.min_pixels=4096"]


def answer(capsys, *words) -> tuple[int, dict]:
    code = main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_video_plan_says_what_will_be_seen(capsys, write_video):
    code, plan = answer(capsys, "video", "plan", write_video("a.mp4", num_frames=24, fps=6), *SMALL)
    assert code == 0
    assert plan.keys() >= ANSWER_KEYS
    assert (plan["verdict"], plan["reason"], plan["warnings"]) == ("ok", "", [])
    assert (plan["width"], plan["height"], plan["grid_thw"]) == (64, 64, [4, 4, 4])
    assert (plan["num_tokens"], plan["stored_frames"], len(plan["times_s"])) == (16, 8, 8)
    assert (plan["source_fps"], plan["duration_s"]) == (6.0, 4.0)


def test_video_decode_writes_the_planned_frames_and_times(capsys, tmp_path, write_video):
    path, out = write_video("a.mp4", num_frames=24, fps=6), tmp_path / "new" / "clip.safetensors"
    _, plan = answer(capsys, "video", "plan", path, *SMALL, "--start", "1", "--end", "3")
    code, decoded = answer(capsys, "video", "decode", path, *SMALL, "--start", "1", "--end", "3", "--out", out)
    assert code == 0
    assert decoded == plan
    clip = read_clip(out)
    assert clip.frames.shape == (plan["stored_frames"], 3, plan["height"], plan["width"])
    assert list(clip.times_s) == plan["times_s"]


def test_a_frame_rate_makes_a_video_of_a_folder_of_frames(capsys, tmp_path):
    folder = tmp_path / "frames"
    folder.mkdir()
    for number in range(1, 13):
        Image.new("RGB", (64, 64), (number, 0, 0)).save(folder / f"frame_{number}.png")
    code, refused = answer(capsys, "video", "plan", folder, *SMALL)
    assert (code, refused["verdict"]) == (1, "error")
    code, plan = answer(capsys, "video", "plan", folder, *SMALL, "--frames-fps", "4")
    assert (code, plan["duration_s"], plan["source_fps"]) == (0, 3.0, 4.0)


@pytest.mark.parametrize("action", ["plan", "decode"])
def test_an_unreadable_file_is_a_verdict_with_its_name(capsys, tmp_path, action):
    (tmp_path / "page.mp4").write_text("<html>404</html>")
    code, refused = answer(capsys, "video", action, tmp_path / "page.mp4")
    assert code == 1
    assert refused.keys() >= ANSWER_KEYS
    assert refused["verdict"] == "error"
    assert "page.mp4" in refused["reason"]


def test_contradicting_limits_are_wrong_usage(capsys, write_video):
    assert main(["video", "plan", str(write_video("a.mp4")), "--max-pixels", "2000"]) == 2
    assert "max_pixels" in capsys.readouterr().err


def rows_of(*videos) -> list[dict]:
    return [
        {
            "problem_id": f"q{number}",
            "problem": "How many?",
            "problem_type": "numerical",
            "answer": "3",
            "videos": [name],
        }
        for number, name in enumerate(videos)
    ]


def test_preprocess_fills_the_cache_and_a_second_run_reuses_it(capsys, tmp_path, write_video, write_rows):
    write_video("a.mp4")
    data, cache = write_rows(rows_of("a.mp4", "a.mp4", "gone.mp4")), tmp_path / "cache"
    command = ["preprocess", data, "--cache", cache, "--workers", "1", *SETTINGS]
    code, summary = answer(capsys, *command)
    assert code == 1
    assert [summary[name] for name in ("total", "done", "reused", "failed")] == [2, 1, 0, 1]
    (failure,) = map(json.loads, (cache / "failed.jsonl").read_text().splitlines())
    assert "gone.mp4" in failure["error"]
    assert failure["rows"] == [f"{data}:3"]
    write_rows(rows_of("a.mp4", "a.mp4"))
    code, summary = answer(capsys, *command)
    assert code == 0
    assert [summary[name] for name in ("total", "done", "reused", "failed")] == [1, 0, 1, 0]
    assert not (cache / "failed.jsonl").exists()


def test_preprocess_leaves_the_failures_of_other_data_and_other_shards_in_the_list(
    capsys, tmp_path, write_video, write_rows
):
    write_video("a.mp4")
    cache, shown = tmp_path / "cache", tmp_path / "failed.jsonl"
    common = ["--cache", cache, "--workers", "1", "--failed", shown, *SETTINGS]
    first, second = write_rows(rows_of("gone.mp4"), "one.jsonl"), write_rows(rows_of("a.mp4"), "two.jsonl")
    assert answer(capsys, "preprocess", first, *common)[0] == 1
    assert answer(capsys, "preprocess", second, *common)[0] == 0
    assert "gone.mp4" in shown.read_text()
    assert answer(capsys, "preprocess", first, "--shard", "2/2", *common)[0] == 0, "nothing falls to this part"
    assert "gone.mp4" in shown.read_text()
    write_rows(rows_of("a.mp4"), "one.jsonl")
    assert answer(capsys, "preprocess", first, *common)[0] == 0
    assert not shown.exists()


def test_preprocess_tries_a_medium_once_more_whose_decoder_was_killed(
    capsys, monkeypatch, tmp_path, write_video, write_rows
):
    write_video("a.mp4")
    run_all, calls = preprocessing.run_all, []

    def killed_at_first(work, items, **options):
        calls.append(list(items))
        if len(calls) == 1:
            return (Outcome(item=item, result=None, error=JobDied("killed"), wall_s=0.0) for item in items)
        return run_all(work, items, **options)

    monkeypatch.setattr(preprocessing, "run_all", killed_at_first)
    data, cache = write_rows(rows_of("a.mp4")), tmp_path / "cache"
    code, summary = answer(capsys, "preprocess", data, "--cache", cache, "--workers", "1", *SETTINGS)
    assert (code, summary["done"], len(calls)) == (0, 1, 2)


def test_preprocess_without_a_cache_folder_is_wrong_usage(capsys, tmp_path, write_rows):
    assert main(["preprocess", str(write_rows(rows_of()))]) == 2
    assert "--cache" in capsys.readouterr().err


def test_data_check_counts_and_lists_what_is_wrong(capsys, tmp_path, write_video, write_rows):
    write_video("a.mp4")
    good = write_rows(rows_of("a.mp4", "a.mp4"), "good.jsonl")
    code, report = answer(capsys, "data", "check", good, "--workers", "1", *SETTINGS)
    assert (code, report["errors"], report["media"]["distinct"], report["media"]["decoded_now"]) == (0, 0, 1, 1)
    assert report["by_problem_type"] == {"numerical": 2}
    assert (tmp_path / "good.jsonl.verdicts.jsonl").exists()
    bad = write_rows([*rows_of("a.mp4"), *rows_of("gone.mp4")], "bad.jsonl")
    assert main(["data", "check", str(bad), "--workers", "1", *SETTINGS]) == 1
    shown = capsys.readouterr().out
    assert "1 id occurs on 2 rows" in " ".join(shown.split())
    assert "2 rows: 1 errors" in shown


def test_a_sheet_shows_every_frame_with_its_time():
    frames = np.zeros((5, 3, 40, 60), np.uint8)
    for number in range(5):
        frames[number, 0] = 50 * number
    clip = Clip(frames=frames, times_s=(0.0, 0.5, 1.0, 1.5, 2.0), source_fps=2.0, duration_s=2.5, backend="fake")
    sheet = np.asarray(contact_sheet(clip, width=300))
    assert sheet.shape[1] <= 300
    reds = {int(red) for red, green, _ in sheet.reshape(-1, 3) if green == 0}
    assert reds >= {0, 50, 100, 150, 200}  # all five frames
    assert (sheet > 128).all(axis=-1).any()  # and text on them


def test_explain_writes_the_prompt_and_a_picture_per_medium(capsys, tmp_path, write_video, write_rows):
    write_video("a.mp4", num_frames=24)
    Image.new("RGB", (96, 64), (9, 9, 9)).save(tmp_path / "b.png")
    row = rows_of("a.mp4")[0] | {"problem": "<image> In <video>, how many?", "images": ["b.png"]}
    code, told = answer(capsys, "explain", write_rows([row]), "--id", "q0", "--out", tmp_path / "x", *SETTINGS)
    assert code == 0
    assert "<image> In <video>, how many?" in (tmp_path / "x" / "prompt.txt").read_text()
    assert [media["kind"] for media in told["media"]] == ["image", "video"]
    assert told["media"][1]["grid_thw"] == [4, 4, 4]
    assert told["num_vision_tokens"] == sum(media["num_tokens"] for media in told["media"])
    for number in (0, 1):
        with Image.open(tmp_path / "x" / f"media-{number}.png") as sheet:
            sheet.verify()
    assert json.loads((tmp_path / "x" / "explain.json").read_text()) == told


def test_explain_names_the_nearest_id(capsys, tmp_path, write_rows):
    data = write_rows([rows_of("a.mp4")[0] | {"videos": []}])
    assert main(["explain", str(data), "--id", "q00", "--out", str(tmp_path / "x")]) == 2
    assert "nearest: q0" in capsys.readouterr().err


def test_with_a_model_the_prompt_has_its_ids_and_its_exact_length(capsys, tmp_path, write_video, write_rows):
    tokenizer = train_tokenizer(["How many? Answer with a number. " * 3])
    save(new_model(tokenizer, seed=0), tokenizer, tmp_path / "model")
    write_video("a.mp4", num_frames=24)
    data, model = write_rows(rows_of("a.mp4")), ("--model", tmp_path / "model")
    _, told = answer(capsys, "explain", data, "--id", "q0", "--out", tmp_path / "x", *model, *SETTINGS)
    assert told["num_tokens"] == len(told["input_ids"])
    assert told["num_tokens"] > told["num_vision_tokens"] == 16
    assert (tmp_path / "x" / "prompt.txt").read_text() == told["prompt"]
    assert "How many?" in told["prompt"]
    limit = (f"data.max_prompt_tokens={told['num_tokens'] - 1}",)
    code, report = answer(capsys, "data", "check", data, "--workers", "1", *model, *limit, *SETTINGS)
    assert (code, report["problems"][0]["about"]) == (1, "length")
    assert (report["tokens"]["of"], report["tokens"]["max"]) == ("prompt", told["num_tokens"])


def test_what_cannot_be_written_is_named(capsys, tmp_path, write_video, write_rows):
    path = write_video("a.mp4")
    data = write_rows(rows_of("a.mp4", "gone.mp4"))
    inside = path / "x"  # below a file
    assert main(["video", "decode", str(path), "--out", str(inside), *SMALL]) == 2
    assert f"--out {inside}: cannot be written" in capsys.readouterr().err
    assert main(["explain", str(data), "--id", "q0", "--out", str(inside), *SETTINGS]) == 2
    assert f"--out {inside}: cannot be written" in capsys.readouterr().err
    assert main(["preprocess", str(data), "--cache", str(inside), "--workers", "1"]) == 2
    assert f"{path} is a file" in capsys.readouterr().err
    words = [
        "preprocess",
        str(data),
        "--cache",
        str(tmp_path / "c"),
        "--workers",
        "1",
        "--failed",
        str(inside),
        *SETTINGS,
    ]
    assert main(words) == 2
    assert f"{inside}: cannot write the list of failures" in capsys.readouterr().err


def test_preprocess_skips_wrong_rows_where_the_recipe_does(capsys, tmp_path, write_video, write_rows):
    write_video("a.mp4")
    data = write_rows([*rows_of("a.mp4"), {"problem": "no answer", "problem_type": "numerical"}])
    command = ["preprocess", str(data), "--cache", str(tmp_path / "cache"), "--workers", "1", *SETTINGS]
    assert main(command) == 1
    assert f"{data}:2: field 'answer': missing" in capsys.readouterr().err
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"out: {tmp_path}\nmodel: {{path: {tmp_path}}}\nalgorithm: {{name: grpo}}\ntrain: {{steps: 1}}\n"
        f"data: {{train: [{{path: {data}}}], on_bad_sample: skip}}\ncache: {{dir: {tmp_path}/cache}}\n"
    )
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')
    assert main([*command, "--recipe", str(recipe)]) == 0
    assert f"skipped: {data}:2: field 'answer'" in capsys.readouterr().err


def test_preprocess_leaves_a_list_of_failures_that_is_no_file_alone(tmp_path, write_video, write_rows):
    write_video("a.mp4")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = ["preprocess", write_rows(rows_of("a.mp4")), "--cache", tmp_path / "cache", "--failed", pipe, *SETTINGS]
    assert main([*map(str, command), "--workers", "1"]) == 0
    assert pipe.exists()


def test_a_gold_answer_that_cannot_be_read_is_told_with_field_and_remedy(capsys, write_rows):
    data = write_rows([rows_of("a.mp4")[0] | {"answer": "many", "videos": []}])
    _, report = answer(capsys, "data", "check", data, "--workers", "1")
    (problem,) = report["problems"]
    assert problem["text"].startswith("field 'answer'")
    assert "write the answer in that form" in problem["text"]


def test_data_check_knows_the_rewards_of_a_recipe(capsys, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"problem": "?", "answer": "x", "problem_type": "my type"}) + "\n")
    (tmp_path / "mine.py").write_text("def judge(sample, text):\n    raise AssertionError\n")
    recipe = tmp_path / "recipe.yaml"
    tree = {
        "out": "run",
        "model": {"path": "easyvideor1/demo/model"},
        "data": {"train": [{"path": str(tmp_path / "rows.jsonl")}]},
        "cache": {"dir": str(tmp_path / "cache")},
        "train": {"steps": 1},
    }
    recipe.write_text(json.dumps(tree))
    assert main(["data", "check", "--recipe", str(recipe), "--workers", "1"]) == 1
    assert "has no reward" in " ".join(capsys.readouterr().out.split())
    recipe.write_text(json.dumps(tree | {"reward": {"rewards": {"my type": f"{tmp_path / 'mine.py'}:judge"}}}))
    assert main(["data", "check", "--recipe", str(recipe), "--workers", "1"]) == 0
