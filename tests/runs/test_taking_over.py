"""Frames that EasyVideoR1 stored become entries of the cache."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.easyvideor1_project import Loud, write_frames

from easyvideor1.cli import main
from easyvideor1.config_data import CacheConfig
from easyvideor1.errors import MediaError
from easyvideor1.runs.taking_over import StoredFrames, TakeOver, read_frames
from easyvideor1.types import Clip, FrameSpec, Media, VisionSpec
from easyvideor1.video.cache import FrameCache
from easyvideor1.video.decode import decode
from easyvideor1.video.known_files import known_files
from easyvideor1.video.sampling import plan_media, vision_spec

SPEC = FrameSpec(fps=2.0, max_frames=4, min_pixels=3136, max_pixels=4096)
VISION: VisionSpec = vision_spec({"model_type": "qwen3_vl"})
WriteVideo = Callable[..., Path]


@pytest.fixture
def cache(tmp_path: Path) -> CacheConfig:
    return CacheConfig(dir=str(tmp_path / "cache"))


def decoded(path: Path) -> Clip:
    return decode(plan_media(Media(kind="video", path=str(path)), SPEC, VISION))


def test_where_the_video_is_there_the_entry_is_that_of_our_own_decoding(
    tmp_path: Path, write_video: WriteVideo, cache: CacheConfig
) -> None:
    video = write_video("a.mp4")
    media = Media(kind="video", path=str(video))
    clip = decoded(video)
    stored = write_frames(tmp_path / "a.pt", clip)
    work = TakeOver(spec=SPEC, vision=VISION, cache=cache)
    item = StoredFrames(media=media, path=str(stored), where="rows:1")
    assert (work(item).is_new, work(item).is_new, work(item).is_gone) == (True, False, False)
    frames = FrameCache(cache.dir, mode="preprocessed_only")
    plan = plan_media(media, SPEC, VISION)
    loaded = frames.load(plan)
    assert (loaded.frames == clip.frames).all()
    assert loaded.times_s == clip.times_s
    # Gone afterwards: the same plan, under the same key.
    os.remove(video)
    stand_in = plan_media(media, SPEC, VISION, files=known_files(cache))
    assert (stand_in.cache_key, stand_in.times_s, stand_in.grid_thw) == (plan.cache_key, plan.times_s, plan.grid_thw)


def test_where_the_video_is_gone_its_frames_stand_in_for_it_under_their_settings(
    tmp_path: Path, write_video: WriteVideo, cache: CacheConfig
) -> None:
    video = write_video("a.mp4")
    clip = decoded(video)
    stored = write_frames(tmp_path / "a.pt", clip)
    os.remove(video)
    media = Media(kind="video", path=str(video))
    with pytest.raises(MediaError, match=r"a\.mp4: cannot be read: No such file"):
        plan_media(media, SPEC, VISION, files=known_files(cache))
    item = StoredFrames(media=media, path=str(stored), where="rows:1")
    assert TakeOver(spec=SPEC, vision=VISION, cache=cache)(item).is_gone
    plan = plan_media(media, SPEC, VISION, files=known_files(cache))
    loaded = FrameCache(cache.dir).load(plan)
    assert (loaded.frames == clip.frames).all()
    np.testing.assert_allclose(plan.times_s, [0.0, 0.6111, 1.2222, 1.8333], atol=1e-3)  # number / fps, as stored
    assert plan.num_tokens == 2 * 4  # 64 x 64 pixels in 2 pairs of frames
    with pytest.raises(MediaError, match=r"taken over for other settings \(fps 2.0 instead of 1.0\)"):
        plan_media(media, FrameSpec(fps=1.0, max_frames=4, min_pixels=3136, max_pixels=4096), VISION,
                   files=known_files(cache))  # fmt: skip


def test_frames_of_other_settings_or_another_video_are_refused(
    tmp_path: Path, write_video: WriteVideo, cache: CacheConfig
) -> None:
    video = write_video("a.mp4")
    clip = decoded(video)
    media = Media(kind="video", path=str(video))
    work = TakeOver(spec=SPEC, vision=VISION, cache=cache)
    fewer = Clip(frames=clip.frames[:2], times_s=clip.times_s[:2], source_fps=6.0, duration_s=2.0, backend="pyav")
    path = write_frames(tmp_path / "few.pt", fewer)
    with pytest.raises(
        MediaError, match=r"few.pt: holds 2 frames of 64x64 pixels, but these settings ask for 4 frames"
    ):
        work(StoredFrames(media=media, path=str(path), where=""))
    later = {"fps": 1.0, "frames_indices": [5, 6, 7, 8]}
    path = write_frames(tmp_path / "late.pt", clip, metadata=later)
    with pytest.raises(MediaError, match=r"late.pt: its times differ by .* s from those of"):
        work(StoredFrames(media=media, path=str(path), where=""))
    assert not list(Path(cache.dir).glob("??/*"))


PIXELS = torch.zeros(2, 3, 64, 64)
GOOD: dict[str, Any] = {"frames": PIXELS, "metadata": {"fps": 2.0, "frames_indices": [0, 1]}}


@pytest.mark.parametrize(
    ("held", "problem"),
    [
        ([1, 2], "it has no 'frames'"),
        ({**GOOD, "frames": torch.zeros(2, 64, 64)}, "it has no 'frames'"),
        ({**GOOD, "frames": torch.zeros(0, 3, 4, 4)}, r"frames \[0, 3, 4, 4\]"),
        ({**GOOD, "frames": PIXELS + 0.5}, "no whole numbers from 0 to 255"),
        ({**GOOD, "frames": PIXELS + 256}, "no whole numbers from 0 to 255"),
        ({**GOOD, "frames": PIXELS * float("nan")}, "no whole numbers from 0 to 255"),
        ({**GOOD, "metadata": {"fps": 0.0, "frames_indices": [0, 1]}}, "metadata without numbers"),
        ({**GOOD, "metadata": {"fps": 2.0}}, "metadata without numbers"),
        ({**GOOD, "metadata": {"fps": 2.0, "frames_indices": [0]}}, "1 times for 2 frames"),
        ({**GOOD, "metadata": {"fps": 2.0, "frames_indices": [1, 1]}}, "times that do not rise"),
        ({**GOOD, "metadata": {"fps": 2.0, "frames_indices": torch.tensor([0, 1])}}, ""),
    ],
)
def test_hostile_files_are_told(tmp_path: Path, held: Any, problem: str) -> None:
    path = tmp_path / "x.pt"
    torch.save(held, path)
    if not problem:
        assert read_frames(path).times_s == (0.0, 0.5)
        return
    with pytest.raises(MediaError, match=problem):
        read_frames(path)


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    path, trace = tmp_path / "x.pt", tmp_path / "trace"
    torch.save({**GOOD, "metadata": Loud(str(trace))}, path)
    with pytest.raises(MediaError, match=r"x.pt: cannot be read as frames"):
        read_frames(path)
    assert not trace.exists()
    for content in (b"", b"no zip", path.read_bytes()[:2000]):
        path.write_bytes(content)
        with pytest.raises(MediaError, match="cannot be read"):
            read_frames(path)


def test_the_command_takes_over_what_it_can_and_tells_the_rest(
    tmp_path: Path, write_video: WriteVideo, write_rows: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    video = write_video("a.mp4")
    folder = tmp_path / "stored"
    folder.mkdir()
    write_frames(folder / "a.pt", decoded(video))
    row = {"problem": "?", "answer": "3", "problem_type": "numerical", "videos": ["a.mp4"]}
    rows = [
        {**row, "problem_id": "1", "preprocessed_video": "a.pt"},
        {**row, "problem_id": "2", "preprocessed_video": "a.pt"},
        {**row, "problem_id": "3", "preprocessed_video": "gone.pt"},
        {**row, "problem_id": "4", "preprocessed_video": "a.pt", "videos": ["a.mp4", "a.mp4"]},
        {**row, "problem_id": "5", "preprocessed_video": None},
    ]
    data = write_rows(rows)
    words = ["data.video={fps: 2.0, max_frames: 4, min_pixels: 3136, max_pixels: 4096}", "--workers", "1"]
    assert main(["cache", "import", str(folder), "--data", str(data), "--cache", str(tmp_path / "c"), *words]) == 1
    out, error = capsys.readouterr()
    assert out == (
        "4 rows name stored frames: 1 files taken over, 0 were there already, 2 failed; 0 of the videos are gone, and "
        "their frames stand in for them\n"
    )
    assert "gone.pt: cannot be read: No such file" in error
    assert main(["cache", "import", str(tmp_path / "no"), "--data", str(data), "--cache", str(tmp_path / "c")]) == 2
