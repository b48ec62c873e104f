"""`easyvideor1 config` and docs/configuration.md know every key."""

import dataclasses
import typing
from pathlib import Path

import pytest

from easyvideor1.algo.algorithms import NOT_OPTIONS, Algorithm
from easyvideor1.cli import main
from easyvideor1.config import RunConfig
from easyvideor1.runs.reference import markdown, sections

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def keys(kind: type, prefix: str = "") -> set[str]:
    """Every leaf key of a configuration class, walked without the code under test."""
    found = set()
    for item in dataclasses.fields(kind):
        hint = typing.get_type_hints(kind)[item.name]
        inner = [arg for arg in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(arg)]
        is_list = typing.get_origin(hint) is tuple
        if inner:
            found |= keys(typing.cast(type, inner[0]), f"{prefix}{item.name}{'[]' if is_list else ''}.")
        else:
            found.add(prefix + item.name)
    return found


def test_the_page_is_what_the_source_says():
    assert PAGE.read_text() == markdown(), "run: easyvideor1 config --markdown > docs/configuration.md"


def test_every_key_is_listed_with_its_meaning():
    listed = {key.name: key for section in sections() for key in section.keys}
    options = {f"algorithm.options.{item.name}" for item in dataclasses.fields(Algorithm)}
    wanted = keys(RunConfig) | options - {f"algorithm.options.{name}" for name in NOT_OPTIONS}
    assert wanted - listed.keys() == set()
    assert not [name for name, key in listed.items() if not key.meaning]
    assert (listed["data.video.fps"].default, listed["data.video.fps"].unit) == ("2", "frames per second")
    assert listed["model.path"].default == "required"


def test_the_command_prints_a_section_or_all(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["config", "data.video"]) == 0
    text = capsys.readouterr().out
    assert "data.video.fps" in text
    assert "optimizer.betas" not in text
    assert main(["config"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("optimizer.betas", "train.stop.max_kl", "reward.judge.model", "out"))


def test_an_unknown_section_is_named_with_the_nearest(capsys):
    assert main(["config", "optimiser"]) == 2
    assert "did you mean 'optimizer'" in capsys.readouterr().err


def test_a_shipped_recipe_is_found_by_its_name(capsys):
    assert main(["train", "qwen3_vl_8b_vide"]) == 2
    assert "no such recipe; name a YAML file, or a shipped one: demo, qwen3_vl_2b_1gpu, " in capsys.readouterr().err


@pytest.mark.parametrize("words", [["train", "demo", "rollout.n"], ["reward", "test", "d.jsonl", "x.jsonl"]])
def test_a_word_that_is_no_setting_is_named(capsys, words):
    assert main(words) == 2
    assert "is no setting; write section.key=value" in capsys.readouterr().err
