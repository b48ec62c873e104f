"""Every recipe in the repository and in the package is one that a run would accept."""

from pathlib import Path

import pytest

from easyvideor1.algo.algorithms import named_algorithm
from easyvideor1.recipe import load_config

ROOT = Path(__file__).parents[1]
RECIPES = sorted([*(ROOT / "recipes").glob("*.yaml"), *(ROOT / "easyvideor1" / "recipes").glob("*.yaml")])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_a_recipe_is_a_valid_configuration(path):
    config = load_config(path)
    assert named_algorithm(config.algorithm).name == config.algorithm.name


def test_there_are_recipes():
    assert {path.name for path in RECIPES} >= {"demo.yaml", "qwen3_vl_8b_video.yaml"}
