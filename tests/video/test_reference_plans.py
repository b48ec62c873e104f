"""Plans agree with qwen-vl-utils 0.0.14 and Transformers 5.24 (stored table), or the difference is listed here."""

import csv
from typing import Any

import numpy as np
from support.reference_plans import TABLE

from easyvideor1.errors import UsageError
from easyvideor1.types import FrameSpec
from easyvideor1.video.sampling import frame_size, num_frames, vision_spec, wanted_frames

FAMILIES = {14: vision_spec({"model_type": "qwen2_5_vl"}), 16: vision_spec({"model_type": "qwen3_vl"})}


def read_table() -> list[dict[str, Any]]:
    with TABLE.open() as file:
        return [{name: float(text) if text else None for name, text in row.items()} for row in csv.DictReader(file)]


ROWS = read_table()


def spec_of(row):
    names = ("min_frames", "max_frames", "min_pixels", "max_pixels", "total_pixels")
    limits: dict[str, Any] = {name: None if row[name] is None else int(row[name]) for name in names}
    return FrameSpec(fps=row["fps"], **limits)


def count_of(row):
    times_s = np.arange(int(row["frames"])) / row["source_fps"]
    wanted = wanted_frames(times_s, row["source_fps"], fps=row["fps"])
    return num_frames(len(times_s), wanted=wanted, spec=spec_of(row), temporal_patch=2)


def size_of(row, count):
    height, width = int(row["height"]), int(row["width"])
    vision = FAMILIES[int(row["patch_px"])]
    return frame_size(height, width, num_frames=count + count % 2, spec=spec_of(row), vision=vision, where="clip")


def cap_of(row, count):
    """Pixels a frame may have."""
    total = row["total_pixels"]
    return row["max_pixels"] if total is None else min(row["max_pixels"], total // count)


def is_short(row):
    return row["frames"] < 2 * np.ceil(row["min_frames"] / 2)


def test_the_table_is_large_enough():
    assert len(ROWS) >= 400


def test_frames_and_sizes_agree_with_qwen_vl_utils_or_differ_for_a_listed_reason():
    reasons = {
        "same": 0,
        "short clip: all its frames": 0,
        "total_pixels cannot hold: error": 0,
        "cap holds": 0,
        "a total of its own": 0,
    }
    for row in ROWS:
        count = count_of(row)
        if is_short(row):
            # It drops a frame of odd short clips and refuses single frames; here the last frame is repeated.
            assert count == row["frames"]
            assert row["qwen_frames"] in (None, row["frames"], row["frames"] - 1)
            reasons["short clip: all its frames"] += 1
            continue
        assert count == row["qwen_frames"], row
        try:
            size = size_of(row, count)
        except UsageError:
            # It lets min_pixels beat the total budget without a word.
            assert row["qwen_frames"] * row["qwen_height"] * row["qwen_width"] > row["total_pixels"]
            reasons["total_pixels cannot hold: error"] += 1
            continue
        if size == (row["qwen_height"], row["qwen_width"]):
            reasons["same"] += 1
            continue
        if row["total_pixels"] is None and size[0] * size[1] > row["qwen_height"] * row["qwen_width"]:
            # Without a total it takes 115,200 tokens; here none is none.
            factor = 2 * row["patch_px"]
            assert count * row["max_pixels"] > 2 * 115_200 * factor**2, row
            reasons["a total of its own"] += 1
            continue
        # Rounding up to min_pixels went over the cap there.
        assert row["qwen_height"] * row["qwen_width"] > cap_of(row, count) >= size[0] * size[1], row
        reasons["cap holds"] += 1
    assert reasons["same"] >= 300, reasons
    assert reasons["a total of its own"] <= 2, reasons


def test_number_of_frames_agrees_with_the_processor_of_qwen2():
    num_equal = 0
    for row in ROWS:
        if is_short(row) or row["min_frames"] % 2:
            continue  # it drops or refuses frames of short clips, and rounds an odd min_frames down instead of up
        if row["qwen2_frames"] == row["max_frames"] == count_of(row) + 1:
            continue  # its steps of total / count frames, in float32, may come to one frame more
        assert row["qwen2_frames"] == count_of(row), row
        num_equal += 1
    assert num_equal >= 300


def test_number_of_frames_agrees_with_the_processor_of_qwen3_up_to_its_odd_counts():
    num_equal = 0
    for row in ROWS:
        if row["qwen3_frames"] % 2 or row["min_frames"] % 2:
            # It keeps odd counts and repeats the last frame; here an odd count is rounded down to whole patches.
            assert abs(row["qwen3_frames"] - count_of(row)) <= 1, row
            continue
        assert row["qwen3_frames"] == count_of(row), row
        num_equal += 1
    assert num_equal >= 100


def test_sizes_agree_with_the_processor_of_qwen3_capped_per_frame():
    num_equal = 0
    for row in ROWS:
        count = count_of(row)
        if count != row["qwen3_frames"] or count % 2:
            continue  # another number of frames shares the budget
        if min(row["height"], row["width"]) < 2 * row["patch_px"]:
            continue  # it enlarges those first
        try:
            size = size_of(row, count)
        except UsageError:
            continue
        if size != (row["qwen3_height"], row["qwen3_width"]):
            assert row["qwen3_height"] * row["qwen3_width"] > cap_of(row, count), row
            continue  # rounding up to min_pixels went over the cap there
        num_equal += 1
    assert num_equal >= 150, num_equal


def test_image_sizes_agree_with_transformers():
    num_equal = 0
    for row in ROWS:
        height, width = int(row["height"]), int(row["width"])
        spec = FrameSpec(min_pixels=int(row["min_pixels"]), max_pixels=int(row["max_pixels"]))
        size = frame_size(height, width, num_frames=1, spec=spec, vision=FAMILIES[int(row["patch_px"])], where="image")
        if size != (row["image_height"], row["image_width"]):
            assert row["image_height"] * row["image_width"] > row["max_pixels"], row
            continue  # the cap holds here
        num_equal += 1
    assert num_equal >= 200, num_equal
