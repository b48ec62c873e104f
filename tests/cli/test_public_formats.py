"""Public data sets, as their authors write them, go all the way: convert, check, test of rewards, a training step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.public_rows import FORMATS, TABLE_MAP, write_media

from easyvideor1.cli import main
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.report.read import read_metrics

SMALL = {"fps": 2.0, "min_frames": 2, "max_frames": 4, "min_pixels": 4096, "max_pixels": 4096}
TEXTS = ["Which colour is it? A. red B. blue Think in <think> tags, then give the option letter in <answer> tags."] * 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The media of all formats and a model; frames are decoded once for all."""
    folder = tmp_path_factory.mktemp("formats")
    tokenizer = train_tokenizer(TEXTS)
    save(new_model(tokenizer, seed=0), tokenizer, folder / "model")
    write_media(folder)
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_a_public_format_is_converted_checked_tried_and_trained_on(
    name: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = FORMATS[name](folder), folder / "new" / name / "rows.jsonl"
    named = [word for pair in TABLE_MAP for word in ("--map", pair)] if name == "table" else []
    assert main(["data", "convert", str(source), "--out", str(out), *named]) == 0
    num_rows = len(out.read_text().splitlines())
    assert num_rows >= 2
    assert f"{num_rows} rows in {out}" in " ".join(capsys.readouterr().out.split())
    settings = [f"data.{kind}.{key}={value}" for kind in ("video", "image") for key, value in SMALL.items()]
    settings.append(f"cache.dir={folder / 'cache'}")
    assert main(["data", "check", str(out), "--workers", "1", "--json", *settings]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["rows"], found["errors"], found["warnings"]) == (num_rows, 0, 0), found["problems"]
    assert main(["reward", "test", str(out)]) == 0
    recipe = tmp_path / "run.yaml"
    tree = {
        "out": str(tmp_path / "run"),
        "model": {"path": str(folder / "model")},
        "data": {
            "train": [{"path": str(out)}],
            "video": SMALL,
            "image": SMALL,
            "max_prompt_tokens": 2000,
            "workers": 1,
        },
        "cache": {"dir": str(folder / "cache")},
        "rollout": {"n": 2, "max_response_tokens": 4},
        "train": {"steps": 1, "prompts_per_step": 2, "stop": {"zero_reward_steps": 0}},
    }
    recipe.write_text(yaml.safe_dump(tree))
    assert main(["train", str(recipe)]) == 0
    assert 1 in {record["step"] for record in read_metrics(tmp_path / "run" / "metrics.jsonl")}
