"""`easyvideor1 export`: the trained model as a folder that every reader of models understands."""

import pytest
import torch
import yaml
from transformers import AutoModelForImageTextToText

from easyvideor1.cli import main
from easyvideor1.config import load_config
from easyvideor1.data.encode import Encoder
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.model.load import load_model
from easyvideor1.records.folder import RunFolder
from easyvideor1.training import shelf
from easyvideor1.training.checkpoint import RunState, Saver
from easyvideor1.training.masters import MasterWeights

LORA = "model.lora={rank: 2}"


def save_checkpoint(run, model, *, step):
    masters = MasterWeights(model)
    Saver(run / "checkpoints", keep=2).save(
        model=model,
        masters=masters,
        optimizer=torch.optim.AdamW(masters.by_name.values()),
        state=RunState(step=step, cursor=0, validated_step=-1),
    )
    return run / "checkpoints" / shelf.name_of(step)


@pytest.fixture
def make_run(tmp_path):
    """Writes a run of one checkpoint whose weights differ from the base; returns its folder and model."""
    tokenizer = train_tokenizer(["What colour is it? A. red B. blue"] * 50)
    save(new_model(tokenizer, seed=0), tokenizer, tmp_path / "base")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        yaml.safe_dump(
            {
                "out": str(tmp_path / "run"),
                "model": {"path": str(tmp_path / "base")},
                "data": {"train": [{"path": "rows.jsonl"}]},
                "cache": {"dir": "cache"},
                "train": {"steps": 1},
            }
        )
    )

    def make(*overrides: str):
        config = load_config(recipe, overrides)
        model = load_model(config.model)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.01)
        folder = RunFolder(config.out)
        folder.path.mkdir(parents=True)
        folder.write_start(config)
        save_checkpoint(folder.path, model, step=7)
        return folder.path, model

    return make


@pytest.mark.parametrize("overrides", [(), (LORA,)], ids=["all weights", "adapters"])
def test_the_exported_model_computes_what_was_trained(make_run, overrides, tmp_path, capsys):
    run, model = make_run(*overrides)
    assert main(["export", str(run), "--out", str(tmp_path / "exported")]) == 0
    assert "step 7" in capsys.readouterr().out
    exported = AutoModelForImageTextToText.from_pretrained(tmp_path / "exported")
    base_model = AutoModelForImageTextToText.from_pretrained(tmp_path / "base")
    ids = torch.arange(5)[None]
    with torch.no_grad():
        torch.testing.assert_close(exported(ids).logits, model.eval()(ids).logits, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(exported(ids).logits, base_model(ids).logits, atol=1e-3)
    base = Encoder.from_pretrained(tmp_path / "base")
    assert Encoder.from_pretrained(tmp_path / "exported").response_ids("A. red") == base.response_ids("A. red")
    assert list(tmp_path.glob(".*")) == []


def test_the_best_checkpoint_comes_before_the_newest(make_run, tmp_path, capsys):
    run, model = make_run()
    shelf.mark_best(run / "checkpoints" / "step-000007")
    newest = save_checkpoint(run, model, step=9)
    for path, step in ((run, 7), (run / "checkpoints" / "best", 7), (newest, 9)):
        assert main(["export", str(path), "--out", str(tmp_path / f"out-{path.name}")]) == 0
        assert f"step {step} " in capsys.readouterr().out


def test_a_folder_without_a_checkpoint_and_a_full_target_are_refused(make_run, tmp_path, capsys):
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "x")]) == 2
    assert "neither a checkpoint nor the folder of a run" in capsys.readouterr().err
    run, _ = make_run()
    assert main(["export", str(run), "--out", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_base_model_that_moved_is_named(make_run, tmp_path, capsys):
    run, _ = make_run()
    (tmp_path / "base").rename(tmp_path / "moved")
    assert main(["export", str(run), "--out", str(tmp_path / "x")]) == 2
    assert "model.path" in capsys.readouterr().err
