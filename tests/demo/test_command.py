from pathlib import Path

import pytest
from safetensors import safe_open

from easyvideor1.cli import main
from easyvideor1.data.encode import Encoder
from easyvideor1.demo.build import IMAGE_SPEC, VIDEO_SPEC
from easyvideor1.demo.setup import MODEL, demo_config
from easyvideor1.errors import UsageError
from easyvideor1.report.read import comparable, read_metrics
from easyvideor1.rewards.router import WEIGHTS


def test_the_recipe_looks_at_media_as_the_warm_start_did():
    config = demo_config(Path("x"), seed=3, overrides=[])
    assert (config.data.video, config.data.image) == (VIDEO_SPEC, IMAGE_SPEC)


def test_seed_paths_and_overrides_reach_the_configuration():
    config = demo_config(Path("some where"), seed=3, overrides=["train.steps=7", "model.path=other"])
    assert (config.seed, config.out, config.train.steps, config.model.path) == (3, "some where", 7, "other")
    assert config.data.validation[0].path == "some where/data/validation.jsonl"
    assert dict(config.reward.weights) == dict(WEIGHTS)


def test_the_shipped_model_is_small_and_its_tokenizer_fits_it():
    with safe_open(MODEL / "model.safetensors", framework="pt") as file:
        sizes = {name: file.get_tensor(name).numel() for name in file.keys()}  # noqa: SIM118 - not a mapping
    assert sum(sizes.values()) <= 4_000_000
    encoder = Encoder.from_pretrained(MODEL)
    assert encoder.vocab_size == len(encoder.tokenizer)
    assert len(encoder.response_ids("<think>It moves up (C).</think><answer>C</answer>")) <= 24


def test_the_demo_trains_a_step_goes_on_and_refuses_the_seed_of_another_data_set(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["demo", "--out", str(out), "train.prompts_per_step=2", "data.validation=[]", "train.checkpoint_every=1"]
    words += ["optimizer.schedule=constant", "data.workers=1"]
    assert main([*words, "train.steps=1"]) == 0
    assert (out / "report.html").exists()
    assert main([*words, "train.steps=2"]) == 0
    assert [row["step"] for row in comparable(read_metrics(out / "metrics.jsonl"))] == [1, 2]
    capsys.readouterr()
    assert main([*words[:3], "--seed", "1", *words[3:], "train.steps=2"]) == 2
    assert "another --out" in capsys.readouterr().err


def test_a_typo_in_an_override_is_found_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match="learning_rate"):
        demo_config(tmp_path, seed=0, overrides=["optimizer.learning_rat=1"])
    assert list(tmp_path.iterdir()) == []
