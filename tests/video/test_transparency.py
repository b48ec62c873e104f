"""What is transparent is on white, in every kind of file: pixels of known colour and opacity."""

from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.stills import on_white

VISION = vision_spec({"model_type": "qwen3_vl"})
SPEC = FrameSpec(min_pixels=1024)
COLOUR = (200, 40, 90)
BANDS = (255, 128, 0)
"""Opacity of three bands of 32 columns."""
EXPECTED = [(200, 40, 90), (227, 147, 172), (255, 255, 255)]
"""200 * 128/255 + 255 * 127/255 = 227.4, and so on."""


def picture() -> np.ndarray:
    pixels = np.empty((64, 96, 4), np.uint8)
    pixels[..., :3] = COLOUR
    for band, opacity in enumerate(BANDS):
        pixels[:, 32 * band : 32 * band + 32, 3] = opacity
    return pixels


def write_video(path, codec, pix_fmt, **options: str):
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10, options=options)
        stream.width, stream.height, stream.pix_fmt = 96, 64, pix_fmt
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(picture(), "rgba")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def bands_of(frame: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(frame[:, 32, 32 * band + 16].tolist()) for band in range(3)]


VIDEOS = {
    "vp9.webm": ("libvpx-vp9", "yuva420p", {"crf": "4", "b": "0"}),
    "vp8.webm": ("libvpx", "yuva420p", {"crf": "4", "b": "4M", "auto-alt-ref": "0"}),
    "prores.mov": ("prores_ks", "yuva444p10le", {"profile": "4444"}),
    "animation.mov": ("qtrle", "argb", {}),
    "png.mov": ("png", "rgba", {}),
    "ffv1.mkv": ("ffv1", "bgra", {}),
    "raw.avi": ("rawvideo", "bgra", {}),
}


@pytest.mark.parametrize("name", VIDEOS)
def test_a_video_is_on_white(name, tmp_path):
    codec, pix_fmt, options = VIDEOS[name]
    write_video(tmp_path / name, codec, pix_fmt, **options)
    plan = plan_media(Media(kind="video", path=str(tmp_path / name)), SPEC, VISION)
    clip = decode(plan)
    tolerance = 4 if pix_fmt.startswith("yuv") else 0  # what the codec and the conversion lose
    for frame in clip.frames:
        for found, wanted in zip(bands_of(frame), EXPECTED, strict=True):
            assert found == pytest.approx(wanted, abs=tolerance)
    assert clip.warnings == ()


@pytest.mark.parametrize("name", ["a.webp", "a.png", "a.avif"])
def test_an_animation_is_on_white(name, tmp_path):
    frames = [Image.fromarray(picture() - np.array([number, 0, 0, 0], np.uint8)) for number in range(3)]
    options: dict[str, Any] = {"lossless": True} if name == "a.webp" else {"quality": 100} if name == "a.avif" else {}
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], duration=100, **options)
    clip = decode(plan_media(Media(kind="video", path=str(tmp_path / name)), SPEC, VISION))
    for found, wanted in zip(bands_of(clip.frames[0]), EXPECTED, strict=True):
        assert found == pytest.approx(wanted, abs=4 if name == "a.avif" else 0)


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tif"])
def test_an_image_is_on_white(name, tmp_path):
    options: dict[str, Any] = {"lossless": True, "exact": True} if "webp" in name else {}
    Image.fromarray(picture()).save(tmp_path / name, **options)
    clip = decode(plan_media(Media(kind="image", path=str(tmp_path / name)), SPEC, VISION))
    assert bands_of(clip.frames[0]) == EXPECTED


def test_a_gif_is_on_white_with_the_key_it_always_had(tmp_path):
    pixels = picture()
    pixels[:, 32:64, 3] = 255  # a GIF knows no half
    frames = [Image.fromarray(pixels - np.array([number, 0, 0, 0], np.uint8)) for number in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:], duration=100, disposal=2)
    plan = plan_media(Media(kind="video", path=str(tmp_path / "a.gif")), SPEC, VISION)
    assert bands_of(decode(plan).frames[0]) == [COLOUR, COLOUR, (255, 255, 255)]


def test_an_opaque_picture_is_as_the_ffmpeg_program_makes_it(tmp_path):
    """Through the layout with opacity, not one value changes."""
    rng = np.random.default_rng(1)
    with av.open(str(tmp_path / "a.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuva420p"
        pixels = np.dstack([rng.integers(0, 256, (64, 96, 3), np.uint8), np.full((64, 96), 255, np.uint8)])
        container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgba")))
        container.mux(stream.encode())
    clip = decode(plan_media(Media(kind="video", path=str(tmp_path / "a.mkv")), SPEC, VISION))
    with av.open(str(tmp_path / "a.mkv")) as container:
        frame = next(container.decode(video=0))
        plain = frame.reformat(format="rgb24").to_ndarray()
    assert np.array_equal(clip.frames[0], plain.transpose(2, 0, 1))


def test_rounding_is_that_of_pillow():
    opacity, value = np.meshgrid(np.arange(256), np.arange(256), indexing="ij")
    pixels = np.dstack([value, value, value, opacity]).astype(np.uint8)
    image = Image.fromarray(pixels)
    white = Image.new("RGBA", image.size, (255, 255, 255, 255))
    assert np.array_equal(on_white(pixels), np.asarray(Image.alpha_composite(white, image).convert("RGB")))


def test_torchcodec_leaves_transparency_out_and_is_not_asked(tmp_path):
    pytest.importorskip("torchcodec")
    write_video(tmp_path / "a.mkv", "ffv1", "bgra")
    spec = FrameSpec(min_pixels=1024, backend="torchcodec")
    plan = plan_media(Media(kind="video", path=str(tmp_path / "a.mkv")), spec, VISION)
    with pytest.raises(MediaError, match="transparency"):
        decode(plan)
