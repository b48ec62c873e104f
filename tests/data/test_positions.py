"""Positions of random prompts against the models' own `get_rope_index`; no weights are made."""

import numpy as np
import pytest
import torch
import transformers as hf
from support import qwen_oracle as oracle

from easyvideor1.data.positions import IMAGE, TEXT, VIDEO, Run, positions, time_interval

MODELS = {
    "qwen2_vl": (hf.Qwen2VLConfig, hf.Qwen2VLModel),
    "qwen2_5_vl": (hf.Qwen2_5_VLConfig, hf.Qwen2_5_VLModel),
    "qwen3_vl": (hf.Qwen3VLConfig, hf.Qwen3VLModel),
    "qwen3_5": (hf.Qwen3_5Config, hf.Qwen3_5Model),
}
POSITIONS_PER_S = 25


def model(family):
    config_class, model_class = MODELS[family]
    tree = {key: value for key, value in oracle.config(family).items() if key != "model_type"}
    tree["vision_config"]["tokens_per_second"] = POSITIONS_PER_S
    with torch.device("meta"):
        return model_class(config_class(**tree))


def text(num_tokens):
    return Run(token_type=TEXT, num_tokens=num_tokens)


def random_prompt(random, family):
    """Runs of a prompt with media in any order, and what the model is told about them."""
    runs, grids, seconds = [text(int(random.integers(1, 6)))], {IMAGE: [], VIDEO: []}, []
    for _ in range(random.integers(0, 6)):
        kind = int(random.integers(IMAGE, VIDEO + 1))
        t = 1 if kind == IMAGE else int(random.integers(1, 9))
        h, w = (int(side) for side in random.integers(1, 5, 2))
        grids[kind].append([t, 2 * h, 2 * w])
        interval = 1.0
        if kind == VIDEO:
            seconds.append(
                2 / float(random.uniform(0.1, 30)) if random.integers(2) else int(random.integers(1, 50)) / 25
            )
            if family == "qwen2_5_vl":
                interval = time_interval(POSITIONS_PER_S, seconds[-1])
        parts = [(1, h, w)] * t if family in ("qwen3_vl", "qwen3_5") else [(t, h, w)]
        for part in parts:
            grid = Run(token_type=kind, num_tokens=int(np.prod(part)), grid_thw=part, interval=interval)
            runs += [grid, text(int(random.integers(1, 5)))]
    return runs, grids, seconds


@pytest.mark.parametrize("family", MODELS)
def test_positions_are_those_of_the_model_for_media_in_any_order(family):
    random, qwen = np.random.default_rng(3), model(family)
    for _ in range(60):
        runs, grids, seconds = random_prompt(random, family)
        types = torch.tensor([run.token_type for run in runs for _ in range(run.num_tokens)])[None]
        told = {
            "image_grid_thw": torch.tensor(grids[IMAGE]) if grids[IMAGE] else None,
            "video_grid_thw": torch.tensor(grids[VIDEO]) if grids[VIDEO] else None,
        }
        if family == "qwen2_5_vl" and seconds:
            told["second_per_grid_ts"] = torch.tensor(seconds)
        expected, _ = qwen.get_rope_index(types, types, **told)
        np.testing.assert_array_equal(positions(runs), expected[:, 0].numpy())


def test_time_is_multiplied_in_the_models_precision():
    # 8 frames at 24 per second are 25/3 positions: rounded once, 15 steps would fall just below 125.
    interval = time_interval(POSITIONS_PER_S, 8 / 24)
    runs = [Run(token_type=VIDEO, num_tokens=16, grid_thw=(16, 1, 1), interval=interval)]
    types = torch.full((1, 16), VIDEO)
    grid, seconds = torch.tensor([[16, 2, 2]]), torch.tensor([8 / 24])
    expected, _ = model("qwen2_5_vl").get_rope_index(types, types, video_grid_thw=grid, second_per_grid_ts=seconds)
    np.testing.assert_array_equal(positions(runs), expected[:, 0].numpy())


def test_no_tokens_have_no_positions():
    assert positions([]).shape == (3, 0)
