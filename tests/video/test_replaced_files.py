"""A file that is replaced while it is read leaves nothing under the key of the one that was planned."""

import os

import numpy as np
import pytest
from support.make_clips import numbered, read_number, write_clip

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video import decode as module
from easyvideor1.video.cache import FrameCache, entries
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec

VISION = vision_spec({"model_type": "qwen3_vl"})
SPEC = FrameSpec(min_pixels=1024)


@pytest.fixture
def files(tmp_path):
    """The file that is planned, and another with as many frames at the same times."""
    one = write_clip(tmp_path / "a.mp4", map(numbered, range(20)))
    other = write_clip(tmp_path / "b.mp4", (numbered(number + 20) for number in range(20)))
    return one, other


def doing(monkeypatch, act):
    """Do something the first times the file has been opened and before it is decoded."""
    real, calls = module.BACKENDS["pyav"], []

    def draw(*args, **options):
        calls.append(1)
        act(len(calls))
        real(*args, **options)

    monkeypatch.setitem(module.BACKENDS, "pyav", draw)


def test_a_replaced_file_is_an_error_and_leaves_no_entry(files, tmp_path, monkeypatch):
    one, other = files
    plan = plan_media(Media(kind="video", path=str(one)), SPEC, VISION)
    doing(monkeypatch, lambda call: os.replace(other, one) if call == 1 else None)
    with pytest.raises(MediaError, match=r"a\.mp4: the file is not the one that was planned"):
        FrameCache(tmp_path / "cache").load(plan)
    assert not list(entries(tmp_path / "cache"))


def test_a_file_that_is_replaced_with_its_size_and_times_kept_is_noticed_too(files, tmp_path, monkeypatch):
    one, other = files
    status = one.stat()
    content = other.read_bytes().ljust(status.st_size, b"\0")[: status.st_size]
    plan = plan_media(Media(kind="video", path=str(one)), SPEC, VISION)

    def replace(call):
        other.write_bytes(content)
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(other, one)

    doing(monkeypatch, replace)
    with pytest.raises(MediaError, match="not the one that was planned"):
        FrameCache(tmp_path / "cache").load(plan)


def test_a_file_that_comes_back_is_read_once_more(files, tmp_path, monkeypatch):
    one, other = files
    aside = tmp_path / "aside.mp4"
    plan = plan_media(Media(kind="video", path=str(one)), SPEC, VISION)
    expected = decode(plan).frames

    def act(call):
        if call == 1:  # the other one is decoded, and then the first one is back
            os.replace(one, aside)
            os.replace(other, one)
            os.replace(aside, tmp_path / "back.mp4")

    real_locate, calls = module.locate, []

    def locate(media):
        calls.append(1)
        if (tmp_path / "back.mp4").exists():
            os.replace(tmp_path / "back.mp4", one)
        return real_locate(media)

    doing(monkeypatch, act)
    monkeypatch.setattr(module, "locate", locate)
    clip = FrameCache(tmp_path / "cache").load(plan)
    assert np.array_equal(clip.frames, expected)
    assert round(read_number(clip.frames[0])) == 0
    assert len(calls) == 2


def test_a_file_that_never_rests_is_an_error(files, monkeypatch):
    one, _ = files
    plan = plan_media(Media(kind="video", path=str(one)), SPEC, VISION)
    doing(monkeypatch, lambda call: os.chmod(one, 0o600 + call))
    with pytest.raises(MediaError, match=r"a\.mp4: it changes while it is read \(wait until it is complete\)"):
        decode(plan)
