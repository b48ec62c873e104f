"""Images and frame lists: upright, on white, in natural order, with the times they were given."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.make_clips import numbered, read_number

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media, MediaKind
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.source import locate

QWEN3 = vision_spec({"model_type": "qwen3_vl", "vision_config": {}})
SPEC = FrameSpec(min_pixels=1024)


def frame_names(folder: Path) -> list[str]:
    sources = locate(Media(kind="video", path=str(folder), fps=1.0))
    assert isinstance(sources, tuple)
    return [source.name.rpartition("/")[2] for source in sources]


def seen(kind: MediaKind = "image", **media):
    plan = plan_media(Media(kind=kind, **media), SPEC, QWEN3)
    return plan, decode(plan)


def test_an_image_is_one_frame_at_time_zero_and_one_patch_in_time(tmp_path):
    Image.fromarray(numbered(3)).save(tmp_path / "a.png")
    plan, clip = seen(path=str(tmp_path / "a.png"))
    assert (plan.times_s, plan.grid_thw, plan.num_tokens) == ((0.0,), (1, 4, 6), 6)
    assert np.array_equal(clip.frames[0], numbered(3).transpose(2, 0, 1))


@pytest.mark.parametrize(
    ("orientation", "turns", "mirror"), [(3, 2, False), (6, 1, False), (8, 3, False), (2, 0, True)]
)
def test_an_image_is_turned_upright_by_its_exif_orientation(tmp_path, orientation, turns, mirror):
    upright = numbered(3, width=64, height=96)
    stored = np.rot90(upright[:, ::-1] if mirror else upright, turns)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "a.png", exif=exif)
    plan, clip = seen(path=str(tmp_path / "a.png"))
    assert (plan.height, plan.width) == (96, 64)
    assert np.array_equal(clip.frames[0], upright.transpose(2, 0, 1))


def test_transparent_pixels_become_white_and_deep_grey_is_scaled(tmp_path):
    clear = np.zeros((64, 96, 4), np.uint8)
    clear[:32] = (10, 20, 30, 255)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    _, clip = seen(path=str(tmp_path / "clear.png"))
    assert clip.frames[0, :, 10, 10].tolist() == [10, 20, 30]
    assert clip.frames[0, :, 60, 10].tolist() == [255, 255, 255]
    Image.fromarray(np.full((64, 96), 40_000, np.uint16)).save(tmp_path / "deep.png")
    _, clip = seen(path=str(tmp_path / "deep.png"))
    assert clip.frames[0, :, 10, 10].tolist() == [156, 156, 156]  # 40000 / 257 = 155.6


def test_an_image_from_memory_and_from_a_data_address_equals_the_file(tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(numbered(3)).save(buffer, "PNG")
    _, from_memory = seen(path="row 3", data=buffer.getvalue())
    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    _, from_address = seen(path=address)
    assert np.array_equal(from_memory.frames, from_address.frames)
    with pytest.raises(MediaError, match="base64 text is damaged"):
        seen(path="data:image/png;base64,%%%")


def test_a_video_is_no_image_and_a_remote_address_is_not_read(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(100))
    with pytest.raises(MediaError, match=r"a\.mp4: not a readable picture"):
        seen(path=str(tmp_path / "a.mp4"))
    with pytest.raises(MediaError, match="download it first"):
        seen(path="https://example.org/a.png")


def make_list(folder, count=6):
    paths = tuple(str(folder / f"{number}.png") for number in range(count))
    for number, path in enumerate(paths):
        Image.fromarray(numbered(number)).save(path)
    return paths


def test_a_frame_list_keeps_its_own_uneven_times(tmp_path):
    paths = make_list(tmp_path)
    plan, clip = seen("video", path=paths, times_s=(0.0, 0.5, 1.0, 4.0, 4.5, 9.0))
    assert set(plan.times_s) <= {0.0, 0.5, 1.0, 4.0, 4.5, 9.0}
    expected = [(0.0, 0.5, 1.0, 4.0, 4.5, 9.0).index(time_s) for time_s in plan.times_s]
    assert [read_number(frame) for frame in clip.frames] == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({}, "carries no times"),
        ({"fps": 2.0, "times_s": (0.0, 1.0)}, "not both"),
        ({"times_s": (0.0, 1.0)}, "6 rising numbers"),
        ({"times_s": (0.0, 1.0, 1.0, 2.0, 3.0, 4.0)}, "6 rising numbers"),
        ({"fps": 0.0}, "> 0"),
    ],
)
def test_a_frame_list_without_sound_times_is_an_error(tmp_path, times, message):
    with pytest.raises(MediaError, match=message):
        seen("video", path=make_list(tmp_path), **times)


def test_a_folder_is_read_in_natural_order(tmp_path):
    for number in (1, 2, 10, 9, 100):
        Image.fromarray(numbered(0)).save(tmp_path / f"frame{number}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    names = frame_names(tmp_path)
    assert names == [f"frame{number}.png" for number in (1, 2, 9, 10, 100)]


def test_pictures_of_floating_point_numbers_are_refused_not_shown_black(tmp_path):
    Image.fromarray(np.full((64, 96), 0.5, np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(MediaError, match=r"a\.tif: .*floating-point"):
        seen(path=str(tmp_path / "a.tif"))


def test_hidden_files_are_no_frames_and_equal_numbers_have_an_order(tmp_path):
    for name in ("f_2.png", "f_02.png", "f_1.png", "f_10.png"):
        Image.fromarray(numbered(1)).save(tmp_path / name)
    for name in ("._f_1.png", ".DS_Store", "Thumbs.db", "notes.txt"):
        (tmp_path / name).write_bytes(b"not a picture")
    assert frame_names(tmp_path) == ["f_1.png", "f_02.png", "f_2.png", "f_10.png"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "the path is empty"),
        ("x" * 300 + ".mp4", "cannot be read: File name too long"),
        ("a\0b.mp4", "cannot be read: embedded null byte"),
        ("https://host/a.mp4", "not read .download it first"),
        ("data:video/mp4;base64,AAA", "base64 text is damaged"),
        ("data:video/mp4,AAAA", "not a base64 data address|cannot be read"),
    ],
)
def test_odd_paths_are_errors_not_crashes(path, message):
    with pytest.raises(MediaError, match=message):
        locate(Media(kind="video", path=path))


def test_a_picture_of_a_phone_that_is_not_read_names_the_remedy(tmp_path):
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(60))
    with pytest.raises(MediaError, match=r"a\.heic: not a readable picture: of no known format.*JPEG"):
        seen(path=str(tmp_path / "a.heic"))
