"""Recipes: found by file or by name, and read, with `a.b=c` words in place of their values, into a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from easyvideor1.config import RunConfig, Settings
from easyvideor1.config_tree import apply_overrides, build, read_tree
from easyvideor1.errors import UsageError

RECIPES = Path(__file__).parent / "recipes"
"""The recipes that ship with the package."""


def load_config(recipe: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read the configuration of a run.

    Args:
        recipe: a YAML file, or the name of a recipe that ships with the package ("qwen3_vl_8b_video").
        overrides: "a.b=value" words that replace the recipe's values; the value is read as YAML.

    Raises:
        UsageError: no such recipe, unknown key (with the nearest name), a value that cannot run, or a missing one.
    """
    path = recipe_path(recipe)
    config = build(RunConfig, apply_overrides(read_tree(path), overrides), where=str(path))
    if not config.data.train:
        raise UsageError(f"{path}: data.train names no file; give at least one, e.g. data.train='[{{path: a.jsonl}}]'")
    return replace(config, reward=config.reward.found_from(path.parent))


def load_settings(recipe: str | Path | None, overrides: Sequence[str] = ()) -> Settings:
    """Read the settings of a command, from a recipe where one is given, and from "a.b=value" words.

    Raises:
        UsageError: as `load_config`, but nothing is missing.
    """
    if recipe is None:
        return build(Settings, apply_overrides({}, overrides), where="settings")
    path = recipe_path(recipe)
    settings = build(Settings, apply_overrides(read_tree(path), overrides), where=str(path))
    return replace(settings, reward=settings.reward.found_from(path.parent))


def recipe_path(recipe: str | Path) -> Path:
    """The file of a recipe: as it is given, or one that ships with the package by its name."""
    path = Path(recipe)
    shipped = {file.stem: file for file in sorted(RECIPES.glob("*.yaml"))}
    if path.is_file():
        return path
    if str(recipe) not in shipped:
        raise UsageError(f"{path}: no such recipe; name a YAML file, or a shipped one: {', '.join(shipped)}")
    return shipped[str(recipe)]
