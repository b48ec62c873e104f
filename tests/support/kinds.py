"""Kinds of troublesome inputs: how to make each, and what the right answer is.

A clip says its own frame numbers (see make_clips): `number(time)` is what has to be read back at a time.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.stream import Disposition
from PIL import Image

from support.make_clips import numbered, write_clip

Make = Callable[[Path], Path]
X264 = {"crf": "10", "preset": "veryfast"}
RATE = {"b": "4M"}
X265 = {"crf": "10", "preset": "ultrafast"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    name: str
    make: Make
    """Writes into a folder; returns the path to open."""
    verdict: Literal["ok", "warn", "error"] = "ok"
    says: str = ""
    """Pattern in the error or in one of the warnings."""
    size: tuple[int, int] = (64, 96)
    """Height and width after resizing with min_pixels = 1024."""
    number: Callable[[float], float] | None = lambda time_s: 10 * time_s
    """Frame number that stands in the picture at a time; None: nothing readable."""
    times_s: tuple[float, ...] | None = None
    fps: float | None = None
    """Given with the medium, for frame folders."""
    is_upright: bool = True
    """Whether the red block has to be at the top left."""


def clip(name: str, count: int = 30, *, width: int = 96, height: int = 64, **options) -> Make:
    def make(folder: Path) -> Path:
        options.setdefault("codec_options", X264 if options.get("codec", "libx264") == "libx264" else {})
        pictures = (numbered(number, width=width, height=height) for number in range(count))
        return write_clip(folder / name, pictures, **options)

    return make


def x264(name: str, **options: str) -> Make:
    return clip(name, codec_options=X264 | options)


def turned(name: str, turns: int, rotation: int, *, width: int, height: int) -> Make:
    """Stored turned by quarter turns counter-clockwise, with the display matrix that turns it back."""

    def make(folder: Path) -> Path:
        pictures = (np.rot90(numbered(number, width=width, height=height), turns) for number in range(20))
        return write_clip(folder / name, pictures, codec_options=X264, rotation=rotation)

    return make


def mirrored(folder: Path) -> Path:
    """Stored mirrored left to right, as front cameras do, with a mirroring display matrix."""
    path = folder / "mirrored.mp4"
    write_clip(path, (numbered(number)[:, ::-1] for number in range(20)), codec_options=X264, rotation=0)
    data = bytearray(path.read_bytes())
    matrix_at = data.index(b"tkhd") + 4 + 40
    one = (1 << 16).to_bytes(4, "big", signed=True)
    assert data[matrix_at : matrix_at + 4] == one
    data[matrix_at : matrix_at + 4] = (-(1 << 16)).to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    return path


def timed(name: str, times_ms: list[int], *, codec: str = "ffv1") -> Make:
    """Frames whose number is their time in units of 0.1 s, at any times."""

    def make(folder: Path) -> Path:
        first = times_ms[0]
        pictures = (numbered((time - first) / 100) for time in times_ms)
        options = X264 | {"bf": "0"} if codec == "libx264" else {}
        return write_clip(folder / name, pictures, codec=codec, times_ms=times_ms, codec_options=options)

    return make


def bytes_of(data: bytes, name: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(data)
        return path

    return make


def cut(source: Make, name: str, *, keep_frac: float) -> Make:
    def make(folder: Path) -> Path:
        whole = source(folder).read_bytes()
        path = folder / name
        path.write_bytes(whole[: int(len(whole) * keep_frac)])
        return path

    return make


def overwritten(source: Make, name: str, start_frac: float, end_frac: float) -> Make:
    def make(folder: Path) -> Path:
        data = bytearray(source(folder).read_bytes())
        start, end = int(len(data) * start_frac), int(len(data) * end_frac)
        data[start:end] = bytes(end - start)
        path = folder / name
        path.write_bytes(data)
        return path

    return make


def renamed(source: Make, name: str) -> Make:
    return lambda folder: source(folder).rename(folder / name)


def noise(name: str, count: int = 30, **options) -> Make:
    """Pictures that are large in bytes, so that cutting a file cuts many frames."""

    def make(folder: Path) -> Path:
        rng = np.random.default_rng(0)
        pictures = (rng.integers(0, 256, (64, 96, 3), dtype=np.uint8) for _ in range(count))
        return write_clip(folder / name, pictures, **options)

    return make


def remuxed(source: Make, name: str, *, shift_s: float = 0.0, skip_keys: int = 0) -> Make:
    """The same packets with shifted times (below 0 an MP4 hides them by an edit list), from a later key frame on."""

    def make(folder: Path) -> Path:
        path = folder / name
        with av.open(str(source(folder))) as reader, av.open(str(path), "w") as writer:
            stream = writer.add_stream_from_template(reader.streams.video[0])
            num_keys = 0
            for packet in reader.demux(video=0):
                num_keys += packet.is_keyframe
                if packet.dts is None or num_keys <= skip_keys:
                    continue
                assert packet.pts is not None
                shift = round(shift_s / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream
                writer.mux(packet)
        return path

    return make


def stamped(name: str, times_ms: list[int]) -> Make:
    """Packets with these times, whatever they are; frames whose number is their place."""

    def make(folder: Path) -> Path:
        path = folder / name
        base = Fraction(1, 1000)
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mjpeg", rate=10)
            stream.width, stream.height, stream.pix_fmt = 96, 64, "yuvj420p"
            stream.codec_context.time_base = base
            for number, time_ms in enumerate(times_ms):
                frame = av.VideoFrame.from_ndarray(numbered(number), "rgb24")
                frame.pts, frame.time_base = 100 * number, base
                for packet in stream.encode(frame):
                    packet.pts = packet.dts = time_ms
                    packet.time_base = base
                    container.mux(packet)
        return path

    return make


def filtered(source: Make, name: str, rule: str) -> Make:
    """The same packets through a bitstream filter: another header, the same pictures."""

    def make(folder: Path) -> Path:
        path = folder / name
        with av.open(str(source(folder))) as reader, av.open(str(path), "w") as writer:
            stream = reader.streams.video[0]
            bitstream = av.BitStreamFilterContext(rule, stream)
            out = writer.add_stream_from_template(stream)
            for packet in reader.demux(stream):
                for changed in bitstream.filter(packet if packet.size else None):
                    changed.stream = out
                    writer.mux(changed)
        return path

    return make


def turned_hevc(name: str) -> Make:
    """Stored turned clockwise, with a display orientation message (ITU-T H.265, D.2.17) before each picture."""

    def make(folder: Path) -> Path:
        pictures = (np.rot90(numbered(number), -1) for number in range(20))
        plain = write_clip(folder / f"plain_{name}", pictures, codec="libx265", codec_options=X265)
        # not cancelled, not mirrored, a quarter turn of 2 ** 16 anti-clockwise, until further notice; rest of the byte
        bits = f"{0b000:03b}{1 << 14:016b}1" + "1000"
        payload = int(bits, 2).to_bytes(3, "big")
        message = bytes([39 << 1, 1, 47, len(payload)]) + payload + b"\x80"
        path = folder / name
        with av.open(str(plain)) as reader, av.open(str(path), "w") as writer:
            stream = writer.add_stream_from_template(reader.streams.video[0])
            for packet in reader.demux(video=0):
                if packet.size:
                    changed = av.Packet(len(message).to_bytes(4, "big") + message + bytes(packet))
                    changed.pts, changed.dts, changed.time_base = packet.pts, packet.dts, packet.time_base
                    changed.duration, changed.is_keyframe, changed.stream = packet.duration, packet.is_keyframe, stream
                    writer.mux(changed)
        return path

    return make


def with_stamps(source: Make, name: str, changes: dict[int, int]) -> Make:
    """The same packets in Matroska, some (by their place in the file) with another display time in ms."""

    def make(folder: Path) -> Path:
        path = folder / name
        with av.open(str(source(folder))) as reader, av.open(str(path), "w") as writer:
            stream = writer.add_stream_from_template(reader.streams.video[0])
            for place, packet in enumerate(packet for packet in reader.demux(video=0) if packet.size):
                packet.stream = stream
                if place in changes:
                    packet.pts = round(Fraction(changes[place], 1000) / packet.time_base)
                packet.dts = place  # in order, and before all display times
                writer.mux(packet)
        return path

    return make


def jpeg_stream(name: str, *, part: bytes = b"") -> Make:
    """JPEG pictures one after the other, `part` before each."""

    def make(folder: Path) -> Path:
        path = folder / name
        pictures = []
        for number in range(30):
            buffer = io.BytesIO()
            Image.fromarray(numbered(number)).save(buffer, "JPEG", quality=95)
            head = part and part + b"Content-Length: %d\r\n\r\n" % len(buffer.getvalue())
            pictures.append(head + buffer.getvalue() + (b"\r\n" if part else b""))
        path.write_bytes(b"".join(pictures))
        return path

    return make


def joined(first: Make, second: Make, name: str) -> Make:
    """One file after the other, as recorders and download programs join the pieces of a transport stream."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(first(folder).read_bytes() + second(folder).read_bytes())
        return path

    return make


def picture_with(name: str, *, turned: bool = False, mode: str = "RGB", **options) -> Make:
    """A still with an EXIF orientation that turns it upright, or in another colour mode."""

    def make(folder: Path) -> Path:
        picture = Image.fromarray(numbered(0)).convert(mode)
        if turned:
            exif = Image.Exif()
            exif[0x0112] = 6
            picture, options["exif"] = picture.transpose(Image.Transpose.ROTATE_90), exif
        path = folder / name
        picture.save(path, **options)
        return path

    return make


def two_sizes(folder: Path) -> Path:
    """A small stream first, the larger one second."""
    path = folder / "two_streams.mp4"
    with av.open(str(path), "w") as container:
        streams = []
        for width, height in ((48, 32), (96, 64)):
            stream = container.add_stream("libx264", rate=10, options=dict(X264))
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            streams.append(stream)
        for number in range(30):
            for stream in streams:
                picture = numbered(number, width=stream.width, height=stream.height)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        for stream in streams:
            container.mux(stream.encode())
    return path


def with_audio(name: str, *, with_video: bool, with_cover: bool = False, first_audio_s: float = 0.0) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        with av.open(str(path), "w", format="mp4") as container:
            audio = container.add_stream("aac", rate=16_000, layout="mono")
            cover = container.add_stream("png", rate=1) if with_cover else None
            if cover is not None:
                cover.width, cover.height, cover.pix_fmt = 64, 64, "rgb24"
                cover.disposition = Disposition.attached_pic
            video = container.add_stream("libx264", rate=10, options=dict(X264)) if with_video else None
            if video is not None:
                video.width, video.height, video.pix_fmt = 96, 64, "yuv420p"
            if cover is not None:
                green = np.full((64, 64, 3), (0, 200, 0), np.uint8)
                container.mux(cover.encode(av.VideoFrame.from_ndarray(green, "rgb24")))
                container.mux(cover.encode())
            for number in range(30):
                if video is not None:
                    frame = av.VideoFrame.from_ndarray(numbered(number), "rgb24")
                    frame.time_base, frame.pts = Fraction(1, 10), number + round(10 * first_audio_s)
                    container.mux(video.encode(frame))
                sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
                sound.sample_rate, sound.time_base, sound.pts = 16_000, Fraction(1, 16_000), number * 1024
                container.mux(audio.encode(sound))
            for stream in (audio, video):
                if stream is not None:
                    container.mux(stream.encode())
        return path

    return make


def animation(name: str, delays_ms: list[int] | int, **options) -> Make:
    def make(folder: Path) -> Path:
        count = 20 if isinstance(delays_ms, int) else len(delays_ms)
        pictures = [Image.fromarray(numbered(number)) for number in range(count)]
        path = folder / name
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=delays_ms, loop=0, **options)
        return path

    return make


def still(name: str, kind: str) -> Make:
    def make(folder: Path) -> Path:
        path = folder / name
        Image.fromarray(numbered(0)).save(path, kind)
        return path

    return make


def frame_folder(name: str, *, sizes: tuple[int, ...] = (96,)) -> Make:
    """Names without leading zeros: frame_10 has to come after frame_9."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.mkdir()
        for number in range(12):
            picture = numbered(number, width=sizes[number % len(sizes)])
            Image.fromarray(picture).save(path / f"frame_{number + 1}.png")
        return path

    return make


def empty_folder(folder: Path) -> Path:
    path = folder / "folder.mp4"
    path.mkdir()
    return path


def broken_link(folder: Path) -> Path:
    path = folder / "gone.mp4"
    path.symlink_to(folder / "missing" / "gone.mp4")
    return path


def interlaced(folder: Path) -> Path:
    options = X264 | {"flags": "+ilme+ildct", "x264opts": "tff=1"}
    return write_clip(folder / "interlaced.mp4", map(numbered, range(30)), codec_options=options)


def png_bytes() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(numbered(0)).save(buffer, "PNG")
    return buffer.getvalue()


EVEN = (0.0, 0.6, 1.2, 1.7, 2.3, 2.9)
CUT_BODY = {"movflags": "+faststart"}

CODECS = [
    Kind(name="plain", make=x264("a.mp4"), times_s=EVEN),
    Kind(
        name="one key frame",
        make=x264("one_key.mp4", g="9999", bf="3", **{"x264-params": "scenecut=0:b-adapt=0"}),
        times_s=EVEN,
    ),
    Kind(
        name="many references",
        make=x264("pyramid.mp4", bf="8", refs="6", **{"x264-params": "b-pyramid=normal:scenecut=0:b-adapt=0"}),
    ),
    Kind(
        name="open groups", make=x264("open.mp4", g="10", bf="3", **{"x264-params": "open-gop=1:scenecut=0:b-adapt=0"})
    ),
    Kind(
        name="open groups, matroska",
        make=x264("open.mkv", g="10", bf="3", **{"x264-params": "open-gop=1:scenecut=0:b-adapt=0"}),
    ),
    Kind(
        name="open groups, transport",
        make=x264("open.ts", g="10", bf="3", **{"x264-params": "open-gop=1:scenecut=0:b-adapt=0"}),
    ),
    Kind(name="intra refresh", make=x264("refresh.ts", bf="0", g="10", **{"x264-params": "intra-refresh=1"})),
    Kind(name="hevc", make=clip("a.hevc.mp4", codec="libx265", codec_options=X265)),
    Kind(name="hevc 10 bit", make=clip("b.mp4", codec="libx265", pix_fmt="yuv420p10le", codec_options=X265)),
    Kind(name="hevc open groups", make=clip("h.ts", codec="libx265", codec_options=X265 | {"x265-params": "keyint=8"})),
    Kind(name="h264 10 bit", make=clip("c.mp4", pix_fmt="yuv420p10le")),
    Kind(name="h264 4:2:2 10 bit", make=clip("d.mp4", pix_fmt="yuv422p10le")),
    Kind(name="h264 4:4:4", make=clip("e.mp4", pix_fmt="yuv444p")),
    Kind(name="av1", make=clip("a.av1.mp4", codec="libsvtav1", codec_options={"preset": "10", "crf": "20"})),
    Kind(name="vp8", make=clip("vp8.webm", codec="libvpx", codec_options={"crf": "10", "b": "1M"})),
    Kind(name="vp9", make=clip("vp9.webm", codec="libvpx-vp9", codec_options={"crf": "15", "b": "0", "g": "12"})),
    Kind(name="vp9 with alpha", make=clip("alpha.webm", codec="libvpx-vp9", pix_fmt="yuva420p")),
    Kind(name="mpeg-4 in avi", make=clip("m.avi", codec="mpeg4", codec_options=RATE)),
    Kind(name="mpeg-4 in mp4", make=clip("m.mp4", codec="mpeg4", codec_options=RATE | {"bf": "2"})),
    Kind(name="h264 in avi, no times", make=x264("no_pts.avi", bf="2", g="12")),
    Kind(name="h264 in asf, no times", make=x264("no_pts.asf", bf="3", g="12", **{"x264-params": "b-adapt=0"})),
    Kind(name="bare h264", make=x264("bare.h264", bf="2", g="12"), times_s=EVEN),
    Kind(name="bare hevc", make=clip("bare.hevc", codec="libx265", codec_options=X265), times_s=EVEN),
    Kind(name="motion jpeg", make=clip("j.avi", codec="mjpeg", pix_fmt="yuvj420p")),
    Kind(name="flash", make=clip("f.flv", codec="flv", codec_options=RATE)),
    Kind(name="windows media", make=clip("w.wmv", codec="wmv2", codec_options=RATE)),
    Kind(name="prores", make=clip("p.mov", codec="prores_ks", pix_fmt="yuv422p10le")),
    Kind(name="grey", make=clip("grey.mkv", codec="ffv1", pix_fmt="gray"), is_upright=False),
    Kind(name="raw rgb", make=clip("raw.avi", codec="rawvideo", pix_fmt="bgr24")),
    Kind(name="interlaced", make=interlaced),
]
TIMES = [
    Kind(name="one frame", make=clip("one.mp4", 1), times_s=(0.0,)),
    Kind(
        name="three frames", make=clip("three.mp4", 3, rate=30), number=lambda t: 30 * t, times_s=(0.0, 1 / 30, 2 / 30)
    ),
    Kind(
        name="slower than sampled",
        make=clip("slow.mp4", 4, rate=Fraction(1, 2)),
        number=lambda t: t / 2,
        times_s=(0, 2, 4, 6),
    ),
    Kind(name="ntsc", make=clip("ntsc.mp4", rate=Fraction(30_000, 1001)), number=lambda t: t * 30_000 / 1001),
    Kind(name="120 fps", make=clip("fast.mp4", 50, rate=120), number=lambda t: 120 * t),
    Kind(
        name="uneven",
        make=timed("vfr.mp4", [*range(0, 1000, 50), 1000, 1500, 2000, 2500], codec="libx264"),
        times_s=(0, 0.5, 1, 1.5, 2, 2.5),
    ),
    Kind(name="uneven, matroska", make=timed("vfr.mkv", [0, 40, 90, 500, 3000])),
    Kind(name="late start", make=timed("late.mkv", [5000, 5100, 5200, 5300, 5400]), times_s=(0.0, 0.1, 0.3, 0.4)),
    Kind(
        name="fragmented",
        make=clip("frag.mp4", container_options={"movflags": "frag_keyframe+empty_moov"}),
        times_s=EVEN,
    ),
    Kind(
        name="transport from 100 s",
        make=clip("offset.ts", codec="mpeg2video", container_options={"output_ts_offset": "100"}),
        times_s=EVEN,
    ),
    Kind(
        name="joined transport streams",
        make=joined(x264("j0.ts", bf="2"), x264("j1.ts", bf="2"), "j.ts"),
        verdict="warn",
        says="damaged packets",
        number=lambda t: 10 * t % 30,
        times_s=(0.0, 0.5, 1.1, 1.6, 2.1, 2.7, 3.2, 3.8, 4.3, 4.8, 5.4, 5.9),
    ),
    Kind(name="a time twice", make=stamped("twice.mkv", [*range(0, 1000, 100), 900, *range(1100, 2000, 100)])),
    Kind(
        name="one time twice among uneven ones",
        make=with_stamps(
            timed("t0.mkv", [0, 200, 500, 600, 700, 1600, 1700, 2900], codec="libx264"), "t.mkv", {4: 600}
        ),
        times_s=(0.0, 0.6, 1.1, 1.6, 1.7, 2.9),  # the doubled 0.6 goes half-way to the next, 1.6
        number=lambda t: 7 if 1.0 < t < 1.2 else 10 * t,
    ),
    Kind(name="no time moves", make=stamped("still.mkv", [0] * 20)),
    Kind(name="times below 0", make=stamped("below.mkv", list(range(-1000, 1000, 100)))),
    Kind(
        name="a long gap",
        make=stamped("gap.mkv", [0, 100, 200, 300, 400_000, 400_100]),
        number=None,
        times_s=(0.0, 0.1, 0.2, 0.3, 400.0, 400.1),
    ),
    Kind(name="wrapping clock", make=remuxed(x264("w0.ts"), "wrap.ts", shift_s=95_442.0), times_s=EVEN),
    Kind(
        name="edit list",
        make=remuxed(x264("e0.mp4", g="30", bf="2"), "edit.mp4", shift_s=-1.2),
        number=lambda t: 12 + 10 * t,
    ),
    Kind(name="gif", make=animation("a.gif", 100), times_s=(0.0, 0.6, 1.3, 1.9)),
    Kind(name="gif as fast as can be", make=animation("fast.gif", 10), times_s=(0.0, 0.6, 1.3, 1.9)),
    Kind(
        name="gif at the highest rate there is",
        make=animation("20ms.gif", 20),
        number=lambda t: 50 * t,
        times_s=(0.0, 0.12, 0.26, 0.38),
    ),
    Kind(
        name="webp as fast as can be",
        make=animation("fast.webp", 10, lossless=True),
        verdict="warn",
        says="animated WEBP",
        times_s=(0.0, 0.6, 1.3, 1.9),
    ),
    Kind(
        name="webp a little slower",
        make=animation("11ms.webp", 11, lossless=True),
        verdict="warn",
        says="animated WEBP",
        number=lambda t: t / 0.011,
        times_s=(0.0, 0.066, 0.143, 0.209),
    ),
    Kind(
        name="animated png as fast as can be",
        make=animation("fast.png", 5),
        verdict="warn",
        says="animated PNG",
        times_s=(0.0, 0.6, 1.3, 1.9),
    ),
    Kind(
        name="uneven gif",
        make=animation("b.gif", [100, 100, 100, 700, 100, 900]),
        number=None,
        times_s=(0.0, 0.3, 1.0, 1.1),
    ),
    Kind(
        name="uneven webp",
        make=animation("b.webp", [100, 100, 100, 700, 100, 900], lossless=True),
        verdict="warn",
        says="animated WEBP",
        number=None,
        times_s=(0.0, 0.3, 1.0, 1.1),
    ),
    Kind(
        name="animated avif",
        make=animation("a.avif", 100, quality=100, subsampling="4:4:4"),
        verdict="warn",
        says="animated AVIF",
        times_s=(0.0, 0.6, 1.3, 1.9),
    ),
    Kind(
        name="animated png with another picture before",
        make=animation("hidden.png", 100, default_image=True),
        verdict="warn",
        says="animated PNG",
        number=lambda t: 10 * t + 1,
    ),
    Kind(name="animated webp", make=animation("a.webp", 100, lossless=True), verdict="warn", says="animated WEBP"),
    Kind(name="animated png", make=animation("a.png", 100), verdict="warn", says="animated PNG"),
]
SHAPES = [
    Kind(name="phone, right", make=turned("r90.mp4", 1, -90, width=64, height=96), size=(96, 64)),
    Kind(name="phone, left", make=turned("r270.mp4", -1, 90, width=64, height=96), size=(96, 64)),
    Kind(name="upside down", make=turned("r180.mp4", 2, 180, width=96, height=64)),
    Kind(name="mirrored", make=mirrored),
    Kind(name="wide pixels", make=clip("sar.mp4", aspect=Fraction(2)), size=(64, 192)),
    Kind(
        name="wide pixels said by the stream",
        make=x264("vui.mp4", **{"x264-params": "sar=2/1"}),
        size=(64, 192),
    ),
    Kind(
        name="cropped by the stream",
        make=clip("crop.mp4", width=128, codec_options=X264 | {"x264-params": "crop-rect=0,0,32,0"}),
        is_upright=False,
    ),
    Kind(
        name="turned by the stream",
        make=filtered(
            clip("sei0.ts", width=64, height=96, codec_options=X264),
            "sei1.ts",
            "h264_metadata=display_orientation=insert:rotate=90",
        ),
        is_upright=False,
    ),
    Kind(
        name="turned by the stream, MP4",
        make=filtered(
            clip("sei2.mp4", width=64, height=96, codec_options=X264),
            "sei3.mp4",
            "h264_metadata=display_orientation=insert:rotate=90",
        ),
        is_upright=False,
    ),
    Kind(name="turned by the stream, HEVC in MP4", make=turned_hevc("sei.mp4")),
    Kind(name="turned by the stream, HEVC in Matroska", make=turned_hevc("sei.mkv")),
    Kind(name="odd size", make=clip("odd.mp4", width=97, height=65, pix_fmt="yuv444p")),
    Kind(
        name="tiny",
        make=clip("tiny.mp4", width=16, height=16, codec="mpeg4"),
        size=(32, 32),
        number=None,
        is_upright=False,
    ),
    Kind(
        name="very long", make=clip("long.mkv", width=1200, height=4, codec="ffv1"), verdict="error", says="1200x4.*200"
    ),
    Kind(name="two streams", make=two_sizes),
    Kind(name="with sound", make=with_audio("sound.mp4", with_video=True), times_s=EVEN),
    Kind(name="late video", make=with_audio("late.mp4", with_video=True, first_audio_s=0.5), times_s=EVEN),
    Kind(name="cover before video", make=with_audio("cover.mp4", with_video=True, with_cover=True), times_s=EVEN),
    Kind(name="sound only", make=with_audio("only.mp4", with_video=False), verdict="error", says="no video stream"),
    Kind(
        name="cover only",
        make=with_audio("art.mp4", with_video=False, with_cover=True),
        verdict="error",
        says="no video",
    ),
    Kind(
        name="all black",
        make=lambda folder: write_clip(folder / "black.mp4", [np.zeros((64, 96, 3), np.uint8)] * 9),
        verdict="warn",
        says="black",
        number=None,
        is_upright=False,
    ),
]
DAMAGED = [
    Kind(
        name="tail cut",
        make=cut(noise("t0.mp4", container_options=CUT_BODY), "t.mp4", keep_frac=0.55),
        verdict="warn",
        says="cut",
        number=None,
        is_upright=False,
    ),
    Kind(name="index cut", make=cut(noise("i0.mp4"), "i.mp4", keep_frac=0.6), verdict="error", says="index is missing"),
    Kind(
        name="tail cut, matroska",
        make=cut(noise("k0.mkv"), "k.mkv", keep_frac=0.6),
        verdict="warn",
        says="cut",
        number=None,
        is_upright=False,
    ),
    Kind(
        name="tail cut, avi",
        make=cut(noise("v0.avi", codec="mpeg4"), "v.avi", keep_frac=0.6),
        verdict="warn",
        says="cut",
        number=None,
        is_upright=False,
    ),
    Kind(
        name="hole",
        make=overwritten(noise("z0.mp4", codec_options={"g": "5"}), "z.mp4", 0.4, 0.45),
        verdict="warn",
        says="nearest",
        number=None,
        is_upright=False,
    ),
    Kind(
        name="cut at an open group",
        make=remuxed(
            x264("g0.mp4", g="10", bf="3", **{"x264-params": "open-gop=1:scenecut=0:b-adapt=0"}), "g.mp4", skip_keys=1
        ),
        number=lambda t: 10 + 10 * t,
    ),
    Kind(name="empty", make=bytes_of(b"", "empty.mp4"), verdict="error", says="0 bytes"),
    Kind(name="web page", make=bytes_of(b"<html><body>404</body></html>", "page.mp4"), verdict="error", says="<html>"),
    Kind(
        name="pointer file",
        make=bytes_of(b"version https://git-lfs.github.com/spec/v1\n", "lfs.mp4"),
        verdict="error",
        says="git-lfs",
    ),
    Kind(name="zeros", make=bytes_of(bytes(3000), "zeros.mp4"), verdict="error", says="not a video"),
    Kind(
        name="noise",
        make=bytes_of(np.random.default_rng(7).bytes(3000), "noise.mp4"),
        verdict="error",
        says="not a video",
    ),
    Kind(
        name="playlist", make=bytes_of(b"#EXTM3U\n#EXTINF:3,\na.ts\n", "list.mp4"), verdict="error", says="not a video"
    ),
]
NAMES = [
    Kind(
        name="webm named mp4",
        make=renamed(clip("n.webm", codec="libvpx-vp9", codec_options={"crf": "15", "b": "0"}), "webm.mp4"),
    ),
    Kind(name="mp4 named txt", make=renamed(x264("n.mp4"), "film.txt")),
    Kind(name="no extension", make=renamed(x264("n1.mp4"), "film")),
    Kind(name="odd name", make=renamed(x264("n2.mp4"), "we ird #1%20?ü.mp4")),
    Kind(name="colon", make=renamed(x264("n3.mp4"), "a:b.mp4")),
    Kind(
        name="picture named mp4",
        make=bytes_of(png_bytes(), "picture.mp4"),
        verdict="warn",
        says="still picture",
        times_s=(0.0,),
    ),
    Kind(name="jpeg", make=still("p.jpg", "JPEG"), verdict="warn", says="still picture", times_s=(0.0,)),
    Kind(
        name="motion jpeg, bare",
        make=jpeg_stream("bare.mjpeg"),
        verdict="warn",
        says="tells no times; 25 per second",
        number=lambda t: 25 * t,
    ),
    Kind(
        name="motion jpeg named jpg",
        make=jpeg_stream("bare.jpg"),
        verdict="warn",
        says="tells no times; 25 per second",
        number=lambda t: 25 * t,
    ),
    Kind(
        name="motion jpeg of a web camera",
        make=jpeg_stream("web.mjpg", part=b"--next\r\nContent-Type: image/jpeg\r\n"),
        verdict="warn",
        says="tells no times; 25 per second",
        number=lambda t: 25 * t,
    ),
    Kind(
        name="jpeg 2000", make=picture_with("p.jp2"), verdict="error", says="j2k_pipe|a picture of a kind", number=None
    ),
    Kind(
        name="targa", make=picture_with("p.tga"), verdict="error", says="a picture of a kind|not a video", number=None
    ),
    Kind(
        name="turned tiff",
        make=picture_with("t.tif", turned=True),
        verdict="warn",
        says="still picture",
        times_s=(0.0,),
    ),
    Kind(
        name="list of files",
        make=bytes_of(b"ffconcat version 1.0\nfile a.mp4\n", "cat.mp4"),
        verdict="error",
        says="list of other files|not a video",
    ),
    Kind(name="broken link", make=broken_link, verdict="error", says="gone.mp4: a link whose target is missing"),
    Kind(name="missing", make=lambda folder: folder / "nowhere.mp4", verdict="error", says="No such file"),
    Kind(name="folder named mp4", make=empty_folder, verdict="error", says="without pictures"),
    Kind(
        name="frames",
        make=frame_folder("frames"),
        fps=4.0,
        number=lambda t: 4 * t,
        times_s=(0.0, 0.5, 1.0, 1.75, 2.25, 2.75),
    ),
    Kind(name="frames without times", make=frame_folder("untimed"), verdict="error", says="fps.*carries no times"),
    Kind(
        name="frames of two sizes",
        make=frame_folder("sizes", sizes=(96, 64)),
        fps=4.0,
        verdict="error",
        says="differ in size",
    ),
]
KINDS = CODECS + TIMES + SHAPES + DAMAGED + NAMES
