"""`easyvideor1 export`: the trained model as a folder that every reader of models understands."""

import errno
import json
import re
import shutil

import pytest
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText

from easyvideor1.cli import main
from easyvideor1.config import LoraConfig, ModelConfig
from easyvideor1.data.encode import Encoder
from easyvideor1.demo.model import new_model, save, train_tokenizer
from easyvideor1.errors import UsageError
from easyvideor1.model.load import load_model
from easyvideor1.recipe import load_config
from easyvideor1.records.folder import RunFolder
from easyvideor1.records.metrics import MetricsLog
from easyvideor1.runs import starting_model
from easyvideor1.runs.encoders import encoder_of
from easyvideor1.runs.starting_model import check_same_start, is_same_start, model_files
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


def note_validations(run, accuracies):
    log = MetricsLog(run / "metrics.jsonl")
    for step, accuracy in accuracies.items():
        log.log(step, {"validation/greedy_accuracy_frac": accuracy})
    log.close()


@pytest.mark.parametrize(
    ("best", "accuracies", "words", "says", "warns"),
    [
        (7, {0: 0.25, 7: 0.5}, (), "step 7 .*the best greedy accuracy .*: 50.0%, 25.0% at the start", ""),
        (7, {0: 0.5, 7: 0.25}, (), "step 7 ", "25.0% is below the 50.0% of the start; give --step last for step 9"),
        (0, {0: 0.5, 7: 0.25}, (), "step 0 ", "the start of the run: no later .* give --step last for step 9"),
        (7, {0: 0.25, 7: 0.5}, ("--step", "last"), "step 9 .*the last checkpoint", ""),
        (7, {0: 0.25, 7: 0.5}, ("--step", "9"), "step 9 .*asked for", ""),
        (7, {0: 0.25, 7: 0.5}, ("--step", "best"), "step 7 .*the best", ""),
    ],
)
def test_which_step_it_is_and_why_is_said(make_run, tmp_path, capsys, best, accuracies, words, says, warns):
    run, model = make_run()
    save_checkpoint(run, model, step=best)
    shelf.mark_best(run / "checkpoints" / f"step-{best:06d}")
    save_checkpoint(run, model, step=9)
    note_validations(run, accuracies)
    assert main(["export", str(run), "--out", str(tmp_path / "x"), *words]) == 0
    output = capsys.readouterr()
    assert re.search(says, output.out), output.out
    assert re.search(warns, output.err) if warns else "warning: " not in output.err


def test_a_step_that_is_not_there_is_named_with_those_that_are(make_run, tmp_path, capsys):
    run, _ = make_run()
    assert main(["export", str(run), "--out", str(tmp_path / "x"), "--step", "8"]) == 2
    assert "no checkpoint of step 8; there are best, last, 7" in capsys.readouterr().err
    assert main(["export", str(run), "--out", str(tmp_path / "x"), "--step", "best"]) == 2
    assert "give --step last" in capsys.readouterr().err


def test_exported_files_are_those_of_the_base_and_readable_for_others(make_run, tmp_path):
    run, _ = make_run()
    for name in ("chat_template.json", "special.json"):
        (tmp_path / "base" / name).write_text("{}")
    assert main(["export", str(run), "--out", str(tmp_path / "deep" / "x")]) == 0
    names = {path.name for path in (tmp_path / "base").iterdir()}
    assert {path.name for path in (tmp_path / "deep" / "x").iterdir()} == names
    plain = tmp_path / "plain"
    plain.touch()
    assert {path.stat().st_mode for path in (tmp_path / "deep" / "x").iterdir()} == {plain.stat().st_mode}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error")])
def test_what_cannot_be_written_whole_leaves_nothing(make_run, tmp_path, capsys, monkeypatch, error):
    run, _ = make_run(LORA)  # whose weights have to be made; others are copied

    def fail(model, folder):
        (folder / "model.safetensors").write_bytes(b"half")
        raise error

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", fail)
    before = sorted(tmp_path.rglob("*"))
    assert main(["export", str(run), "--out", str(tmp_path / "deep" / "x")]) == 2
    assert "make room there" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_that_a_run_removes_meanwhile_is_named(make_run, tmp_path, capsys, monkeypatch):
    run, _ = make_run()
    copy = shutil.copyfile

    def removed(source, target, **options):
        if "checkpoints" in str(source):
            shutil.rmtree(run / "checkpoints")
        return copy(source, target, **options)

    monkeypatch.setattr("easyvideor1.runs.exporting.shutil.copyfile", removed)
    assert main(["export", str(run), "--out", str(tmp_path / "x")]) == 3
    assert "step-000007: this checkpoint was removed while it was copied" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_another_tokenizer_of_a_run_goes_with_its_model(make_run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (other / name).write_text((tmp_path / "base" / name).read_text())
    tree = json.loads((other / "tokenizer.json").read_text())
    tree["model"]["merges"] = []  # letters one by one
    (other / "tokenizer.json").write_text(json.dumps(tree))
    with (other / "chat_template.jinja").open("a") as file:
        file.write("{# another one #}")
    run, _ = make_run(f"model.tokenizer={other}")
    ids = Encoder.from_pretrained(tmp_path / "base", tokenizer=other).response_ids("What colour")
    assert len(ids) > len(Encoder.from_pretrained(tmp_path / "base").response_ids("What colour"))
    assert encoder_of(ModelConfig(path=str(run))).response_ids("What colour") == ids  # what begins with the run
    assert main(["export", str(run), "--out", str(tmp_path / "exported")]) == 0
    exported = Encoder.from_pretrained(tmp_path / "exported")
    assert exported.response_ids("What colour") == ids
    assert "another one" in str(exported.tokenizer.chat_template)


@pytest.mark.parametrize("overrides", [(), (LORA,)], ids=["all weights", "adapters"])
def test_a_run_and_a_checkpoint_are_models_too(make_run, overrides, tmp_path):
    run, model = make_run(*overrides)
    ids = torch.arange(5)[None]
    for path in (run, run / "checkpoints" / "step-000007"):
        assert model_files(str(path)) == tmp_path / "base"
        loaded = starting_model.load_model(ModelConfig(path=str(path)))
        assert all(parameter.requires_grad for parameter in loaded.parameters())
        with torch.no_grad():
            torch.testing.assert_close(loaded.eval()(ids).logits, model.eval()(ids).logits, rtol=1e-5, atol=1e-5)
    again = starting_model.load_model(ModelConfig(path=str(run), lora=LoraConfig(rank=4)))
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(ids).logits, model.eval()(ids).logits, rtol=1e-5, atol=1e-5)


def test_a_run_that_goes_on_stands_on_the_checkpoint_it_began_with(make_run, tmp_path):
    run, model = make_run()
    note = tmp_path / "start.json"
    for _ in range(2):
        check_same_start(str(run), note)
    save_checkpoint(run, model, step=9)
    with pytest.raises(UsageError, match=r"began with step 7 .* step 9 stands for it; begin a new run"):
        check_same_start(str(run), note)


def test_a_run_goes_on_with_the_weights_it_began_with_wherever_they_lie(make_run, tmp_path):
    make_run()
    note, base = tmp_path / "start.json", tmp_path / "base"
    for _ in range(2):
        check_same_start(str(base), note)
    shutil.copytree(base, tmp_path / "moved")
    assert is_same_start(str(tmp_path / "moved"), note)
    weights = load_file(base / "model.safetensors")
    name = next(name for name in weights if name.endswith("norm.weight"))
    save_file(weights | {name: weights[name] + 1}, base / "model.safetensors", metadata={"format": "pt"})
    assert not is_same_start(str(base), note)
    assert not is_same_start(str(tmp_path / "nowhere"), note)
    with pytest.raises(UsageError, match=r"model\.path=.*base: its weights are not those that this run began with"):
        check_same_start(str(base), note)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", "hf download Qwen/Qwen3-VL-8B-Instruct --local-dir Qwen3-VL-8B-Instruct"),
        ("/nowhere/at/all", "no such folder; give a folder in Transformers' format, or a run"),
        ("base/config.json", "is a file"),
        (".", "the folder has no config.json"),
    ],
)
def test_what_is_no_model_is_named_with_the_remedy(make_run, tmp_path, monkeypatch, path, message):
    make_run()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(message)):
        model_files(path)


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
