"""Patch rows: layout by hand, padding in time, rounding, and what is refused.

That the values are those of Transformers' processors is tested in test_encode.py.
"""

import numpy as np
import pytest
import torch

from easyvideor1.data.patches import patches
from easyvideor1.types import VisionSpec

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def spec(patch_px=14, merge=2, temporal_patch=2, mean=CLIP_MEAN, std=CLIP_STD):
    return VisionSpec(
        family="qwen2_vl",
        patch_px=patch_px,
        merge=merge,
        temporal_patch=temporal_patch,
        image_mean=mean,
        image_std=std,
    )


def random_frames(num_frames, height, width):
    return np.random.default_rng(7).integers(0, 256, (num_frames, 3, height, width), dtype=np.uint8)


def test_rows_and_columns_are_in_the_models_order():
    # 1-pixel patches, 2x2 merge, one channel told from another by hundreds, frames by tens, pixels by ones.
    frame = np.arange(8, dtype=np.uint8).reshape(2, 4)
    frames = np.stack([np.stack([100 * c + 10 * t + frame for c in range(3)]) for t in range(2)])
    unscaled = spec(patch_px=1, mean=(0, 0, 0), std=(1 / 255,) * 3)
    rows = patches(frames.astype(np.uint8), unscaled).round().int().tolist()
    # Pixels 0 1 2 3 / 4 5 6 7: the left block (0 1 4 5) before the right one (2 3 6 7).
    assert [row[0] for row in rows] == [0, 1, 4, 5, 2, 3, 6, 7]
    assert rows[0] == [0, 10, 100, 110, 200, 210]
    assert rows[7] == [7, 17, 107, 117, 207, 217]


@pytest.mark.parametrize(("patch_px", "merge", "temporal"), [(14, 2, 2), (16, 2, 2), (4, 1, 3), (2, 3, 1), (5, 2, 4)])
def test_any_patch_sizes_equal_the_transposed_array(patch_px, merge, temporal):
    vision = spec(patch_px, merge, temporal)
    side = patch_px * merge
    frames = random_frames(2 * temporal, 2 * side, 3 * side)
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) * np.float32(255) for values in (CLIP_MEAN, CLIP_STD))
    values = ((frames.astype(np.float32) - mean) / std).reshape(2, temporal, 3, 2, merge, patch_px, 3, merge, patch_px)
    expected = values.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(2 * 6 * merge**2, -1)
    np.testing.assert_array_equal(patches(frames, vision).numpy(), expected)


@pytest.mark.parametrize("temporal", [1, 2, 3, 4])
@pytest.mark.parametrize("num_frames", [1, 2, 3, 5, 8])
def test_time_is_padded_by_the_last_frame(num_frames, temporal):
    vision = spec(patch_px=2, temporal_patch=temporal)
    frames = random_frames(num_frames, 4, 8)
    padded = np.concatenate([frames, *[frames[-1:]] * (-num_frames % temporal)])
    assert torch.equal(patches(frames, vision), patches(padded, vision))


def test_bfloat16_is_the_float32_value_rounded_once():
    frames = random_frames(3, 28, 56)
    assert torch.equal(patches(frames, spec(), dtype=torch.bfloat16), patches(frames, spec()).bfloat16())


def test_threads_and_a_given_buffer_change_nothing():
    frames = random_frames(9, 28, 28)
    expected = patches(frames, spec())
    assert torch.equal(patches(frames, spec(), threads=3), expected)
    buffer = torch.full((24, 3 * 2 * 14 * 14), torch.nan)
    assert patches(frames, spec(), out=buffer[2:22]).data_ptr() == buffer[2:22].data_ptr()
    assert torch.equal(buffer[2:22], expected)
    assert buffer[[0, 1, 22, 23]].isnan().all()


def test_read_only_and_strided_frames_are_read_as_they_are(tmp_path):
    frames = random_frames(2, 28, 28)
    np.save(tmp_path / "frames.npy", frames)
    mapped = np.load(tmp_path / "frames.npy", mmap_mode="r")
    assert torch.equal(patches(mapped, spec()), patches(frames, spec()))
    channels_last = np.ascontiguousarray(frames.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert torch.equal(patches(channels_last, spec()), patches(frames, spec()))
    assert frames.flags.writeable


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        (np.zeros((2, 3, 28, 28), np.float32), "uint8"),
        (np.zeros((2, 28, 28, 3), np.uint8), r"\[2, 28, 28, 3\]"),
        (np.zeros((0, 3, 28, 28), np.uint8), r"\[0, 3, 28, 28\]"),
        (np.zeros((2, 3, 28, 42), np.uint8), "multiples of 28 px, got 28x42"),
    ],
)
def test_frames_of_another_form_are_refused(frames, said):
    with pytest.raises(ValueError, match=said):
        patches(frames, spec())


def test_other_outputs_are_refused():
    frames = random_frames(2, 28, 28)
    with pytest.raises(ValueError, match="float16"):
        patches(frames, spec(), dtype=torch.float16)
    with pytest.raises(ValueError, match="out must be"):
        patches(frames, spec(), out=torch.empty(3, 1176))
