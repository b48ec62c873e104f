"""What containers say beside the stream: crops, speeds, Dolby Vision; and pictures that are not like the first."""

import struct
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg
import numpy as np
import pytest
from support.make_clips import numbered, read_number, write_clip

from easyvideor1.errors import MediaError
from easyvideor1.types import FrameSpec, Media
from easyvideor1.video.decode import decode
from easyvideor1.video.matroska import crop_of, video_tracks
from easyvideor1.video.sampling import plan_media, vision_spec

VISION = vision_spec({"model_type": "qwen3_vl"})
EVERY = FrameSpec(min_pixels=1024, fps=1000.0)
SHARP = {"crf": "10", "bf": "0"}
IN_TRACK = (b"stbl", b"minf", b"mdia", b"trak", b"moov")


def seen(path: Path, spec: FrameSpec = EVERY):
    plan = plan_media(Media(kind="video", path=str(path)), spec, VISION)
    return plan, decode(plan)


def by_ffmpeg(path: Path, height: int, width: int) -> np.ndarray:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24"]
    found = subprocess.run([*command, "-"], capture_output=True, check=True).stdout
    return np.frombuffer(found, np.uint8).reshape(-1, height, width, 3).transpose(0, 3, 1, 2)


def box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def grown(content: bytes, kinds: tuple[bytes, ...], num_bytes: int) -> bytes:
    """An MP4 whose index stands at the end, some boxes of it told to be longer."""
    data = bytearray(content)
    for kind in kinds:
        at = data.index(kind) - 4
        data[at : at + 4] = struct.pack(">I", struct.unpack(">I", data[at : at + 4])[0] + num_bytes)
    return bytes(data)


def with_sample_box(content: bytes, new: bytes) -> bytes:
    """With a box at the end of the description of the frames."""
    kinds = (b"avc1\0\0\0\0", b"stsd", *IN_TRACK)
    at = content.index(kinds[0]) - 4
    end = at + struct.unpack(">I", content[at : at + 4])[0]
    return grown(content[:end] + new + content[end:], kinds, len(new))


def with_table(content: bytes, kind: bytes, body: bytes, inside: tuple[bytes, ...]) -> bytes:
    """With another table in place of one."""
    at = content.index(kind) - 4
    size = struct.unpack(">I", content[at : at + 4])[0]
    new = box(kind, body)
    return grown(content[:at] + new + content[at + size :], inside, len(new) - size)


def mp4(tmp_path: Path, **options) -> bytes:
    settings: dict[str, Any] = {"codec_options": SHARP} | options
    return write_clip(tmp_path / "plain.mp4", map(numbered, range(30)), **settings).read_bytes()


def aperture(width: int, height: int, right: Fraction = Fraction(0), down: Fraction = Fraction(0)) -> bytes:
    offsets = right.numerator, right.denominator, down.numerator, down.denominator
    return box(b"clap", struct.pack(">IIIIiIiI", width, 1, height, 1, *offsets))


@pytest.mark.parametrize(
    ("clap", "size"),
    [
        (aperture(64, 32), (32, 64)),
        (aperture(64, 32, Fraction(8), Fraction(-4)), (32, 64)),
        (aperture(32, 32, Fraction(-32), Fraction(16)), (32, 32)),
    ],
)
def test_a_clean_aperture_is_cut_out_as_the_ffmpeg_program_does(clap, size, tmp_path):
    path = tmp_path / "clap.mp4"
    path.write_bytes(with_sample_box(mp4(tmp_path), clap))
    expected = by_ffmpeg(path, *size)
    plan, clip = seen(path)
    whole = seen(tmp_path / "plain.mp4")[0]
    assert plan.cache_key != whole.cache_key
    assert np.array_equal(clip.frames, expected[list(plan.frame_numbers)])


@pytest.mark.parametrize(
    "clap", [aperture(0, 0), aperture(960, 640), aperture(64, 32, Fraction(900)), b"", box(b"clap", b"\0" * 32)]
)
def test_an_aperture_that_makes_no_sense_is_not_believed(clap, tmp_path):
    path = tmp_path / "clap.mp4"
    path.write_bytes(with_sample_box(mp4(tmp_path), clap))
    assert np.array_equal(seen(path)[1].frames, seen(tmp_path / "plain.mp4")[1].frames)


def matroska_with(tmp_path: Path, video: bytes, track: bytes) -> Path:
    """A Matroska file with more at the end of the header of its video and of its video track."""
    path = write_clip(tmp_path / "plain.mkv", map(numbered, range(30)), codec_options=SHARP)
    content = bytearray(path.read_bytes())
    at = content.index(b"\xe0\x8a\xb0\x81\x60")  # a video element of 10 bytes
    content[at + 1] += len(video)
    content[at + 12 : at + 12] = video + track
    tracks = content.rindex(b"\x16\x54\xae\x6b") + 4
    for start in (content.index(b"\x18\x53\x80\x67") + 4, tracks, content.index(b"\xae", tracks) + 1):
        length = 9 - content[start].bit_length()
        size = int.from_bytes(content[start : start + length], "big") + len(video + track)
        content[start : start + length] = size.to_bytes(length, "big")
    changed = tmp_path / "changed.mkv"
    changed.write_bytes(content)
    return changed


def number(kind: int, value: int) -> bytes:
    return kind.to_bytes(2, "big") + b"\x82" + value.to_bytes(2, "big")


def test_a_crop_in_a_matroska_header_is_followed_as_the_ffmpeg_program_does(tmp_path):
    crop = number(0x54CC, 16) + number(0x54BB, 8) + number(0x54DD, 48) + number(0x54AA, 24)
    path = matroska_with(tmp_path, crop, b"")
    with path.open("rb") as file:
        assert crop_of(video_tracks(file, path.stat().st_size)[0]) == (16, 8, 48, 24)
    expected = by_ffmpeg(path, 32, 32)
    plan, clip = seen(path)
    assert np.array_equal(clip.frames, expected[list(plan.frame_numbers)])
    with pytest.raises(MediaError, match=r"changed\.mkv"):  # nothing would be left: FFmpeg refuses the file
        seen(matroska_with(tmp_path, number(0x54CC, 60) + number(0x54DD, 60), b""))


DOLBY = {
    "profile 5": (bytes([1, 0, 5 << 1, 0x2D, 0x00]) + bytes(19), True),
    "profile 8, with HDR10 to fall back on": (bytes([1, 0, 8 << 1, 0x2D, 0x10]) + bytes(19), False),
}


@pytest.mark.parametrize("kind", DOLBY)
def test_dolby_vision_without_other_colours_is_said(kind, tmp_path):
    record, is_said = DOLBY[kind]
    path = tmp_path / "dolby.mp4"
    path.write_bytes(with_sample_box(mp4(tmp_path), box(b"dvcC", record)))
    mapping = b"\x41\xe7\x84dvcC" + b"\x41\xed" + bytes([0x80 | len(record)]) + record
    track = b"\x41\xe4" + bytes([0x80 | len(mapping)]) + mapping
    for file in (path, matroska_with(tmp_path, b"", track)):
        assert any("Dolby Vision profile 5: its colours" in note for note in seen(file)[1].warnings) == is_said


def test_no_header_of_matroska_is_too_odd(tmp_path):
    path = write_clip(tmp_path / "a.mkv", map(numbered, range(4)), codec_options=SHARP)
    content = path.read_bytes()
    rng = np.random.default_rng(4)
    for _ in range(400):
        data = bytearray(content[:600])
        for at in rng.integers(0, 600, 3):
            data[at] = rng.integers(0, 256)
        path.write_bytes(data)
        with path.open("rb") as file:
            for track in video_tracks(file, len(data)):
                assert min(crop_of(track)) >= 0


@pytest.mark.parametrize(("rate", "says"), [(2, "2 times the speed"), (0, "a frame is held")])
def test_a_speed_in_an_edit_list_is_said(rate, says, tmp_path):
    content = mp4(tmp_path)
    body = struct.pack(">II", 0, 2) + struct.pack(">IiHH", 1000, 0, rate, 0) + struct.pack(">IiHH", 2000, 10240, 1, 0)
    path = tmp_path / "edit.mp4"
    path.write_bytes(with_table(content, b"elst", body, (b"edts", b"trak", b"moov")))
    assert any(says in note for note in seen(path)[1].warnings)
    assert seen(tmp_path / "plain.mp4")[1].warnings == ()


def test_a_last_frame_that_is_shown_for_hours_is_a_mistake(tmp_path):
    content = mp4(tmp_path)
    step = struct.unpack(">I", content[content.index(b"stts") + 16 :][:4])[0]
    table = struct.pack(">IIIIII", 0, 2, 29, step, 1, (1 << 31) - 1)
    path = tmp_path / "long.mp4"
    path.write_bytes(with_table(content, b"stts", table, IN_TRACK))
    plan, clip = seen(path, FrameSpec(min_pixels=1024))
    assert plan.duration_s == pytest.approx(3.0)
    assert plan.source_fps == pytest.approx(10.0)
    assert clip.times_s == pytest.approx((0.0, 0.6, 1.2, 1.7, 2.3, 2.9))
    assert any("its last frame is said to be shown for" in note for note in clip.warnings)


def test_a_change_of_size_is_said(tmp_path):
    """As video conferences record it: the sender turns, or its line gets slower."""
    path, count = tmp_path / "sizes.webm", 0
    with av.open(str(path), "w") as writer:
        stream = None
        for width, height in ((96, 64), (64, 96), (192, 128)):
            part = write_clip(
                tmp_path / "part.webm",
                [numbered(count + index, width=width, height=height) for index in range(5)],
                codec="libvpx",
                codec_options={"crf": "8", "b": "2M"},
            )
            with av.open(str(part)) as reader:
                stream = stream or writer.add_stream_from_template(reader.streams.video[0])
                for packet in (packet for packet in reader.demux(video=0) if packet.size):
                    changed = av.Packet(bytes(packet))
                    changed.pts = changed.dts = 100 * count
                    changed.time_base, changed.stream = Fraction(1, 1000), stream
                    changed.is_keyframe = packet.is_keyframe
                    writer.mux(changed)
                    count += 1
    plan, clip = seen(path)
    assert [round(read_number(frame)) for frame in clip.frames] == list(plan.frame_numbers)
    assert clip.warnings == (
        "its pictures change size (96x64, then 64x96); all are brought to one size, whatever their shape",
    )


def test_colours_that_cannot_be_converted_are_named(tmp_path):
    path = write_clip(
        tmp_path / "a.mp4", map(numbered, range(4)), codec_options=SHARP | {"x264-params": "colormatrix=YCgCo"}
    )
    with pytest.raises(MediaError, match=r"a\.mp4: its colours cannot be converted to RGB \(format yuv420p, matrix 8"):
        seen(path)
