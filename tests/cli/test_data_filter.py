"""`data filter` as a person runs it, with a tiny random model and a reward that depends on every sampled token."""

import json

import pytest
import yaml

from easyvideor1.cli import main
from easyvideor1.data.samples import read_samples
from easyvideor1.demo.model import new_model, save, train_tokenizer

REWARD = """
from easyvideor1.types import Score


def by_length(sample, text):
    return Score(value=float(len(text) % 3 == 0))
"""


@pytest.fixture
def recipe(tmp_path, write_rows, write_video):
    """A recipe over six questions to a video and in text."""
    tokenizer = train_tokenizer(["How many balls are in the video? <answer>3</answer>"])
    save(new_model(tokenizer, seed=0), tokenizer, tmp_path / "model")
    write_video("a.mp4", num_frames=6)
    (tmp_path / "own.py").write_text(REWARD)
    rows = [
        {"problem_id": f"q{i}", "problem": f"How many of {i}?", "problem_type": "numerical", "answer": "3"}
        | ({"videos": ["a.mp4"]} if i % 2 else {})
        for i in range(6)
    ]
    tree = {
        "out": "unused",
        "model": {"path": str(tmp_path / "model")},
        "data": {
            "train": [{"path": str(write_rows(rows))}],
            "video": {"min_frames": 2, "max_frames": 2, "min_pixels": 4096, "max_pixels": 4096},
        },
        "cache": {"dir": str(tmp_path / "cache")},
        "rollout": {"max_response_tokens": 6, "tokens_per_batch": 400},
        "reward": {"rewards": {"numerical": f"{tmp_path / 'own.py'}:by_length"}, "workers": 1, "deadline_s": 60},
        "train": {"steps": 1},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


def test_a_killed_filter_goes_on_to_the_same_files_and_new_bounds_need_no_model(tmp_path, recipe, capsys):
    words = ["data", "filter", "--recipe", str(recipe), "--out"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert main([*words, str(whole)]) == 0
    assert "kept" in capsys.readouterr().out
    rates = (whole / "rates.jsonl").read_bytes().splitlines(keepends=True)
    assert len(rates) == 6
    kept = read_samples(whole / "kept.jsonl", media_root=json.loads((whole / "summary.json").read_text())["media_root"])
    assert {sample.modality for sample in kept} == {"text", "video"}
    assert all(0 < sample.extra["pass_rate"] < 1 for sample in kept)

    stopped.mkdir()
    (stopped / "settings.json").write_bytes((whole / "settings.json").read_bytes())
    (stopped / "rates.jsonl").write_bytes(b"".join(rates[:3]) + rates[3][:20])
    assert main([*words, str(stopped)]) == 0
    assert files(stopped) == files(whole)

    capsys.readouterr()
    (tmp_path / "cache").rename(tmp_path / "gone")
    assert main([*words, str(whole), "--min", "0", "--max", "1", "--inclusive", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["kept"], summary["dropped"], summary["failed"]) == (6, 0, 0)
    assert not (tmp_path / "cache").exists()

    assert main([*words, str(whole), "seed=1"]) == 2
    assert "other values of seed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--model DIR"),
        (["--model", "m", "--min", "1"], "no pass rate lies within --min 1"),
        (["--recipe", "RECIPE", "rollout.temperature=0"], "rollout.temperature must be above 0"),
        (["--recipe", "RECIPE", "x/a.jsonl", "y/b.jsonl"], "one by one, each with its own --out, or give --media-root"),
    ],
)
def test_wrong_usage_says_what_to_do(tmp_path, recipe, capsys, options, said):
    words = [str(recipe) if word == "RECIPE" else word for word in options]
    data = [] if "--recipe" in options else ["a.jsonl"]
    assert main(["data", "filter", *data, *words, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
