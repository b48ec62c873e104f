"""Frame k asked is frame k given, on clips whose frames say their number."""

import numpy as np
import pytest
from make_clips import numbered, read_number, write_clip

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec

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
