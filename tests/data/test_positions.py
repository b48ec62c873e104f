"""Positions by the published rule: by hand, by vLLM's functions (stored), and piece by piece by the models' own."""

import json
from pathlib import Path

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
    "qwen3_vl_moe": (hf.Qwen3VLMoeConfig, hf.Qwen3VLMoeModel),
    "qwen3_5": (hf.Qwen3_5Config, hf.Qwen3_5Model),
    "qwen3_5_moe": (hf.Qwen3_5MoeConfig, hf.Qwen3_5MoeModel),
}
ONE_GRID_PER_VIDEO = ("qwen2_vl", "qwen2_5_vl")
POSITIONS_PER_S = 25
VLLM = json.loads((Path(__file__).parent / "vllm_positions.json").read_text())


def model(family):
    config_class, model_class = MODELS[family]
    tree = {key: value for key, value in oracle.config(family).items() if key != "model_type"}
    tree["vision_config"]["tokens_per_second"] = POSITIONS_PER_S
    with torch.device("meta"):
        return model_class(config_class(**tree))


def text(num_tokens):
    return Run(token_type=TEXT, num_tokens=num_tokens)


def grid(kind, t, h, w, interval=1.0):
    return Run(token_type=kind, num_tokens=t * h * w, grid_thw=(t, h, w), interval=interval)


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
        parts = [(t, h, w)] if kind == IMAGE or family in ONE_GRID_PER_VIDEO else [(1, h, w)] * t
        for part in parts:
            runs += [grid(kind, *part, interval=interval), text(int(random.integers(1, 5)))]
    return runs, grids, seconds


@pytest.mark.parametrize("family", MODELS)
def test_pieces_are_those_of_the_model_and_each_starts_after_the_largest_position_so_far(family):
    random, qwen = np.random.default_rng(3), model(family)
    num_unlike = 0
    for _ in range(60):
        runs, grids, seconds = random_prompt(random, family)
        types = torch.tensor([run.token_type for run in runs for _ in range(run.num_tokens)])[None]
        told = {
            "image_grid_thw": torch.tensor(grids[IMAGE]) if grids[IMAGE] else None,
            "video_grid_thw": torch.tensor(grids[VIDEO]) if grids[VIDEO] else None,
        }
        if family == "qwen2_5_vl" and seconds:
            told["second_per_grid_ts"] = torch.tensor(seconds)
        expected = qwen.get_rope_index(types, types, **told)[0][:, 0].numpy()
        found = positions(runs)
        start, largest = 0, -1
        for run in runs:
            piece, theirs = (all_[:, start : start + run.num_tokens] for all_ in (found, expected))
            assert piece[:, 0].tolist() == [largest + 1] * 3
            np.testing.assert_array_equal(piece - piece[:, :1], theirs - theirs[:, :1])
            start, largest = start + run.num_tokens, max(largest, int(piece.max()))
        num_unlike += not np.array_equal(found, expected)
        if not any(run.token_type == VIDEO for run in runs) or family not in ONE_GRID_PER_VIDEO:
            np.testing.assert_array_equal(found, expected)
    # Transformers goes on after the longer side of a grid, however long the video is.
    assert (num_unlike > 0) == (family in ONE_GRID_PER_VIDEO)


def test_text_goes_on_after_a_long_video_by_hand():
    # 64 temporal patches of 8 x 14 tokens after 15 tokens of text: the times are 15 .. 15 + 63, and text goes on at
    # 15 + 64. At 2 fps a patch is 1 s, 2 positions for Qwen2.5-VL: times 15, 17, .. 15 + 126, and text at 15 + 127.
    for interval, last, after in ((1.0, 78, 79), (time_interval(2, 1.0), 141, 142)):
        found = positions([text(15), grid(VIDEO, 64, 8, 14, interval), text(2)])
        assert found[:, 14].tolist() == [14, 14, 14]
        assert found[:, 15].tolist() == [15, 15, 15]
        assert found[:, -3].tolist() == [last, 15 + 7, 15 + 13]
        assert found[:, -2:].tolist() == [[after, after + 1]] * 3


def test_several_media_by_hand():
    # Text 0; image of 2 x 3 at 1: rows 1, 2, columns 1, 2, 3; text 4, 5; video of 4 x 1 x 2 at 6: times 6 .. 9, columns
    # 6, 7; text 10; image of 1 x 1 at 11; text 12.
    found = positions(
        [text(1), grid(IMAGE, 1, 2, 3), text(2), grid(VIDEO, 4, 1, 2), text(1), grid(IMAGE, 1, 1, 1), text(1)]
    )
    assert found.tolist() == [
        [0, 1, 1, 1, 1, 1, 1, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 11, 12],
        [0, 1, 1, 1, 2, 2, 2, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6, 10, 11, 12],
        [0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7, 10, 11, 12],
    ]  # fmt: skip


def runs_of(case):
    """The runs of a stored case (see support/make_vllm_positions.py)."""
    runs = []
    for kind, *sizes in case["pieces"]:
        if kind == "text":
            runs.append(text(*sizes))
        elif kind == "image":
            runs.append(grid(IMAGE, 1, *sizes))
        elif case["family"] == "qwen3_vl":
            t, h, w, _ = sizes
            for _ in range(t):
                runs += [text(3), text(1), grid(VIDEO, 1, h, w), text(1)]
        else:
            *part, seconds = sizes
            interval = time_interval(VLLM["positions_per_s"], seconds) if case["family"] == "qwen2_5_vl" else 1.0
            runs.append(grid(VIDEO, *part, interval=interval))
    return runs


@pytest.mark.parametrize("case", VLLM["cases"], ids=lambda case: f"{case['family']}, {case['name']}")
def test_positions_are_those_of_vllm(case):
    found = positions(runs_of(case))
    assert found.shape == (3, case["num_tokens"])
    expected = case["positions"]
    if isinstance(expected, dict):
        assert found[:, : len(expected["first"][0])].tolist() == expected["first"]
        assert found[:, -len(expected["last"][0]) :].tolist() == expected["last"]
    else:
        assert found.tolist() == expected


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
