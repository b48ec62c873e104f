"""Pixels where conversion is not plain (10 bits, interlaced) against the ffmpeg program's own."""

import subprocess
from fractions import Fraction
from pathlib import Path

import av
import imageio_ffmpeg
import numpy as np
import pytest
from support.kinds import KINDS, X264
from support.make_clips import numbered, write_clip

from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec

QWEN3 = vision_spec({"model_type": "qwen3_vl"})
YADIF = "yadif=mode=send_frame:deint=interlaced"
HARD_TO_CONVERT = [kind for kind in KINDS if "10 bit" in kind.name or kind.name == "interlaced"]


def by_ffmpeg(path: Path, *, video_filter: str = "null") -> np.ndarray:
    """uint8 [T, 3, 64, 96], every frame."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), "-vf", video_filter]
    found = subprocess.run([*command, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], capture_output=True, check=True)
    return np.frombuffer(found.stdout, np.uint8).reshape(-1, 64, 96, 3).transpose(0, 3, 1, 2)


def by_us(path: Path, *, fps: float = 1000.0, deinterlace: bool = False) -> tuple[np.ndarray, list[int]]:
    """Frames at their own size, and their numbers."""
    spec = FrameSpec(fps=fps, min_pixels=1024, deinterlace=deinterlace)
    plan = plan_media(Media(kind="video", path=str(path)), spec, QWEN3)
    return decode(plan).frames, list(plan.frame_numbers)


def moving_fields(folder: Path) -> Path:
    """Interlaced: the lines of each frame come from two moments in turn, between which a bar moves."""

    def picture(moment: int) -> np.ndarray:
        return np.roll(numbered(moment), 6 * moment, axis=1)

    def frame(number: int) -> np.ndarray:
        woven = picture(2 * number)
        woven[1::2] = picture(2 * number + 1)[1::2]
        return woven

    options = X264 | {"flags": "+ilme+ildct", "x264opts": "tff=1"}
    return write_clip(folder / "fields.mp4", map(frame, range(20)), codec_options=options)


@pytest.mark.parametrize("kind", HARD_TO_CONVERT, ids=lambda kind: kind.name)
def test_conversion_to_rgb_is_that_of_the_ffmpeg_program(kind, tmp_path):
    path = kind.make(tmp_path)
    frames, numbers = by_us(path)
    assert len(frames) == 30
    assert np.array_equal(frames, by_ffmpeg(path)[numbers])


@pytest.mark.parametrize("is_full_range", [False, True], ids=["limited range", "full range"])
@pytest.mark.parametrize("matrix", [1, 5, 9], ids=["BT.709", "BT.601", "BT.2020"])
@pytest.mark.parametrize(
    ("codec", "pix_fmt"),
    [("libx264", "yuv420p"), ("libx264", "yuv420p10le"), ("ffv1", "yuv444p12le"), ("libvpx-vp9", "yuv444p")],
)
def test_matrix_and_range_are_followed_as_the_ffmpeg_program_does(is_full_range, matrix, codec, pix_fmt, tmp_path):
    """Above 8 bits both ranges share a format, and only the frame tells which it is."""
    colours = np.random.default_rng(0).integers(0, 256, (8, 12, 3))
    picture = np.kron(colours, np.ones((8, 8, 1))).astype(np.uint8)
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, pix_fmt
        stream.codec_context.color_range, stream.codec_context.colorspace = 1 + is_full_range, matrix
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(np.roll(picture, 8 * number, axis=1), "rgb24").reformat(format=pix_fmt)
            frame.pts, frame.time_base = number, Fraction(1, 10)
            frame.color_range, frame.colorspace = 1 + is_full_range, matrix
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    assert np.array_equal(by_us(path)[0], by_ffmpeg(path))


def test_deinterlacing_is_that_of_the_ffmpeg_program_and_changes_interlaced_video_only(tmp_path):
    path = moving_fields(tmp_path)
    plain, _ = by_us(path)
    for fps in (1000.0, 4.0):
        frames, numbers = by_us(path, fps=fps, deinterlace=True)
        assert np.array_equal(frames, by_ffmpeg(path, video_filter=YADIF)[numbers])
        assert not np.array_equal(frames, plain[numbers])
    progressive = write_clip(tmp_path / "plain.mp4", map(numbered, range(20)))
    assert np.array_equal(by_us(progressive, deinterlace=True)[0], by_us(progressive)[0])
