"""Frames of a coarser setting out of a stored clip: the file of the entry is that of a fresh decode, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.kinds import KINDS, Kind, frame_folder
from support.make_clips import numbered, write_clip

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media, MediaPlan
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.sampling import plan_media, vision_spec

QWEN3 = vision_spec({"model_type": "qwen3_vl", "vision_config": {}})
FINE = FrameSpec(fps=1000.0, max_frames=512, min_pixels=1024)
"""Every frame of a short clip."""
COARSE = replace(FINE, fps=2.0)
SOME = ("plain", "open groups", "hevc 10 bit", "vp9 with alpha", "uneven", "ntsc", "bare h264", "late start")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pictures = (numbered(number) for number in range(30))
    return write_clip(tmp_path_factory.mktemp("clips") / "a.mp4", pictures, codec_options={"crf": "8", "bf": "2"})


def planned(path: Path, spec: FrameSpec, **media: Any) -> MediaPlan:
    return plan_media(Media(kind="video", path=str(path), **media), spec, QWEN3)


def entry_bytes(cache: FrameCache, plan: MediaPlan) -> bytes:
    cache.load(plan)
    return cache.path(plan).read_bytes()


def is_derived(folder: Path, first: MediaPlan, second: MediaPlan, codec: str = "raw") -> bool:
    """Whether the second plan's entry was made of the first one's; it is that of a fresh decode either way."""
    cache, fresh = FrameCache(folder / "one", codec=codec), FrameCache(folder / "fresh", codec=codec)
    cache.load(first)
    assert entry_bytes(cache, second) == entry_bytes(fresh, second)
    assert fresh.counters.derived == 0
    assert cache.counters.derived + cache.counters.decodes == 2
    return bool(cache.counters.derived)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in SOME], ids=lambda kind: kind.name)
def test_a_coarser_setting_is_made_of_a_finer_one(kind: Kind, tmp_path: Path) -> None:
    path = kind.make(tmp_path)
    assert is_derived(tmp_path, planned(path, FINE, fps=None), planned(path, COARSE, fps=None))


@pytest.mark.slow
@pytest.mark.skipif("not config.getoption('markexpr')", reason="takes a minute; run with -m slow")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.verdict != "error"], ids=lambda kind: kind.name)
def test_whatever_the_file_the_entry_is_that_of_a_fresh_decode(kind: Kind, tmp_path: Path) -> None:
    path = kind.make(tmp_path)
    fine = planned(path, replace(FINE, fps=2000.0), fps=kind.fps)
    specs = (COARSE, replace(COARSE, max_frames=4), replace(COARSE, max_pixels=200_000))
    for place, spec in enumerate(specs):
        is_derived(tmp_path / str(place), fine, planned(path, spec, fps=kind.fps))


CHANGES: dict[str, tuple[FrameSpec, FrameSpec, bool]] = {
    "1 of 2 frames per second": (replace(FINE, fps=2.0), replace(FINE, fps=1.0), False),
    "4 of 10 frames": (replace(FINE, max_frames=10), replace(FINE, max_frames=4), True),
    "6 of 16 frames": (replace(FINE, max_frames=16), replace(FINE, max_frames=6), True),
    "4 of 6 frames": (replace(FINE, max_frames=6), replace(FINE, max_frames=4), False),
    "same frames, other rate": (
        replace(FINE, fps=9.0, max_frames=8),
        replace(FINE, fps=3.0, max_frames=8),
        True,
    ),
    "more frames": (replace(FINE, max_frames=4), replace(FINE, max_frames=10), False),
    "a larger limit that is not reached": (replace(FINE, max_pixels=200_000), replace(FINE, fps=2.0), True),
    "smaller pixels": (FINE, replace(COARSE, max_pixels=4096), False),
    "larger pixels": (FINE, replace(COARSE, min_pixels=20_000), False),
    "pictures made whole": (FINE, replace(COARSE, deinterlace=True), False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_what_holds_every_frame_in_the_same_size_is_used(change: str, clip: Path, tmp_path: Path) -> None:
    # The rule spreads frames from the first to the last: 1 per second are others than of 2 (0, 10, 19, .. of 0, 6, ..).
    first, second, expected = CHANGES[change]
    assert is_derived(tmp_path, planned(clip, first), planned(clip, second)) is expected


def test_packed_entries_serve_where_they_are_lossless(clip: Path, tmp_path: Path) -> None:
    assert is_derived(tmp_path / "zstd", planned(clip, FINE), planned(clip, COARSE), codec="zstd")
    assert not is_derived(tmp_path / "jpeg", planned(clip, FINE), planned(clip, COARSE), codec="jpeg")


def test_images_and_lists_of_frames_serve_too(tmp_path: Path) -> None:
    folder = frame_folder("frames")(tmp_path)
    assert is_derived(tmp_path, planned(folder, FINE, fps=10.0), planned(folder, replace(FINE, max_frames=4), fps=10.0))
    picture = sorted(folder.iterdir())[0]
    plans = [
        plan_media(Media(kind="image", path=str(picture)), FrameSpec(min_pixels=1024, max_pixels=most), QWEN3)
        for most in (100_000, 200_000)
    ]
    assert plans[0].cache_key != plans[1].cache_key
    assert is_derived(tmp_path / "image", plans[0], plans[1])


def damaged(cache: FrameCache, plan: MediaPlan) -> None:
    content = bytearray(cache.path(plan).read_bytes())
    content[-1] ^= 1
    cache.path(plan).write_bytes(content)


def spoiled(cache: FrameCache, plan: MediaPlan) -> None:
    cache.path(plan).write_bytes(b"x" * 100)


def unlisted(cache: FrameCache, plan: MediaPlan) -> None:
    for path in cache.dir.glob("origins/*/*"):
        path.unlink()


LOSSES: dict[str, Callable[[FrameCache, MediaPlan], None]] = {
    "is damaged": damaged,
    "is gone": lambda cache, plan: cache.path(plan).unlink(),
    "is of no clip": spoiled,
    "is not listed": unlisted,
}


@pytest.mark.parametrize("loss", LOSSES)
def test_an_entry_that_cannot_serve_costs_a_decode_and_nothing_else(loss: str, clip: Path, tmp_path: Path) -> None:
    cache, fresh = FrameCache(tmp_path / "one"), FrameCache(tmp_path / "fresh")
    fine, coarse = planned(clip, FINE), planned(clip, COARSE)
    cache.load(fine)
    LOSSES[loss](cache, fine)
    assert entry_bytes(cache, coarse) == entry_bytes(fresh, coarse)
    assert (cache.counters.derived, cache.counters.decodes) == (0, 2)


def test_another_stretch_and_another_file_are_decoded(clip: Path, tmp_path: Path) -> None:
    fine = planned(clip, FINE)
    assert not is_derived(tmp_path, fine, planned(clip, COARSE, start_s=0.0, end_s=2.0))
    other = write_clip(tmp_path / "b.mp4", (numbered(number) for number in range(30)), codec_options={"crf": "20"})
    assert not is_derived(tmp_path / "other", fine, planned(other, COARSE))


def test_a_clip_with_frames_that_stand_in_for_others_serves_nobody(tmp_path: Path) -> None:
    kind = next(kind for kind in KINDS if kind.name == "hole")
    path = kind.make(tmp_path)
    assert not is_derived(tmp_path, planned(path, FINE), planned(path, COARSE))


def test_a_run_that_decodes_nothing_says_what_is_missing(clip: Path, tmp_path: Path) -> None:
    FrameCache(tmp_path).load(planned(clip, FINE))
    with pytest.raises(MediaError, match="no stored frames"):
        FrameCache(tmp_path, mode="preprocessed_only").load(planned(clip, COARSE))
