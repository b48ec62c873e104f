"""The examples of every --help, run one after the other as a new user would."""

import importlib
import shlex
from pathlib import Path

import pytest
from support import small_demo

import easyvideor1.cli
from easyvideor1.cli import main
from easyvideor1.demo import dataset

FAST = {
    "demo": [
        "train.steps=1",
        "train.prompts_per_step=2",
        "data.validation=[]",
        "train.checkpoint_every=1",
        "data.workers=1",
    ]
}
ORDER = ["demo", "config", "report", "export", "ask", "explain", "preprocess", "cache", "plan", "video", "reward",
         "data_check", "data_clean", "data_convert", "data_filter", "eval_list", "train"]  # fmt: skip


def test_the_examples_of_every_command_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dataset, "SPLITS", small_demo.SPLITS)
    folder = Path(easyvideor1.cli.__file__).parent
    modules = {path.stem: importlib.import_module(f"easyvideor1.cli.{path.stem}") for path in folder.glob("[a-z]*.py")}
    with_examples = {name for name, module in modules.items() if hasattr(module, "EXAMPLES")}
    assert with_examples == set(ORDER)
    for name in ORDER:
        for example in modules[name].EXAMPLES:
            program, *words = shlex.split(example)
            assert program == "easyvideor1"
            assert main([*words, *FAST.get(name, [])]) == 0, example
