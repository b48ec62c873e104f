"""`train` and `demo` never write over what is not their own: refused, and every file is as it was."""

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from easyvideor1.cli import main
from easyvideor1.records.folder import RunFolder

PAGE = "<!doctype html><html><head><title>My thesis</title></head></html>\n"


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def write_recipe(path: Path, out: Path) -> Path:
    tree = {
        "out": str(out),
        "model": {"path": str(path.parent / "model")},
        "data": {"train": [{"path": str(path.parent / "rows.jsonl")}]},
        "cache": {"dir": str(path.parent / "cache")},
        "train": {"steps": 1},
    }
    path.write_text("# my notes\n" + yaml.safe_dump(tree))
    return path


@pytest.mark.parametrize("name", ["recipe.yaml", "config.yaml"])
def test_a_recipe_in_its_own_out_folder_is_refused(tmp_path: Path, name: str, capsys: pytest.CaptureFixture) -> None:
    recipe = write_recipe(tmp_path / name, tmp_path)
    before = digests(tmp_path)
    assert main(["train", str(recipe)]) == 2
    assert f"is not empty and holds no run ({name}); nothing of it was touched" in capsys.readouterr().err
    assert digests(tmp_path) == before


def test_a_data_folder_as_out_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    (data / "metrics.jsonl").write_text('{"step": 1}\n')
    (data / "run.json").write_text('{"camera": "left"}\n')
    recipe = write_recipe(tmp_path / "recipe.yaml", data)
    before = digests(tmp_path)
    for words in (["train", str(recipe)], ["demo", "--out", str(data)]):
        assert main(words) == 2
        assert "choose another `out`" in capsys.readouterr().err
    assert digests(tmp_path) == before


def test_a_foreign_report_is_refused_by_train_and_by_report(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "run"
    with RunFolder(out).claimed():
        pass
    (out / "report.html").write_text(PAGE)
    (out / "metrics.jsonl").write_text(json.dumps({"step": 1, "reward/mean": 0.5}) + "\n")
    recipe = write_recipe(tmp_path / "recipe.yaml", out)
    before = digests(tmp_path)
    for words in (["train", str(recipe)], ["report", str(out)]):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert "report.html was not written by easyvideor1" in error
        assert "move it away" in error
    assert digests(tmp_path) == before
    (out / "report.html").unlink()
    assert main(["report", str(out)]) == 0
    assert main(["report", str(out)]) == 0  # its own it may replace
