"""The example of docs/adding-a-reward.md does what the page says."""

import re
from pathlib import Path

from easyvideor1.rewards.registry import REGISTRY, load_function
from easyvideor1.rewards.router import TASKS, score
from easyvideor1.types import Sample

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-reward.md").read_text()


def test_the_reward_of_the_page_scores_moves(tmp_path):
    (tmp_path / "my_rewards.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0])
    REGISTRY.rewards["chess move"] = load_function(f"{tmp_path / 'my_rewards.py'}:chess_move")
    try:
        sample = Sample(id="s", problem_type="chess_move", problem="?", gold="e2e4")
        texts = ("<answer>**e2e4**</answer>", "<answer>d3e4</answer>", "<answer>a2a3</answer>", "e2e4")
        assert [score(sample, text).parts["accuracy"] for text in texts] == [1.0, 0.5, 0.0, 0.0]
    finally:
        REGISTRY.rewards.clear()


def test_the_page_names_every_type_that_has_a_reward():
    named = {name.strip() for row in re.findall(r"^\| ([a-z, -]+) \|", PAGE, re.MULTILINE) for name in row.split(",")}
    assert named - {"type"} == set(TASKS)
