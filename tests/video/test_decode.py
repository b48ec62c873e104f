"""Frame k asked is frame k given, on clips whose frames say their number."""

import gc
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from support.make_clips import numbered, read_number, write_clip
from support.sources import video_file

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.canvas import Canvas
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.source import identity

QWEN3 = vision_spec({"model_type": "qwen3_vl", "vision_config": {}})
SPEC = FrameSpec(min_pixels=1024)


def seen(path, spec=SPEC, **media):
    plan = plan_media(Media(kind="video", path=str(path), **media), spec, QWEN3)
    clip = decode(plan)
    assert clip.frames.shape == (len(plan.times_s), 3, plan.height, plan.width)
    assert clip.times_s == plan.times_s
    return plan, clip


def test_a_plain_clip_gives_the_planned_frames_at_their_times(tmp_path):
    path = write_clip(tmp_path / "a.mp4", (numbered(k) for k in range(30)), codec_options={"crf": "8"})
    plan, clip = seen(path)
    assert plan.times_s == (0.0, 0.6, 1.2, 1.7, 2.3, 2.9)
    assert [read_number(frame) for frame in clip.frames] == pytest.approx([0, 6, 12, 17, 23, 29], abs=0.8)
    assert (plan.height, plan.width, plan.grid_thw, plan.num_tokens) == (64, 96, (3, 4, 6), 18)
    assert (clip.source_fps, clip.duration_s, clip.warnings) == (10.0, 3.0, ())


def test_a_clip_range_counts_its_seconds_from_its_own_start(tmp_path):
    path = write_clip(tmp_path / "a.mp4", (numbered(k) for k in range(30)), codec_options={"crf": "8", "g": "7"})
    plan, clip = seen(path, start_s=1.0, end_s=2.0)
    assert plan.times_s == pytest.approx((0.0, 0.3, 0.7, 1.0))
    assert [read_number(frame) for frame in clip.frames] == pytest.approx([10, 13, 17, 20], abs=0.8)


def test_the_frame_that_is_replaced_after_planning_is_noticed(tmp_path):
    path = write_clip(tmp_path / "a.mp4", (numbered(k) for k in range(30)))
    plan = plan_media(Media(kind="video", path=str(path)), SPEC, QWEN3)
    write_clip(path, (numbered(k) for k in range(8)))
    with pytest.raises(MediaError, match="not the one that was planned"):
        decode(plan)


def test_a_replaced_file_gets_another_key_and_a_copy_the_same(tmp_path):
    def key(path):
        return plan_media(Media(kind="video", path=str(path)), SPEC, QWEN3).cache_key

    first = write_clip(tmp_path / "a.mp4", (numbered(k) for k in range(8)))
    copy = tmp_path / "copy.mp4"
    copy.write_bytes(first.read_bytes())
    before = key(first)
    assert key(copy) == before
    write_clip(first, (numbered(k) for k in range(1, 9)))
    assert key(first) != before
    data = copy.read_bytes()
    assert plan_media(Media(kind="video", path="upload", data=data), SPEC, QWEN3).cache_key == before


def test_frames_from_memory_equal_frames_from_the_path(tmp_path):
    path = write_clip(tmp_path / "a.mp4", (numbered(k) for k in range(20)))
    _, clip = seen(path)
    _, uri = seen(f"file://{path}")
    _, data = seen("upload", data=path.read_bytes())
    assert np.array_equal(clip.frames, uri.frames)
    assert np.array_equal(clip.frames, data.frames)


@pytest.mark.parametrize(
    ("start_s", "end_s", "message"),
    [
        (2.0, 1.0, "start_s = 2 is not before end_s = 1"),
        (1.0, 1.0, "is not before"),
        (3.0, None, "beyond its end"),
        (-1.0, None, "not a clip range"),
        (float("nan"), 1.0, "not a clip range"),
    ],
)
def test_impossible_clip_ranges_are_errors_that_name_the_field(tmp_path, start_s, end_s, message):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(30)))
    with pytest.raises(MediaError, match=f"a.mp4: field 'start_s': .*{message}|{message}"):
        seen(path, start_s=start_s, end_s=end_s)


def test_an_end_beyond_the_end_is_clamped_with_a_note(tmp_path):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(30)))
    plan, clip = seen(path, start_s=2.0, end_s=99.0)
    assert plan.times_s == pytest.approx((0.0, 0.3, 0.6, 0.9))
    assert plan.duration_s == pytest.approx(1.0)
    assert "end_s = 99 is beyond" in clip.warnings[0]


def test_a_range_between_two_frames_shows_the_frame_on_screen(tmp_path):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(4)), rate=Fraction(1, 2), codec_options={"crf": "8"})
    plan, clip = seen(path, start_s=2.5, end_s=3.5)
    assert plan.times_s == (0.0,)
    assert read_number(clip.frames[0]) == pytest.approx(1, abs=0.3)


def test_the_key_covers_what_the_frames_depend_on_and_nothing_else(tmp_path):
    path = str(write_clip(tmp_path / "a.mp4", map(numbered, range(30))))

    def key(spec=SPEC, vision=QWEN3, **media):
        return plan_media(Media(kind="video", path=path, **media), spec, vision).cache_key

    other_mean = replace(QWEN3, image_mean=(0.1, 0.2, 0.3), family="qwen3_5")
    assert key(vision=other_mean) == key()
    others = [
        key(start_s=1.0),
        key(end_s=2.0),
        key(replace(SPEC, fps=1.0)),
        key(replace(SPEC, max_frames=4)),
        key(replace(SPEC, max_pixels=100_000)),
        key(replace(SPEC, total_pixels=10_000_000)),
        key(vision=replace(QWEN3, patch_px=14)),
    ]
    assert len({key(), *others}) == 1 + len(others)


def test_a_large_file_gets_another_key_when_a_byte_changes_even_at_the_same_size(tmp_path):
    path = tmp_path / "large.bin"
    data = bytearray(np.random.default_rng(0).bytes(3 << 20))
    path.write_bytes(data)
    before = identity(video_file(path))
    data[1_234_567] ^= 1
    path.write_bytes(data)
    assert identity(video_file(path)) != before


def test_twenty_minutes_are_spread_over_the_whole_clip(tmp_path):
    pictures = (numbered(number / 10, width=32, height=32) for number in range(2400))
    path = write_clip(tmp_path / "long.mp4", pictures, rate=2, codec_options={"preset": "ultrafast", "g": "100"})
    plan, clip = seen(path)
    assert len(plan.times_s) == 128
    assert (plan.times_s[0], plan.times_s[-1], plan.duration_s) == (0.0, 1199.5, 1200.0)
    assert len(clip.frames) == 128


def test_decoded_frames_are_freed_without_the_garbage_collector(tmp_path):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(30)))
    plan = plan_media(Media(kind="video", path=str(path)), SPEC, QWEN3)
    decode(plan)
    gc.collect()
    gc.disable()
    try:
        decode(plan)
        num_left = sum(type(item) is av.VideoFrame for item in gc.get_objects())
    finally:
        gc.enable()
    assert num_left <= 1  # the one whose display matrix was read


def test_frames_that_never_come_are_replaced_by_the_nearest_and_half_of_them_is_the_least(tmp_path):
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(30)))
    plan = plan_media(Media(kind="video", path=str(path)), SPEC, QWEN3)
    canvas = Canvas(plan)
    for number in (17, 0, 12):  # in any order; 6, 23 and 29 are missing
        canvas.put(number, numbered(number))
    clip = canvas.clip()
    assert [round(read_number(frame)) for frame in clip.frames] == [0, 0, 12, 17, 17, 17]
    assert clip.warnings == ("3 of 6 frames cannot be decoded; the nearest stands in",)
    half = Canvas(plan)
    half.put(0, numbered(0))
    half.put(6, numbered(6))
    with pytest.raises(MediaError, match=r"a\.mp4: damaged: only 2 of 6"):
        half.clip()
