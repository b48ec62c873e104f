"""Files that claim more than they hold are refused from their header, before memory is taken."""

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from support.kinds import x264
from support.make_clips import numbered, write_clip
from support.sources import video_bytes

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video import probe
from easyvideor1.video.mp4 import read_index
from easyvideor1.video.mp4_claims import claims_too_much
from easyvideor1.video.sampling import plan_media, vision_spec
from easyvideor1.video.source import MOST_PIXELS

VISION = vision_spec({"model_type": "qwen3_vl"})
MANY = 80_000_000
"""FFmpeg makes entries of 24 to 60 bytes for as many frames as are claimed, up to 89 million."""


def plan(**media):
    return plan_media(Media(kind="video", **media), FrameSpec(), VISION)


def one_size(content: bytes) -> bytes:
    """Frames of one byte, as many as can be, in one chunk, each of the usual length."""
    at = content.index(b"stsz") + 8
    content = content[:at] + struct.pack(">II", 1, MANY) + content[at + 8 :]
    for box, offset in ((b"stts", 8), (b"ctts", 8), (b"stsc", 12)):
        at = content.index(box) + 4 + offset
        content = content[:at] + struct.pack(">I", MANY) + content[at + 4 :]
    return content


def compressed(content: bytes) -> bytes:
    """The same with its index compressed, as QuickTime did."""
    at = content.index(b"moov") - 4
    size = int.from_bytes(content[at : at + 4], "big")
    movie = zlib.compress(content[at : at + size])

    def box(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I4s", 8 + len(body), kind) + body

    data = box(b"cmvd", struct.pack(">I", size) + movie)
    return content[:at] + box(b"moov", box(b"cmov", box(b"dcom", b"zlib") + data)) + content[at + size :]


def usual_frames(content: bytes) -> bytes:
    """A fragment whose frames have no values of their own."""
    at = content.index(b"trun") + 4
    return content[:at] + struct.pack(">II", 0x01000001, MANY) + content[at + 8 :]


def absent_frames(content: bytes) -> bytes:
    """A fragment whose frames have values of their own, which are not there."""
    at = content.index(b"trun") + 8
    return content[:at] + struct.pack(">I", MANY) + content[at + 4 :]


def without_type(content: bytes) -> bytes:
    """What opens it is not its first box."""
    size = int.from_bytes(content[:4], "big")
    return content[:4] + b"free" + content[8:size] + content[size:]


FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
LIES: dict[str, tuple[dict, Callable[[bytes], bytes]]] = {
    "frames of one size": ({}, one_size),
    "in a compressed index": ({}, lambda content: compressed(one_size(content))),
    "without a type": ({}, lambda content: without_type(one_size(content))),
    "usual frames of a fragment": (FRAGMENTED, usual_frames),
    "absent frames of a fragment": (FRAGMENTED, absent_frames),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_index_that_claims_what_the_file_cannot_hold_is_not_shown_to_ffmpeg(lie, tmp_path, monkeypatch):
    options, change = LIES[lie]
    path = write_clip(tmp_path / "a.mp4", map(numbered, range(6)), codec_options={"bf": "2"}, container_options=options)
    content = change(path.read_bytes())
    assert len(content) < 4096
    monkeypatch.setattr(probe, "opened", lambda source, **options: pytest.fail("FFmpeg was asked"))
    with pytest.raises(MediaError, match=rf"lie\.mp4: its index claims more frames than its {len(content)} bytes"):
        plan(path="lie.mp4", data=content)


def test_true_claims_pass(tmp_path):
    raw: dict[str, Any] = {"codec": "rawvideo", "pix_fmt": "yuv420p", "container_format": "mov"}
    fragmented: dict[str, Any] = {"container_options": FRAGMENTED}
    for number, options in enumerate(({}, fragmented, raw)):
        path = write_clip(tmp_path / f"{number}.mp4", map(numbered, range(6)), **options)
        for content in (path.read_bytes(), compressed(path.read_bytes())):
            with video_bytes(content).open() as file:
                index = read_index(file, len(content))
                assert index is not None
                assert not claims_too_much(index, file, len(content))
        assert len(plan(path=str(path)).times_s) == 4


def png_of(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("1", (width, height)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("side", [12_000, 20_000])  # Pillow opens the first, and refuses the second itself
@pytest.mark.parametrize("kind", ["image", "video"])
def test_a_picture_of_too_many_pixels_is_refused_from_its_header(side, kind, monkeypatch):
    content = png_of(side, side)
    assert len(content) < 60_000
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("its pixels were read"))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("its pixels were read"))
    with pytest.raises(MediaError, match=rf"large\.png: .*: pictures above {MOST_PIXELS} pixels are refused"):
        plan_media(Media(kind=kind, path="large.png", data=content), FrameSpec(), VISION)


def test_a_picture_of_a_folder_is_refused_too(tmp_path):
    (tmp_path / "1.png").write_bytes(png_of(12_000, 12_000))
    with pytest.raises(MediaError, match="12000x12000 pixels: pictures above"):
        plan(path=str(tmp_path), fps=1.0)


def with_size(content: bytes, width: int, height: int) -> bytes:
    """A GIF that says it is this large."""
    return content[:6] + struct.pack("<HH", width, height) + content[10:]


def test_a_video_of_too_many_pixels_is_refused_from_its_header(tmp_path):
    gif = io.BytesIO()
    Image.fromarray(numbered(0)).save(gif, "GIF")
    with pytest.raises(MediaError, match=rf"above {MOST_PIXELS} pixels"):
        plan(path="large.gif", data=with_size(gif.getvalue(), 16_000, 16_000))
    content = x264("a.mp4")(tmp_path).read_bytes()
    at = content.index(b"avcC")
    # a sequence parameter set of 1000 x 1000 blocks, nothing else
    bits = "01000010" + "00000000" + "00011110" + "1" * 2 + "1" * 2 + "1" + "0"
    blocks = f"{'0' * 9}{1000:b}"
    text = (bits + blocks * 2 + "1" + "1" + "0" + "0" + "1").ljust(8 * 16, "0")
    header = bytes([0x67]) + int(text, 2).to_bytes(16, "big")
    size = int.from_bytes(content[at + 10 : at + 12], "big")
    large = content[: at + 12] + header[:size].ljust(size, b"\0") + content[at + 12 + size :]
    with pytest.raises(MediaError, match=rf"16000x16000 pixels: pictures above {MOST_PIXELS} pixels are refused"):
        plan(path="large.mp4", data=large)
