"""Every kind of troublesome input gives its right answer, from a path and from memory alike."""

import re

import numpy as np
import pytest
from support.kinds import CODECS, KINDS, Kind
from support.make_clips import read_number

from easyvideor1.errors import MediaError
from easyvideor1.types import Clip, FrameSpec, Media, MediaPlan
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec

QWEN3 = vision_spec({"model_type": "qwen3_vl", "vision_config": {}})
SPEC = FrameSpec(min_pixels=1024)


def seen(**media) -> tuple[MediaPlan, Clip]:
    plan = plan_media(Media(kind="video", **media), SPEC, QWEN3)
    return plan, decode(plan)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_troublesome_input_gives_its_right_answer(kind: Kind, tmp_path):
    path = kind.make(tmp_path)
    data = path.read_bytes() if path.is_file() else None
    if kind.verdict == "error":
        check_error(kind, path=str(path), fps=kind.fps)
        if data is not None:
            check_error(kind, path="upload", data=data)
        return
    plan, clip = seen(path=str(path), fps=kind.fps)
    check(kind, plan, clip)
    if data is not None:
        other_plan, other = seen(path="upload", data=data)
        assert np.array_equal(other.frames, clip.frames)
        assert (other.times_s, other_plan.cache_key, other.warnings) == (clip.times_s, plan.cache_key, clip.warnings)


def check_error(kind: Kind, **media) -> None:
    with pytest.raises(MediaError) as caught:
        seen(**media)
    assert re.search(kind.says, str(caught.value)), caught.value
    assert caught.value.where == media["path"]


def check(kind: Kind, plan: MediaPlan, clip: Clip) -> None:
    assert ("warn" if clip.warnings else "ok") == kind.verdict, clip.warnings
    assert re.search(kind.says, " ".join(clip.warnings)), clip.warnings
    assert clip.frames.shape == (len(plan.times_s), 3, *kind.size)
    assert plan.grid_thw == (-(-len(plan.times_s) // 2), kind.size[0] // 16, kind.size[1] // 16)
    assert list(clip.times_s) == sorted(set(clip.times_s))
    assert clip.times_s[0] == 0.0
    if kind.times_s is not None:
        assert clip.times_s == pytest.approx(kind.times_s, abs=1e-3)
    if kind.number is not None:
        numbers = [read_number(frame) for frame in clip.frames]
        assert numbers == pytest.approx([kind.number(time_s) for time_s in clip.times_s], abs=0.8)
    if kind.is_upright:
        red, blue = clip.frames[0, :, 2:6, 2:6].mean((1, 2)), clip.frames[0, :, -6:-2, -6:-2].mean((1, 2))
        assert red.argmax() == 0, red
        assert blue.argmax() == 2, blue


@pytest.mark.parametrize("kind", CODECS, ids=lambda kind: kind.name)
def test_single_frames_asked_in_any_order_are_those_frames(kind: Kind, tmp_path):
    path = str(kind.make(tmp_path))
    for number in (23, 3, 17, 0, 28):
        plan, clip = seen(path=path, start_s=number / 10, end_s=number / 10 + 0.05)
        assert plan.times_s == pytest.approx((0.0,), abs=1e-3)
        assert read_number(clip.frames[0]) == pytest.approx(number, abs=0.8)


def test_there_are_kinds_enough():
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 45
