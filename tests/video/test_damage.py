"""Whatever is done to a file, there is a verdict: the same for a path and for bytes, and soon."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from av.error import InvalidDataError
from support.kinds import KINDS
from support.make_clips import read_number
from support.sources import file_of

from easyvideor1.errors import MediaError
from easyvideor1.jobs.worker import Worker
from easyvideor1.runs.looking import Request, look
from easyvideor1.types import Clip, FrameSpec, Media
from easyvideor1.video import known_files, packets
from easyvideor1.video.container import MOST_FAILED_ENDS, frames_from_start
from easyvideor1.video.decode import decode
from easyvideor1.video.h264 import picture_format
from easyvideor1.video.sampling import plan_media, vision_spec

VISION = vision_spec({"model_type": "qwen3_vl"})
SPEC = FrameSpec(min_pixels=1024, max_pixels=16_384, max_frames=8)
SOURCES = (
    "plain", "open groups", "open groups, transport", "hevc", "vp9", "av1", "h264 in avi, no times", "flash", "gif",
    "fragmented", "edit list", "animated png", "animated webp", "animated avif", "with sound",
)  # fmt: skip
DEADLINE_S = 20.0


def damaged(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice([1, 3, 30])):
        at, change = rng.randrange(len(data)), rng.random()
        if change < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        elif change < 0.8:
            data[at : at + 8] = rng.randbytes(8)
        else:
            data[at : at + rng.randrange(1, 40)] = rng.randbytes(rng.randrange(8))
    return bytes(data[: rng.randrange(1, len(data))] if rng.random() < 0.1 else data)


def verdict(worker: Worker, media: Media) -> Clip | str:
    """The clip, or what is wrong with it."""
    try:
        _, clip = worker.call(Request(media=media, spec=SPEC, vision=VISION, with_frames=True), deadline_s=DEADLINE_S)
    except MediaError as error:
        return str(error)
    return clip


def test_a_damaged_file_always_gets_a_verdict(tmp_path):
    kinds = {kind.name: kind for kind in KINDS}
    contents = []
    for number, name in enumerate(SOURCES):
        (tmp_path / str(number)).mkdir()
        contents.append(kinds[name].make(tmp_path / str(number)).read_bytes())
    rng = random.Random(1)
    worker = Worker(look)
    num_errors = 0
    for number in range(150):
        path = tmp_path / "damaged"
        path.write_bytes(damaged(rng.choice(contents), rng))
        found = verdict(worker, Media(kind="video", path=str(path)))
        assert worker.is_alive, f"number {number}: {found}"
        if isinstance(found, str):
            assert str(path) in found
            assert "unexpected" not in found
            num_errors += 1
        else:
            assert len(found.frames) == len(found.times_s)
            assert (np.diff(found.times_s) > 0).all()
    worker.kill()
    assert 20 < num_errors < 130


def test_a_decoder_that_fails_for_ever_at_the_end_is_given_up():
    calls = []

    def decode(packet):
        calls.append(packet)
        raise InvalidDataError(1, "damaged")

    container: Any = SimpleNamespace(demux=lambda stream: iter([]))
    stream: Any = None
    decoder: Any = SimpleNamespace(decode=decode)
    assert list(frames_from_start(container, stream, decoder, is_strict=False)) == []
    assert len(calls) == MOST_FAILED_ENDS


def test_frames_that_the_index_promises_and_the_file_does_not_hold_are_missing(tmp_path, monkeypatch):
    path = str({kind.name: kind for kind in KINDS}["plain"].make(tmp_path))
    plan = plan_media(Media(kind="video", path=path), SPEC, VISION)
    whole = packets.scan(file_of(plan.media))
    some = replace(whole, shown=whole.shown[:20], times_s=whole.times_s[:20], is_cut=True)
    monkeypatch.setattr(known_files, "scan", lambda source: some)
    clip = decode(plan)
    assert clip.warnings == ("2 of 6 frames cannot be decoded; the nearest stands in",)
    assert clip.times_s == plan.times_s
    late = replace(whole, shown=whole.shown[9:], times_s=whole.times_s[:21], lost_s=0.9, is_cut=True)
    monkeypatch.setattr(known_files, "scan", lambda source: late)
    numbers = [round(read_number(frame)) for frame in decode(plan).frames]
    assert numbers == [12, 12, 12, 17, 23, 29]  # 0 and 6 are not there, 12 is the nearest that is
    untimed = replace(some, has_times=False)
    monkeypatch.setattr(known_files, "scan", lambda source: untimed)
    with pytest.raises(MediaError, match="its index promises 30 frames, 20 can be read"):
        decode(plan)


def test_no_header_of_h264_is_too_odd():
    rng = random.Random(5)
    for _ in range(3000):
        content = rng.randbytes(rng.randrange(60))
        found = picture_format(bytes([1]) + content[1:])
        assert found is None or min(found[:2]) > 0
