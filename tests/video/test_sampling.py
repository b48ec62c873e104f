"""Plans worked by hand, without any file."""

import numpy as np
import pytest
import torch

from easyvideor1.errors import MediaError, UsageError
from easyvideor1.types import FrameSpec
from easyvideor1.video.sampling import choose_frames, frame_size, num_frames, spread, vision_spec, wanted_frames

QWEN3 = vision_spec({"model_type": "qwen3_vl", "vision_config": {}})


def test_the_configuration_decides_the_patch_size_and_the_family_only_what_it_leaves_out():
    spec = vision_spec(
        {"model_type": "qwen2_5_vl", "vision_config": {"patch_size": 12, "temporal_patch_size": 4}},
        {"image_mean": [0.1, 0.2, 0.3]},
    )
    assert (spec.patch_px, spec.merge, spec.temporal_patch, spec.factor_px) == (12, 2, 4, 24)
    assert spec.image_mean == (0.1, 0.2, 0.3)
    assert spec.image_std[0] == pytest.approx(0.26862954)
    assert (QWEN3.factor_px, QWEN3.image_mean) == (32, (0.5, 0.5, 0.5))


def test_an_unknown_family_and_contradicting_files_are_errors():
    with pytest.raises(UsageError, match="model_type 'bert' is not supported"):
        vision_spec({"model_type": "bert"})
    with pytest.raises(UsageError, match="patch_size"):
        vision_spec({"model_type": "qwen3_vl", "vision_config": {"patch_size": 16}}, {"patch_size": 14})


def test_ten_fps_for_three_seconds_at_two_fps_gives_six_frames_from_first_to_last():
    times_s = np.arange(30) / 10
    wanted = wanted_frames(times_s, 10.0, fps=2.0)
    count = num_frames(30, wanted=wanted, spec=FrameSpec(), temporal_patch=2)
    assert choose_frames(times_s, count).tolist() == [0, 6, 12, 17, 23, 29]


def test_uneven_frames_are_chosen_by_time_and_none_twice():
    times_s = np.concatenate([np.arange(20) / 20, [1.0, 1.5, 2.0, 2.5]])
    count = num_frames(24, wanted=wanted_frames(times_s, 24 / 2.55, fps=2.0), spec=FrameSpec(), temporal_patch=2)
    assert times_s[choose_frames(times_s, count)].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    sparse = np.array([0.0, 0.04, 0.04, 0.5, 3.0])
    assert choose_frames(sparse, 4).tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("available", "wanted", "least", "most", "count"),
    [
        (1, 0.1, 4, 128, 1),
        (3, 0.2, 4, 128, 3),
        (5, 99.0, 4, 128, 4),
        (4, 16.0, 4, 128, 4),
        (2400, 2400.0, 4, 128, 128),
        (2400, 2400.0, 4, 127, 126),
        (300, 3.9, 4, 128, 4),
        (300, 20.9, 4, 1, 1),
        (300, 20.9, 4, 2, 2),
    ],
)
def test_number_of_frames(available, wanted, least, most, count):
    spec = FrameSpec(min_frames=least, max_frames=most)
    assert num_frames(available, wanted=wanted, spec=spec, temporal_patch=2) == count


def test_spread_numbers_equal_rounded_torch_linspace():
    # Even counts never meet a tie, so float32 and whole-number arithmetic round alike.
    for last in (3, 9, 29, 299, 2399, 53_999):
        for count in (2, 4, 6, 20, 126, 128, 768):
            by_torch = torch.linspace(0, last, count).round().long().numpy()
            assert (spread(last, count) == by_torch).all(), (last, count)


def test_frame_sizes_by_hand():
    def size(height, width, **limits):
        num = limits.pop("num_frames", 2)
        return frame_size(height, width, num_frames=num, spec=FrameSpec(**limits), vision=QWEN3, where="clip")

    assert size(720, 1280) == (384, 672)
    assert size(64, 96) == (128, 160)
    assert size(64, 96, min_pixels=1024) == (64, 96)
    assert size(8, 8) == (128, 128)
    assert size(720, 1280, total_pixels=128 * 131_072, num_frames=128) == (256, 480)


def test_limits_that_cannot_hold_are_errors_that_name_them():
    def size(height, width, **limits):
        return frame_size(height, width, num_frames=100, spec=FrameSpec(**limits), vision=QWEN3, where="clip")

    with pytest.raises(MediaError, match=r"clip: 1200x4 pixels.*300.*200"):
        size(4, 1200)
    with pytest.raises(UsageError, match="total_pixels = 100000 leaves 1000 pixels"):
        size(64, 64, total_pixels=100_000)
    with pytest.raises(UsageError, match="max_pixels = 1000 is below"):
        size(64, 64, max_pixels=1000)


def test_no_size_ever_exceeds_the_cap():
    rng = np.random.default_rng(0)
    for _ in range(500):
        height, width = (int(side) for side in rng.integers(4, 4000, 2))
        if max(height, width) > 200 * min(height, width):
            continue
        most = int(rng.integers(20_000, 600_000))
        spec = FrameSpec(max_pixels=most, min_pixels=min(16_384, most))
        h, w = frame_size(height, width, num_frames=2, spec=spec, vision=QWEN3, where="")
        assert h * w <= most, (height, width, most)
        assert h % 32 == w % 32 == 0, (height, width, most)


def test_a_number_of_frames_just_below_a_whole_one_is_that_one():
    assert num_frames(60, wanted=12 - 1e-13, spec=FrameSpec(), temporal_patch=2) == 12
    assert num_frames(60, wanted=12 - 1e-3, spec=FrameSpec(), temporal_patch=2) == 10
