"""Media as an engine takes them: where they stand, what they hold, and what is compared."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from easyvideor1.data.positions import IMAGE, TEXT, VIDEO, Run, positions
from easyvideor1.errors import MismatchError
from easyvideor1.rollout.vllm.media import Reading, check_positions, check_reading, engine_seconds, items
from easyvideor1.types import Example

COLUMNS = 4


def plan(kind: str, grid: tuple[int, int, int], *, key: str, duration_s: float = 2.0, num_frames: int = 4) -> Any:
    t, h, w = grid
    return SimpleNamespace(
        media=SimpleNamespace(kind=kind),
        grid_thw=grid,
        num_tokens=t * h * w // 4,
        cache_key=key,
        duration_s=duration_s,
        times_s=tuple(np.linspace(0, duration_s, num_frames)),
    )


def example(*, with_times: bool) -> Example:
    """Text, an image of two tokens, text, a video of two steps with one token each, text."""
    plans = (plan("image", (1, 2, 4), key="picture"), plan("video", (2, 2, 2), key="clip"))
    video = [VIDEO, TEXT, TEXT, VIDEO] if with_times else [VIDEO, VIDEO]
    types = [TEXT, TEXT, IMAGE, IMAGE, TEXT, TEXT, *video, TEXT]
    grids = {"image_grid_thw": torch.tensor([[1, 2, 4]]), "video_grid_thw": torch.tensor([[2, 2, 2]])}
    runs = [Run(token_type=TEXT, num_tokens=len(types))]
    prompt = SimpleNamespace(
        sample=SimpleNamespace(id="s", where="rows.jsonl:1"),
        plans=plans,
        token_types=np.array(types),
        input_ids=np.arange(len(types)),
        position_ids=positions(runs),
    )
    pixels = {"pixel_values": torch.arange(32.0).view(8, 4), "pixel_values_videos": torch.arange(32.0).view(8, 4) + 100}
    return Example(prompt=prompt, clips=(), features=pixels | grids)  # type: ignore[arg-type]


@pytest.mark.parametrize("with_times", [True, False])
def test_items_stand_where_their_tokens_do(with_times: bool):
    made = example(with_times=with_times)
    image, video = items(made, video_time="timestamps" if with_times else "seconds", temporal_patch=2)
    assert (image.kind, image.id, image.start, image.is_vision.tolist()) == ("image", "picture", 2, [True, True])
    assert torch.equal(image.tensors["pixel_values"], made.features["pixel_values"])
    assert image.tensors["image_grid_thw"].tolist() == [1, 2, 4]
    assert video.id == "clip"
    if with_times:
        assert video.start == 5, "from the marker before its first grid, where vLLM looks for its grids"
        assert video.is_vision.tolist() == [False, True, False, False, True]
        assert "second_per_grid_ts" not in video.tensors
    else:
        assert video.start == 6
        assert video.is_vision.tolist() == [True, True]
        assert float(video.tensors["second_per_grid_ts"]) == pytest.approx(1.0)


def test_tokens_and_plans_that_differ_in_number_are_an_error():
    made = example(with_times=False)
    made.prompt.token_types[0] = IMAGE
    with pytest.raises(MismatchError, match="sample s: 5 vision tokens in the prompt, 4 in the plans"):
        items(made, video_time="steps", temporal_patch=2)


@pytest.mark.parametrize("rate", [Fraction(7, 10), Fraction(1, 3), Fraction(3, 5), Fraction(1, 10), Fraction(29, 30)])
@pytest.mark.parametrize("positions_per_s", [1, 2, 4, 25])
def test_seconds_are_told_so_that_float64_places_steps_where_float32_does(rate: Fraction, positions_per_s: float):
    num_steps = 400
    made = plan("video", (num_steps, 2, 2), key="", duration_s=float(rate * num_steps), num_frames=2 * num_steps)
    seconds = engine_seconds(made, temporal_patch=2, positions_per_s=positions_per_s)
    interval = np.float32(positions_per_s) * np.float32(2 * made.duration_s / len(made.times_s))
    ours = (np.arange(num_steps, dtype=np.float32) * interval).astype(np.int64)
    theirs = (np.arange(num_steps) * (seconds * positions_per_s)).astype(np.int64)
    assert (ours == theirs).all()


def test_positions_are_compared_token_by_token():
    made = example(with_times=False)
    check_positions(made, made.prompt.position_ids.copy())
    moved = made.prompt.position_ids.copy()
    moved[1, 4] += 2
    with pytest.raises(MismatchError, match=r"token 4 of 9 stands at \[4, 6, 4\] there and at \[4, 4, 4\] here"):
        check_positions(made, moved)
    with pytest.raises(MismatchError, match="positions for 8 tokens, the prompt has 9"):
        check_positions(made, moved[:, :8])


def test_a_reading_is_compared_in_ids_grids_and_pixels():
    made = example(with_times=False)
    ids = made.prompt.input_ids.tolist()
    check_reading(made, Reading(input_ids=ids, tensors=dict(made.features)), pixel_tolerance=1e-5)

    def differs(told: str, ids: list[int], **tensors: torch.Tensor) -> None:
        with pytest.raises(MismatchError, match=told):
            check_reading(made, Reading(input_ids=ids, tensors=made.features | tensors), pixel_tolerance=1e-5)

    differs("token 3 is 99 there and 3 here", [*ids[:3], 99, *ids[4:]])
    differs("10 tokens there, 9 here, and one is the beginning", [*ids, 1])
    differs("video_grid_thw differs by 2", ids, video_grid_thw=torch.tensor([[2, 2, 4]]))
    one_pixel = made.features["pixel_values_videos"].clone()
    one_pixel[5, 2] += 0.01
    differs("pixel_values_videos differs by 0.01, most in row 5 of 8", ids, pixel_values_videos=one_pixel)
    differs(r"pixel_values is \[4, 4\] there and \[8, 4\] here", ids, pixel_values=made.features["pixel_values"][:4])
