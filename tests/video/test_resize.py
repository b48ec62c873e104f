"""The resize kernel against torch's float32 arithmetic."""

import numpy as np
import pytest
import torch

from easyvideor1.video.resize import axis_weights, resize


def by_torch(frame, height, width):
    tensor = torch.from_numpy(frame).permute(2, 0, 1)[None].float()
    larger = torch.nn.functional.interpolate(tensor, size=(height, width), mode="bicubic", antialias=True)
    return larger.clamp(0, 255).round().to(torch.uint8)[0].numpy()


@pytest.mark.parametrize(
    ("size", "target"),
    [
        ((64, 96), (128, 192)),
        ((72, 128), (64, 96)),
        ((301, 211), (96, 64)),
        ((8, 8), (128, 128)),
        ((33, 700), (32, 64)),
    ],
)
def test_values_equal_torch_up_to_one_level_in_a_hundred_thousand(size, target):
    rng = np.random.default_rng(1)
    differing = total = 0
    for _ in range(8):
        frame = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        out = np.empty((3, *target), np.uint8)
        resize(frame.reshape(size[0], -1), width=size[1], out=out)
        difference = np.abs(out.astype(int) - by_torch(frame, *target))
        assert difference.max() <= 1
        differing, total = differing + int((difference > 0).sum()), total + difference.size
    assert differing <= 1 + total * 1e-5


def test_padding_bytes_at_the_right_of_a_row_change_nothing():
    frame = np.random.default_rng(2).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    padded = np.concatenate([frame.reshape(40, -1), np.full((40, 14), 255, np.uint8)], axis=1)
    plain, with_padding = np.empty((3, 32, 32), np.uint8), np.empty((3, 32, 32), np.uint8)
    resize(frame.reshape(40, -1), width=50, out=plain)
    resize(padded, width=50, out=with_padding)
    assert (plain == with_padding).all()


def test_the_same_size_is_a_copy_and_a_flat_picture_stays_flat():
    frame = np.random.default_rng(3).integers(0, 256, (32, 64, 3), dtype=np.uint8)
    out = np.empty((3, 32, 64), np.uint8)
    resize(frame.reshape(32, -1), width=64, out=out)
    assert (out == frame.transpose(2, 0, 1)).all()
    flat, small = np.full((50, 3 * 70), 77, np.uint8), np.empty((3, 32, 32), np.uint8)
    resize(flat, width=70, out=small)
    assert (small == 77).all()


def test_weights_sum_to_one_and_stay_inside_the_axis():
    for size, target in ((4, 32), (1280, 672), (37, 64), (3000, 32)):
        starts, weights = axis_weights(size, target)
        assert np.abs(weights.sum(axis=1) - 1).max() < 1e-6
        assert starts.min() >= 0
        assert (starts + weights.shape[1]).max() <= size
