"""A missing optional package is one line with its remedy, before any work."""

import importlib.util
import subprocess
import sys

import pytest

from easyvideor1.errors import UsageError
from easyvideor1.extras import need

HIDE = """
import importlib.abc, sys
class Hider(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(name)
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {hidden!r} else found(name, package)
sys.meta_path.insert(0, Hider())
from easyvideor1.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run_without(hidden: list[str], *words: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", HIDE.format(hidden=set(hidden)), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        (("demo", "--out", "RUN"), "the demo needs torch and transformers"),
        (("train", "RECIPE"), "train needs torch and transformers"),
        (("export", "RUN", "--out", "OUT"), "export needs torch and transformers"),
        (("data", "filter", "DATA", "--out", "OUT"), "data filter needs torch and transformers"),
        (("data", "check", "DATA", "--model", "M"), "counting the tokens of a model's prompts needs torch"),
    ],
)
def test_commands_that_need_a_model_say_so_without_torch(tmp_path, words, needs):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(f"out: {tmp_path}/run\nmodel: {{path: m}}\ndata: {{train: [{{path: a}}]}}\ncache: {{dir: c}}\n")
    recipe.write_text(recipe.read_text() + "train: {steps: 1}\n")
    data = tmp_path / "data.jsonl"
    data.write_text('{"problem": "?", "problem_type": "numerical", "answer": "3"}\n')
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"model_type": "qwen3_vl", "vision_config": {}}')
    places = {"RECIPE": recipe, "RUN": tmp_path / "run", "OUT": tmp_path / "out", "DATA": data, "M": tmp_path / "m"}
    done = run_without(["torch", "transformers"], *(str(places.get(word, word)) for word in words))
    assert done.returncode == 2
    assert needs in done.stderr
    assert "pip install 'easyvideor1[train]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("hidden", "override", "extra"),
    [
        ("peft", "model.lora={rank: 2}", "lora"),
        (
            "openai",
            "reward.judge={base_url: 'http://localhost', model: m, problem_types: [math], cache_dir: j}",
            "judge",
        ),
        ("zstandard", "cache.codec=zstd", "zstd"),
        ("torchcodec", "data.video.backend=torchcodec", "torchcodec"),
    ],
)
def test_a_value_that_needs_a_package_is_named_before_anything_is_written(tmp_path, hidden, override, extra):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"out: {tmp_path}/run\nmodel: {{path: m}}\ndata: {{train: [{{path: a}}]}}\ncache: {{dir: c}}\n"
        "train: {steps: 1}\n"
    )
    done = run_without([hidden], "train", str(recipe), override)
    assert done.returncode == 2
    assert f"{override.split('=')[0]}" in done.stderr
    assert f"pip install 'easyvideor1[{extra}]'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_message_names_what_is_missing_only(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else object())
    need("numpy", for_what="counting")
    with pytest.raises(UsageError, match=r"x needs ray, which is not installed: pip install 'easyvideor1\[ray\]'"):
        need("torch", "ray", for_what="x")


def test_without_docstrings_a_model_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(need, "__doc__", None)  # as python -OO leaves it
    with pytest.raises(UsageError, match=r"train: Transformers reads its own docstrings, which python -OO"):
        need("torch", "transformers", for_what="train")
    need("torch", for_what="data check")
