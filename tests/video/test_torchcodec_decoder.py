"""The second backend gives the frames of the first, or says why not. Where torchcodec does not load, a stand-in."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from support.kinds import KINDS, Kind
from support.make_clips import numbered, write_clip

from easyvideor1.errors import MediaError, UsageError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec

QWEN3 = vision_spec({"model_type": "qwen3_vl"})
NOT_BY_TORCHCODEC = {
    "h264 in avi, no times",
    "flash",
    "windows media",  # the last frame has no duration
    "mirrored",
    "open groups, transport",
    "hevc open groups",
    "transport from 100 s",
    "wrapping clock",  # it seeks to other frames in transport streams
    "hole",
}
"""Kinds it refuses, instead of giving other frames."""
try:  # it loads where FFmpeg's libraries are; elsewhere the comparison of both is skipped
    import torchcodec.decoders  # pyright: ignore[reportMissingImports]

    LOADS = bool(torchcodec.decoders)
except (ImportError, RuntimeError):
    LOADS = False


def seen(backend: Literal["pyav", "torchcodec"], *, deinterlace: bool = False, **media):
    spec = FrameSpec(min_pixels=1024, backend=backend, deinterlace=deinterlace)
    return decode(plan_media(Media(kind="video", **media), spec, QWEN3))


class StandIn:
    """Behaves as torchcodec's VideoDecoder does, on 30 numbered frames at 10 fps."""

    late_s = 0.0

    def __init__(self, content, **options):
        if content == b"broken" or options["dimension_order"] != "NHWC":
            raise ValueError("no frames\nsecond line")

    def get_frames_played_at(self, seconds):
        numbers = [int((second) * 10) for second in seconds]
        return SimpleNamespace(
            data=FakeTensor(np.stack([numbered(number) for number in numbers])),
            pts_seconds=FakeTensor(np.array([number / 10 + self.late_s for number in numbers])),
        )


class FakeTensor:
    def __init__(self, values):
        self.values = values

    def numpy(self):
        return self.values


@pytest.fixture
def stand_in(monkeypatch):
    module: Any = ModuleType("torchcodec.decoders")
    module.VideoDecoder = StandIn
    monkeypatch.setitem(sys.modules, "torchcodec", ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", module)


def clip_at(tmp_path):
    return str(write_clip(tmp_path / "a.mp4", map(numbered, range(30)), codec_options={"crf": "0", "preset": "fast"}))


def test_frames_are_asked_for_by_their_planned_times(stand_in, tmp_path):
    path = clip_at(tmp_path)
    clip = seen("torchcodec", path=path)
    assert clip.backend == "torchcodec"
    assert np.array_equal(clip.frames, np.stack([numbered(n).transpose(2, 0, 1) for n in (0, 6, 12, 17, 23, 29)]))


def test_frames_of_other_times_are_an_error(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr(StandIn, "late_s", 0.02)
    with pytest.raises(MediaError, match=r"a\.mp4: torchcodec gives frames 0\.020 s off the planned times"):
        seen("torchcodec", path=clip_at(tmp_path))


def test_what_it_cannot_read_is_an_error_that_names_the_file(stand_in, tmp_path, monkeypatch):
    def refuse(self, content, **options):
        raise RuntimeError("Invalid data\nand where in its source")

    monkeypatch.setattr(StandIn, "__init__", refuse)
    with pytest.raises(MediaError, match=r"a\.mp4: torchcodec cannot decode it: Invalid data \(use backend pyav\)"):
        seen("torchcodec", path=clip_at(tmp_path))


def test_a_missing_torchcodec_and_deinterlacing_are_told_before_decoding(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", None)
    with pytest.raises(UsageError, match=r"backend torchcodec does not load .*or use backend pyav"):
        seen("torchcodec", path=clip_at(tmp_path))
    with pytest.raises(UsageError, match="cannot deinterlace"):
        seen("torchcodec", path=clip_at(tmp_path), deinterlace=True)


def test_backends_have_cache_entries_of_their_own(tmp_path):
    path = clip_at(tmp_path)
    specs = FrameSpec(), FrameSpec(backend="torchcodec"), FrameSpec(deinterlace=True)
    keys = {plan_media(Media(kind="video", path=path), spec, QWEN3).cache_key for spec in specs}
    assert len(keys) == 3


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if LOADS and kind.verdict != "error"], ids=lambda kind: kind.name
)
def test_both_backends_give_the_same_frames_of_every_kind(kind: Kind, tmp_path):
    path = kind.make(tmp_path)
    sources = [{"path": str(path), "fps": kind.fps}]
    if path.is_file():
        sources.append({"path": "upload", "data": path.read_bytes()})
    for source in sources:
        if kind.name in NOT_BY_TORCHCODEC:
            with pytest.raises(MediaError, match=r"torchcodec .*\(use backend pyav\)"):
                seen("torchcodec", **source)
            continue
        found, expected = seen("torchcodec", **source), seen("pyav", **source)
        assert np.array_equal(found.frames, expected.frames)
        assert found.times_s == expected.times_s
