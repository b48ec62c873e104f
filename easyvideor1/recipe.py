"""Recipes: found by file or by name, and read, with `a.b=c` words in place of their values, into a configuration."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from easyvideor1.config import RunConfig, Settings
from easyvideor1.config_data import DataConfig, SourceConfig
from easyvideor1.config_tree import apply_overrides, build, read_tree
from easyvideor1.errors import UsageError

HUGGING_FACE = ("dataset_dict.json", "dataset_info.json")
"""Files by which a folder of Hugging Face datasets is known."""
DATA_FILE = re.compile(r"\.jsonl?(\.gz)?$")
RECIPES = Path(__file__).parent / "recipes"
"""The recipes that ship with the package."""


def load_config(recipe: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the configuration of a run.

    Args:
        recipe: a YAML file, "-" for standard input, or the name of a recipe that ships with the package
            ("qwen3_vl_8b_video").
        overrides: "a.b=value" words that replace the recipe's values; the value is read as YAML.

    Raises:
        UsageError: no such recipe, unknown key (with the nearest name), a value that cannot run, or a missing one.
    """
    path = recipe_path(recipe)
    config = build(RunConfig, apply_overrides(read_tree(path), overrides), where=str(path))
    config = replace(config, data=_with_files(config.data))
    if not config.data.train:
        raise UsageError(f"{path}: data.train names no file; give at least one, e.g. data.train='[{{path: a.jsonl}}]'")
    return replace(
        config, reward=config.reward.found_from(path.parent), algorithm=config.algorithm.found_from(path.parent)
    )


def load_settings(recipe: str | Path | None, overrides: Sequence[str] = ()) -> Settings:
    """Read the settings of a command, from a recipe where one is given, and from "a.b=value" words.

    Raises:
        UsageError: as `load_config`, but nothing is missing.
    """
    if recipe is None:
        return build(Settings, apply_overrides({}, overrides), where="settings")
    path = recipe_path(recipe)
    settings = build(Settings, apply_overrides(read_tree(path), overrides), where=str(path))
    return replace(settings, data=_with_files(settings.data), reward=settings.reward.found_from(path.parent))


def _with_files(data: DataConfig) -> DataConfig:
    """The same with a source for each file that a folder or a pattern names."""
    train, validation = (tuple(file for source in part for file in data_files(source))
                         for part in (data.train, data.validation))  # fmt: skip
    return replace(data, train=train, validation=validation)


def data_files(source: SourceConfig) -> list[SourceConfig]:
    """The data files that a source names: itself, those in a folder, those of a split of it (FOLDER@train: whose names
    begin with it), or those that a pattern matches, by name.

    Raises:
        UsageError: a folder, split or pattern without a data file.
    """
    path, _, split = source.path.partition("@") if not Path(source.path).exists() else (source.path, "", "")
    if Path(path).is_dir():
        found = [file for file in sorted(Path(path).iterdir()) if file.name.startswith(split)]
        if any(file.name in HUGGING_FACE or file.suffix == ".parquet" for file in found):
            return [source]  # whoever reads it says what it is, and which command converts it
    elif glob.has_magic(path) and not Path(path).exists():
        found = [Path(name) for name in sorted(glob.glob(path, recursive=True))]
    else:
        return [source]
    files = [file for file in found if file.is_file() and DATA_FILE.search(file.name)]
    if not files:
        raise UsageError(f"data: no file of rows (.jsonl, .json, gzipped or not) is named by '{source.path}'")
    if source.name is None or len(files) == 1:
        return [replace(source, path=str(file)) for file in files]
    return [replace(source, path=str(file), name=f"{source.name}/{file.stem}") for file in files]


def recipe_path(recipe: str | Path) -> Path:
    """The file of a recipe: as it is given, or one that ships with the package by its name."""
    path = Path("/dev/stdin" if str(recipe) == "-" else recipe).expanduser()
    shipped = {file.stem: file for file in sorted(RECIPES.glob("*.yaml"))}
    if path.exists() and not path.is_dir():  # a file, or the pipe of a shell's <(..)
        return path
    if str(recipe) not in shipped and path.is_dir():
        inner = next((name for name in ("config.yaml", "recipe.yaml") if (path / name).is_file()), "recipe.yaml")
        raise UsageError(f"{path}: no such recipe; it is a folder: name a YAML file, such as {path / inner}")
    if str(recipe) not in shipped:
        raise UsageError(f"{path}: no such recipe; name a YAML file, or a shipped one: {', '.join(shipped)}")
    return shipped[str(recipe)]
